"""Stand-ins for what a test cannot have."""
