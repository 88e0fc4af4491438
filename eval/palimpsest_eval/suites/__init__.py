"""Suites in BEIR's layout, and loaders of public data."""
