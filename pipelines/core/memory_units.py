"""The unit of memories that are formed from others. What a source says has the unit of its collection."""

REFLECTION = "reflection"
"""The unit of formed memories, and the word in `form` of collection.yaml."""
