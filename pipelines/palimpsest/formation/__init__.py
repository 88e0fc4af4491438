"""Notes: what each conversation session says that is worth keeping, and the memories that are formed from it."""
