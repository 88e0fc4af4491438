"""What a collection is decides how it is searched: once, when it is built, never by the question."""

import polars as pl


def strategy_for(memories: pl.DataFrame) -> str:
    """Returns what `auto` stands for in a collection: `turns` where most memories are turns, else `hybrid`.

    Args:
        memories: the memories table of the collection.
    """
    turns = (memories["unit"] == "turn").sum()
    return "turns" if 2 * turns > memories.height else "hybrid"
