"""Golden questions and their runs."""
