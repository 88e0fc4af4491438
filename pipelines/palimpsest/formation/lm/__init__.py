"""Notes by a language model: what it reads in a session, as far as turns of that session are quoted for it."""
