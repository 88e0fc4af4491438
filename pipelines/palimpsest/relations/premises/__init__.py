"""Premises of derived memories: which memory states a conclusion, and which older memories together support it."""
