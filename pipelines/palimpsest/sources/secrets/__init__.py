"""Finds secrets in a text; knows nothing of documents."""
