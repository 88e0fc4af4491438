"""Labels by a language model: a DSPy program over any OpenAI-compatible server, with a ledger of answers."""
