"""What operators look at: dashboards, rules, their tests, the runbook.

``python -m deploy.observability`` writes the files that are made from code (dashboards,
METRICS.md) anew; everything else is written by hand.
"""
