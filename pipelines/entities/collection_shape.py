"""What a collection is decides how it is searched: once, when it is built, never by the question."""

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.entities.names.titles import find_titles, phrase_mentions

NAMING = 0.1  # share of memories that name another's title, from which titles lead from one passage to the next


def strategy_for(memories: pl.DataFrame) -> str:
    """Returns what `auto` stands for in a collection.

    `turns` where most memories are turns of conversations; `statements` where most are single sentences of documents;
    `graph` where passages name each other's titles, one memory in ten at least: titles that no other text says
    (chapters, file names, one page a scope) lead nowhere; `dated` else: vectors, words and time.

    Args:
        memories: the memories table of the collection.
    """
    for unit, strategy in (("turn", "turns"), ("statement", "statements")):
        if 2 * (memories["unit"] == unit).sum() > memories.height:
            return strategy
    return "graph" if memories.height and _naming(memories) >= NAMING * memories.height else "dated"


def _naming(memories: pl.DataFrame) -> int:
    """Returns how many memories name the title of another document of their scope."""
    titles = find_titles(memories)
    if titles.is_empty():
        return 0
    own = memories.select("memory_id", *SCOPE, surface=pl.col("title").str.strip_chars())
    own = own.join(titles, on=[*SCOPE, "surface"]).select("memory_id", "key")
    nothing = titles.select(*SCOPE, "surface").clear()
    said = phrase_mentions(memories, titles, nothing).filter(pl.col("char_start").is_not_null())
    return said.join(own, on=["memory_id", "key"], how="anti")["memory_id"].n_unique()
