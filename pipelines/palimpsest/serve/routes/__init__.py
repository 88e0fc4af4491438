"""The endpoints, by what they are about."""
