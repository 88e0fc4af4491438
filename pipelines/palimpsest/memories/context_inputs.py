"""The context_inputs table: sentences of memories, in collections where names link one memory to the next.

The vector of a long passage shows what it is about; which of its sentences answers a question, and so which of its
names to follow, only the vectors of the sentences show.
"""

import polars as pl

from palimpsest.core.ids import text_hash
from palimpsest.store.tables import SCHEMAS, conform, empty
from palimpsest.text.sentences import memory_sentence_spans

_KEY = ["memory_id", "kind", "ordinal"]


def context_inputs(
    memories: pl.DataFrame, strategy: str, embedded: bool, previous: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Returns a row for each sentence of each memory of a collection searched over names, no row for any other.

    Args:
        memories: the memories table.
        strategy: the strategy that `auto` is in the collection.
        embedded: whether the sentences of passages get vectors; `text_hash` is null where not. Statements get none:
            they are single sentences.
        previous: the same table of an earlier build made by the same code; a memory's rows are carried over.
    """
    if strategy not in ("graph", "statements"):
        return empty("context_inputs")
    embedded = embedded and strategy == "graph"
    carried = empty("context_inputs")
    if previous is not None:
        carried = previous.filter(pl.col("text_hash").is_not_null() == embedded)
        carried = carried.join(memories, on="memory_id", how="semi")
    todo = memories.select("memory_id", "text").join(carried, on="memory_id", how="anti")
    rows = [
        (memory_id, "sentence", i, text[start:end], text_hash(text[start:end]) if embedded else None, start, end)
        for memory_id, text in todo.iter_rows()
        for i, (start, end) in enumerate(memory_sentence_spans(text))
    ]
    fresh = pl.DataFrame(rows, schema=SCHEMAS["context_inputs"], orient="row")
    return conform("context_inputs", pl.concat([carried, fresh])).sort(_KEY)
