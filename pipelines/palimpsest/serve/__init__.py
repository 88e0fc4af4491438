"""The query path, the inbox and the graph over HTTP. Whose memories are read follows from a verified token alone."""
