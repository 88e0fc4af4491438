"""The tables of entities: mention candidates of each memory alone, then entities, mentions and merges of each scope."""

from operator import attrgetter

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.entities.names.find_names import MentionCandidate, find_names
from palimpsest.entities.names.stated_names import find_stated_names
from palimpsest.entities.resolve_entities import resolve_entities
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import SCHEMAS

_PLACE = attrgetter("char_start", "char_end", "kind", "key", "cue")
_NO_CANDIDATE = MentionCandidate("", "", "none", False, "", None, None, 0, 0)


def entity_tables(
    memories: pl.DataFrame,
    documents: pl.DataFrame,
    previous: pl.DataFrame | None = None,
    ner: str | None = None,
    decisions: Decisions | None = None,
) -> dict[str, pl.DataFrame]:
    """Returns entities, mentions, merges (why two names are one) and surfaces (the candidates, for the next build).

    Args:
        memories: the memories table.
        documents: the documents table; names of people in their metadata are evidence.
        previous: the surfaces of an earlier build made by the same code and the same `ner`.
        ner: name of an installed spaCy pipeline that finds names too.
        decisions: people's; names that they joined or set apart stay so.
    """
    candidates = find_mention_candidates(memories, previous, ner)
    resolved = resolve_entities(candidates, memories, documents, decisions)
    return {
        "entities": resolved.entities,
        "mentions": resolved.mentions,
        "merges": resolved.merges,
        "surfaces": candidates,
    }


def find_mention_candidates(
    memories: pl.DataFrame, previous: pl.DataFrame | None = None, ner: str | None = None
) -> pl.DataFrame:
    """Returns what could be a name in each memory's text, sorted by memory and place.

    A pure function of each text and its speaker, with the columns of `MentionCandidate`. A memory without names has one
    row of kind `none`.

    Args:
        memories: the memories table.
        previous: the surfaces of an earlier build made by the same code; those of memories that still exist are carried
            over.
        ner: name of an installed spaCy pipeline that finds names too.
    """
    schema = SCHEMAS["surfaces"]
    carried = pl.DataFrame(schema=schema)
    todo = memories.select("memory_id", *SCOPE, "text", "speaker").sort("memory_id")
    if previous is not None:
        carried = previous.join(memories, on="memory_id", how="semi")
        todo = todo.join(previous, on="memory_id", how="anti")
    rows: list[tuple[object, ...]] = []
    for (*ids, text, speaker), names in zip(todo.iter_rows(), _names_of(todo["text"].to_list(), ner), strict=True):
        candidates = [*names, *find_stated_names(text, names, speaker)]
        rows += [(*ids, *candidate) for candidate in candidates or [_NO_CANDIDATE]]
    fresh = pl.DataFrame(rows, schema=schema, orient="row")
    return pl.concat([carried, fresh]).sort("memory_id", "char_start", "char_end", "kind", "key", "same_as", "why")


def _names_of(texts: list[str], ner: str | None) -> list[list[MentionCandidate]]:
    by_rule = [find_names(text) for text in texts]
    if not ner or not texts:
        return by_rule
    from palimpsest.entities.names.spacy_names import find_library_names

    by_library = find_library_names(texts, ner)
    return [sorted({*a, *b}, key=_PLACE) for a, b in zip(by_rule, by_library, strict=True)]
