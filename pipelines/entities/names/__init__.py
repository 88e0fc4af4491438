"""Names: found in each text, and resolved inside each scope with a reason for every merge."""
