"""The notes of conversation sessions: what each says that is worth keeping, with its evidence."""
