"""Deletion: removes all that a target names, and proves that none of it is left."""
