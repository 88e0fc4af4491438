"""What the notebooks show of a build."""
