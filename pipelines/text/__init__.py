"""Text analysis that all other folders share: words, sentences, tokens, dates and time expressions."""
