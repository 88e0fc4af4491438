"""The language of each memory: of its own text, else of its document."""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from palimpsest.core.parallel import FrameRows, map_chunks
from palimpsest.text.languages import ENGLISH, detect_language

_PIECES = 20  # of a document: its language is detected from the first thousand characters
_TEXTS_PER_CHUNK = 8192
_KEY = ("memory_id", "document_id")


def memory_languages(
    memories: pl.DataFrame, chunks: pl.DataFrame, previous: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Returns memories with `language`: ISO 639-1 of their text; of the document's, where the text is too short.

    Null where the document's is not clear either. It depends on the text and the document alone.

    Args:
        memories: the memories table.
        chunks: the chunks table, with every document of the memories.
        previous: memories of an earlier build made by the same code, which are not read again.
    """
    known = (memories if previous is None else previous).select(*_KEY, "language").drop_nulls()
    found = memories.drop("language").join(known, on=_KEY, how="left", maintain_order="left")
    own = _detect(found.filter(pl.col("language").is_null()).select("memory_id", "text"))
    found = _fill(found, own, "memory_id")
    unclear = found.filter(pl.col("language").is_null()).select("document_id").unique()
    texts = (
        chunks.join(unclear, on="document_id", how="semi")
        .sort("document_id", "ordinal", "chunk_id")
        .group_by("document_id", maintain_order=True)
        .agg(pl.col("text").head(_PIECES).str.join("\n"))
    )
    return _fill(found, _detect(texts), "document_id").select(memories.columns)


def other_languages(memories: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Returns the number of memories in each language, by collection, where some are not in English.

    Those whose language is not clear are left out.
    """
    counts = memories.drop_nulls("language").group_by("collection", "language").len()
    ordered = counts.sort("collection", "len", "language", descending=[False, True, False])
    found: dict[str, dict[str, int]] = {}
    for collection, language, number in ordered.iter_rows():
        found.setdefault(collection, {})[language] = number
    return {name: languages for name, languages in found.items() if languages.keys() - {ENGLISH}}


def languages_line(languages: Mapping[str, int]) -> str:
    """Returns the languages of a collection's memories on one line, and what share of them is not in English."""
    share = 1 - languages.get(ENGLISH, 0) / sum(languages.values())
    shown = f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"
    counts = ", ".join(f"{language} {n}" for language, n in languages.items())
    return f"{shown} of the texts are not in English ({counts})"


def _detect(texts: pl.DataFrame) -> pl.DataFrame:
    """Returns a frame's first column, a key, with the language of the text in its second."""
    key = texts.columns[0]
    found = map_chunks(_detect_chunk, FrameRows(texts), _TEXTS_PER_CHUNK, "find languages")
    languages = pl.Series("detected", [code for chunk in found for code in chunk], pl.String)
    return texts.select(key).with_columns(languages)


def _detect_chunk(rows: Sequence[tuple[str, str | None]]) -> Iterable[str | None]:
    return [detect_language(text or "") for _, text in rows]


def _fill(memories: pl.DataFrame, detected: pl.DataFrame, key: str) -> pl.DataFrame:
    joined = memories.join(detected, on=key, how="left", maintain_order="left")
    return joined.with_columns(language=pl.coalesce("language", "detected")).drop("detected")
