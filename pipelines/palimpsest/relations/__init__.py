"""Relations between memories: candidate pairs, their labels, and the versions that follow."""
