"""The records that readers make of a source."""
