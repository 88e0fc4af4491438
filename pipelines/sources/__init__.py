"""Sources into extracted documents, and the log of all that was read."""
