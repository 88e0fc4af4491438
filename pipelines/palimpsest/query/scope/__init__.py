"""One scope of a build: the store behind it, its arrays, who may read what, and the query of it."""
