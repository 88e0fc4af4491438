"""Palimpsest: builds a versioned knowledge graph of memories from documents and conversations."""

__version__ = "0.2.0"
