"""Documents into chunks: sentences, cohesion, packing, and the chunks table."""
