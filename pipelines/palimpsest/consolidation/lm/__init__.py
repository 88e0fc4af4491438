"""Findings of a language model: what it proposes of memories that it reads together, as far as they state it."""
