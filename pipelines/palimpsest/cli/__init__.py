"""The commands of `palimpsest`: each turns options into one call and prints what comes back."""
