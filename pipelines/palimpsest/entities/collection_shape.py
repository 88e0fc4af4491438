"""How a collection is searched follows from what it contains: decided when it is built, not by the question."""

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.entities.scope_evidence import find_title_mentions, find_titles
from palimpsest.memories.formed import stated_memories

_MIN_LINKED_SHARE = 0.1  # of memories that mention another document's title: from here on titles link passages


def strategy_for(memories: pl.DataFrame) -> str:
    """Returns the strategy that `auto` is in a collection.

    `turns` where most memories are turns of conversations; `statements` where most are single sentences of documents;
    `graph` where passages mention each other's titles, one memory in ten at least: titles that no other text mentions
    (chapters, file names, one page a scope) link nothing; `dated` else: vectors, words and time.

    Args:
        memories: the memories table of the collection.
    """
    memories = stated_memories(memories)
    for unit, strategy in (("turn", "turns"), ("statement", "statements")):
        if 2 * (memories["unit"] == unit).sum() > memories.height:
            return strategy
    return "graph" if memories.height and _count_linked(memories) >= _MIN_LINKED_SHARE * memories.height else "dated"


def _count_linked(memories: pl.DataFrame) -> int:
    """Returns how many memories mention the title of another document of their scope."""
    titles = find_titles(memories)
    if titles.is_empty():
        return 0
    own = memories.select("memory_id", *SCOPE, surface=pl.col("title").str.strip_chars())
    own = own.join(titles, on=[*SCOPE, "surface"]).select("memory_id", "key")
    no_long_forms = titles.select(*SCOPE, "surface").clear()
    mentions = find_title_mentions(memories, titles, no_long_forms).filter(pl.col("char_start").is_not_null())
    return mentions.join(own, on=["memory_id", "key"], how="anti")["memory_id"].n_unique()
