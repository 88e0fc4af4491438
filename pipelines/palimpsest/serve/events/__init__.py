"""What callers who stay connected are sent: changes of their graph, what a search found, and their operations."""
