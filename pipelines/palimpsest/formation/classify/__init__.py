"""What a sentence of a conversation is worth to a note, by a small linear model: no language model."""
