"""Memories and what is known about them: entities, topics, relations, versions."""
