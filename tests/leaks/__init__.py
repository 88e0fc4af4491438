"""Searches a made home for leaks: canary words of one scope, or of what a filter leaves out, in an answer to another.

python -m tests.leaks [--searches 10000] [--seed 1] [--backend duckdb|neo4j]
"""
