"""Turns and rows: JSON lines, chat exports, suites, captions."""
