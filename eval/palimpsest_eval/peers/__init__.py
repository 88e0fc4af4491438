"""Other toolkits next to Palimpsest: the same texts, questions and embedder, each in a process of its own."""
