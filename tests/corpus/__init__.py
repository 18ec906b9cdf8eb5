"""Verdicts on folders of PDFs about which the truth is known, and on PDFs that are mutated."""
