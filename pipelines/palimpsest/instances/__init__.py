"""Homes with names, and what runs in the background for a home: its service, its nightly builds."""
