"""Programs that a language model runs over the texts of a build: each text once, within a budget, paid once."""
