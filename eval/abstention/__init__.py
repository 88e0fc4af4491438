"""Abstention: training and judging the model that says whether the results of a search hold an answer."""
