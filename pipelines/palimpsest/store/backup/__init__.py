"""One file with all that a home needs to go on somewhere else: a snapshot of its files, as an archive, or encrypted."""
