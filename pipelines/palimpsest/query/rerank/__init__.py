"""Optional second opinion on the best candidates of a search: a cross-encoder, or a language model."""
