"""What operators look at, tried on the real thing: a real Prometheus scrapes real workers under
load, every expression is evaluated there, and the status page is opened in a real browser.

    python -m tests.observe
"""
