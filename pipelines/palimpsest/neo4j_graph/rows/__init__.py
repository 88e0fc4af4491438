"""The rows of the graph, made from the tables of a build by pure functions."""
