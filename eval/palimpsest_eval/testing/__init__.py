"""Fakes for what a test cannot have."""
