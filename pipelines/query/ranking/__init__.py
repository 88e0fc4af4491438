"""Scores of a scope's memories, the same for every backend; pure numpy."""
