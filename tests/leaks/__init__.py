"""Searches a made home for leaks: canary words of a scope, or of what a filter leaves out, in an answer to another."""
