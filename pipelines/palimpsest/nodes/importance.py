"""How important a node is: how much is known of it, from 0 to 1, whatever its age."""

import polars as pl

FACT_WEIGHT, MEMBER_WEIGHT = 2.0, 1.0
HALF_AT = 10.0
HALF_TOPIC_AT = 50.0


def importance(nodes: pl.DataFrame) -> pl.Series:
    """Returns the importance of nodes with the columns `type`, `memory_count`, `facts`, `members` and `stated`.

    x / (x + h) of x = memories + 2 facts + members, with h = 10, and 50 for topics, which every memory has: the value
    of a node depends on nothing but itself, so that a change of one leaves the others as they are. Where a language
    model stated how important it is for its memories, the mean of both. Rounded to 3 decimals.
    """
    known = pl.col("memory_count") + FACT_WEIGHT * pl.col("facts") + MEMBER_WEIGHT * pl.col("members")
    half = pl.when(pl.col("type") == "topic").then(HALF_TOPIC_AT).otherwise(HALF_AT)
    value = known / (known + half)
    stated = pl.when(pl.col("stated").is_null()).then(value).otherwise((value + pl.col("stated")) / 2)
    return nodes.select(stated.round(3).alias("importance")).to_series()
