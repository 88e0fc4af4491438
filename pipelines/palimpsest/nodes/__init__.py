"""Nodes of the graph, entities, topics and what is formed from them, and the edges between them."""
