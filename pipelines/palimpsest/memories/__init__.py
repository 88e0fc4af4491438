"""Documents and chunks into memories, what is stated of them, and their vectors."""
