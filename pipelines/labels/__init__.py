"""Relation labels: what a newer memory does to an older one, by rules and a small classifier, by an LM, or by both."""
