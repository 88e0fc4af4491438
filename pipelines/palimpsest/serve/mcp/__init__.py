"""The same memories for agents, by the Model Context Protocol."""
