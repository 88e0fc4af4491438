"""Every step of a language model: its settings, its server, the ledger of answers, and the runner of DSPy programs."""
