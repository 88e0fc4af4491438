"""Removes what must not enter the log from extracted documents."""
