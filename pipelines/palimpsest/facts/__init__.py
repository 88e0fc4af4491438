"""Facts: what the memories of a scope state of an entity, each with the words that state it."""
