"""Texts to embed."""

# Of several widths, one of them exactly a multiple of 16 tokens, and some beyond 256: batches with and without padding.
TEXTS = [
    "The launch moved to Friday.", "I keep bees.", "", "word " * 14,
    *(f"{name} " * 400 for name in ("first", "second", "third")),
    "A longer statement about the release of the reporting tool, which was agreed by both teams in March.",
]  # fmt: skip
