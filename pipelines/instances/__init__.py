"""Homes with names, and the service of a home as a process in the background."""
