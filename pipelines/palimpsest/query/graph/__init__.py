"""Questions over the graph: how things relate, how one changed, and what is near a node."""
