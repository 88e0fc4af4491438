"""What a new memory changes: which older one it ends, read together with all that it may end."""
