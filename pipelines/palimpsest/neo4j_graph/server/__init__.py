"""The local server: its locked jars, its configuration and its process."""
