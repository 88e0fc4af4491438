"""The checks after a load by name: apart from the checks, because the driver they need takes a second to import."""

CHECKS = {
    "build": "The server shows this home.",
    "counts": "Rows by label and by relationship type are the build's.",
    "index": "Every index is ONLINE, and the vectors' has their dimension.",
    "latest": "Each chain of updates has one latest memory.",
    "scope": "No relationship leads from one scope into another.",
    "labels": "Labels without Row are on what the published build shows, and on nothing else.",
    "latency": "p95 of complete queries on the largest scope is under 400 ms; never fails a load.",
}
"""What is checked after a load, by the word that its violations begin with."""

WARNINGS = frozenset({"latency"})
"""Checks of the machine and not of the load: they never fail it."""
