"""The context of an answer: packing, neighbors, history, explanations."""
