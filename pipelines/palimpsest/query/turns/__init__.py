"""Follow-up questions: what one leaves open, and its words with that taken from the turns before it."""
