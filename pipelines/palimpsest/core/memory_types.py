"""The types and units of memories."""

from typing import Literal

MEMORY_TYPES = ("episodic", "semantic", "document", "summary", "preference", "inference", "task")
TASK = "task"


# The unit and the kinds of memories that are formed from others. What a source says has its collection's unit.

REFLECTION = "reflection"
"""The unit of formed memories, and the word in `form` of collection.yaml."""

FormedKind = Literal[
    "fact", "preference", "decision", "solution", "gap", "inference", "emotion", "topic", "connection", "summary"
]
"""Kinds of items of notes, and of the memories that are formed of them."""
