"""Summaries of what memories say, made when they are read."""
