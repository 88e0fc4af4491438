"""Facts by a language model: what it reads in a memory, as far as the memory's own words state it."""
