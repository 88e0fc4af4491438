"""What is embedded beside the memories themselves, where it helps their collection: the sentences of titled passages.

A long passage's vector says what it is about; which of its sentences answers a question, and so which of the names in
it lead on, only the sentences' own vectors tell.
"""

import polars as pl

from pipelines.memory.words import sentence_spans
from pipelines.store.ids import text_hash
from pipelines.store.tables import SCHEMAS, conform, empty

_KEY = ["memory_id", "kind", "ordinal"]


def context_inputs(
    memories: pl.DataFrame, strategy: str, embedded: bool, previous: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Returns a row for each sentence of each memory of a collection searched as `graph`, no row for any other.

    Args:
        memories: the memories table.
        strategy: what `auto` stands for in the collection.
        embedded: whether sentences get vectors; `text_hash` is null where not.
        previous: the same table of an earlier build made by the same code; a memory's rows are carried over.
    """
    if strategy != "graph":
        return empty("context_inputs")
    carried = empty("context_inputs")
    if previous is not None:
        carried = previous.filter(pl.col("text_hash").is_not_null() == embedded)
        carried = carried.join(memories, on="memory_id", how="semi")
    todo = memories.select("memory_id", "text").join(carried, on="memory_id", how="anti")
    rows = [
        (memory_id, "sentence", i, text[start:end], text_hash(text[start:end]) if embedded else None, start, end)
        for memory_id, text in todo.iter_rows()
        for i, (start, end) in enumerate(sentence_spans(text))
    ]
    fresh = pl.DataFrame(rows, schema=SCHEMAS["context_inputs"], orient="row")
    return conform("context_inputs", pl.concat([carried, fresh])).sort(_KEY)
