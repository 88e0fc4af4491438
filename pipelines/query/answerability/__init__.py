"""Whether the results of a search hold an answer: evidence as numbers, and a probability made of them."""
