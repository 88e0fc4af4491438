"""What a node is, in the words of its memories: the sentence that defines it best."""

import polars as pl

from palimpsest.text.sentences import memory_sentence_spans

MAX_DESCRIPTION_CHARS = 240
_WINDOW_CHARS = 400  # on each side of the name, in which its sentence is searched
_DEFINING = {"defined": 3.0, "fact": 2.0, "listed": 1.5, "apposed": 1.0, "labelled": 0.6, "called": 1.0}
_OPENS, _STATES, _TITLED, _LATEST, _OTHER_TYPE = 1.0, 0.5, 0.5, 0.5, 0.4
_MIN_SCORE = 1.5
_COPULA = r"^(?:\s*\([^()]*\))?,?\s+(?:who |which )?(?:is|was|are|were)\s"
_HEADING = r"(?:^|\n)#+\s*$"
_OPENING = r"(?:^|[.!?]\s+|\n\s*)(?:The |An? )?$"


def entity_descriptions(
    mentions: pl.DataFrame, memories: pl.DataFrame, versions: pl.DataFrame, evidence: pl.DataFrame, types: pl.DataFrame
) -> pl.DataFrame:
    """Returns (node_id, description, memory_id) of the entities that a text describes, sorted by id.

    A sentence scores by the rule that found a definition in its memory, less where that shows another type than the
    node's; more where it opens with the name, goes on with `is`, is of the document titled so, and of a latest memory.
    Of equal scores the newest memory counts. Headings describe nothing.

    Args:
        mentions: the mentions table.
        memories: the memories table; those that `quotable` leaves out describe nothing.
        versions: the versions table.
        evidence: as `type_evidence` returns it.
        types: as `node_types` returns them.
    """
    shown = quotable(memories).select("memory_id", "text", "title", "observed_at", "ordinal")
    rows = (
        mentions.drop_nulls("char_start")
        .select("memory_id", "char_start", "char_end", node_id="entity_id")
        .unique()
        .join(shown, on="memory_id")
        .join(versions.select("memory_id", "is_latest"), on="memory_id", how="left")
        .join(_defining(evidence, types), on=["node_id", "memory_id"], how="left")
    )
    start = pl.col("char_start")
    before = pl.col("text").str.slice(pl.max_horizontal(start - 12, 0), pl.min_horizontal(start, 12))
    after = pl.col("text").str.slice("char_end", 60)
    name = pl.col("text").str.slice(start, pl.col("char_end") - start)
    best = (
        rows.filter(~before.str.contains(_HEADING))
        .with_columns(
            score=pl.col("score").fill_null(0.0)
            + _OPENS * before.str.contains(_OPENING)
            + _STATES * after.str.contains(_COPULA)
            + _TITLED * (name == pl.col("title")).fill_null(False)
            + _LATEST * pl.col("is_latest").fill_null(True)
        )
        .filter(pl.col("score") >= _MIN_SCORE)
        .sort(
            *("node_id", "score", "observed_at", "memory_id", "char_start"),
            descending=[False, True, True, False, False],
            nulls_last=True,
        )
        .unique("node_id", keep="first", maintain_order=True)
    )
    columns = ("text", "char_start", "char_end")
    sentences = [sentence_at(*row) for row in best.select(columns).iter_rows()]
    return best.select("node_id", "memory_id", description=pl.Series(sentences, dtype=pl.String)).sort("node_id")


def quotable(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the memories whose words a node may have: every reader may see them, for as long as the build lasts.

    Not those hidden from users, those with personal data, and those whose retention ends.
    """
    return memories.filter(
        pl.col("user_visible").fill_null(True) & ~pl.col("pii").fill_null(False) & pl.col("retention_until").is_null()
    )


def _defining(evidence: pl.DataFrame, types: pl.DataFrame) -> pl.DataFrame:
    weight = pl.col("rule").replace_strict(_DEFINING, return_dtype=pl.Float64)
    is_other = pl.col("type") != pl.col("node_type")
    return (
        evidence.filter(pl.col("rule").is_in(list(_DEFINING)))
        .drop_nulls("memory_id")
        .join(types.select("node_id", node_type="type"), on="node_id")
        .with_columns(score=weight * pl.when(is_other).then(_OTHER_TYPE).otherwise(1.0))
        .group_by("node_id", "memory_id")
        .agg(pl.col("score").max())
    )


def topic_descriptions(topics: pl.DataFrame, topic_memories: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, description, memory_id): a sentence with the topic's phrase from its most relevant memory."""
    shown = quotable(memories).select("memory_id", "text")
    labels = topics.select("topic_id", phrase=pl.col("label").str.to_lowercase())
    place = pl.col("text").str.to_lowercase().str.find(pl.col("phrase"), literal=True)
    best = (
        topic_memories.select("topic_id", "memory_id", "relevance")
        .join(labels, on="topic_id")
        .join(shown, on="memory_id")
        .filter(place.is_not_null())
        .sort("topic_id", "relevance", "memory_id", descending=[False, True, False])
        .unique("topic_id", keep="first", maintain_order=True)
    )
    sentences = []
    for text, phrase in best.select("text", "phrase").iter_rows():
        start = text.lower().find(phrase)
        sentences.append(sentence_at(text, start, start + len(phrase)))
    return best.select("memory_id", node_id="topic_id", description=pl.Series(sentences, dtype=pl.String))


def sentence_at(text: str, start: int, end: int) -> str:
    """Returns the sentence that has the span, white space single, cut after a word where it is long."""
    low = max(0, start - _WINDOW_CHARS)
    window = text[low : end + _WINDOW_CHARS]
    spans = memory_sentence_spans(window)
    found = next((window[s:e] for s, e in spans if s <= start - low < e), window[start - low :])
    return shorten(" ".join(found.split()))


def shorten(text: str) -> str:
    """Returns a text of at most `MAX_DESCRIPTION_CHARS`, cut after a word and marked with an ellipsis."""
    if len(text) <= MAX_DESCRIPTION_CHARS:
        return text
    return text[: MAX_DESCRIPTION_CHARS - 1].rsplit(" ", 1)[0] + "…"


def member_description(label: str, names: list[str], shown: int = 8) -> str:
    """Returns what a category has: `customers: Aldmoor, Skell Fisheries and 3 more`."""
    listed = ", ".join(names[:shown])
    return shorten(f"{label}: {listed} and {len(names) - shown} more" if len(names) > shown else f"{label}: {listed}")
