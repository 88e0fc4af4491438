"""Measures of rankings and their significance."""
