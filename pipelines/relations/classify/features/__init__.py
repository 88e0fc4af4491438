"""What a pair of memories looks like in numbers: parsed texts, and the features computed from them."""
