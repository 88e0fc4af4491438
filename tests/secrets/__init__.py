"""A labelled set of secrets and of what only looks like them, made from templates and a seed; how many are found."""
