"""Topics of a scope: phrases that its texts really use, chosen so that together they cover the texts.

The description comes first and the cluster follows (as in Lingo, Osinski et al. 2004): a topic is a phrase, its centre
the texts that use it. Which phrases are taken is decided by counts alone: choosing by vectors as well turned 6 to 20 %
of a graph over when 1 % of its texts changed, by counts it is 2 to 3 %. A topic's id comes from its phrase.
"""

import math
from collections.abc import Iterator

import numpy as np
import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.core.scopes import SCOPE, ScopeKey, by_scope, scope_parts
from palimpsest.store.tables import conform, empty
from palimpsest.text.phrases import count_phrases, phrase_labels, phrase_stems

_BLOCK = 16  # memories in a row that are read as one text
_FEW_BLOCKS = 4  # fewer than this: one topic
_MOST_TOPICS = 64
_FIRST_BROADER = 8  # topics from which some are broader than others
_MOST_CANDIDATES = 400
_WIDEST = 0.5  # of the blocks: a phrase that more use tells nothing
_RELEVANT = 0.3
_RELATED = 0.6
_TOPICS_PER_MEMORY = 2
_TWO_WORDS = 1.5
_TOLD = 0.6  # of a word's blocks: from here on a pair with it says it better
_NAME = 0.5  # share of capitals from which a word that is part of a person's name is no topic
_NOUN = 0.3  # share of occurrences that look like a noun's, from which a phrase may be a topic
_TOLD_AGAIN = 0.25  # what a block counts for each further phrase that tells of it
_BURST = 2.0  # what a phrase gains by being said over and over where it is said
_EDGE = {"source_id": pl.String, "target_id": pl.String, "kind": pl.String, "weight": pl.Float64}


def build_topics(
    memories: pl.DataFrame, documents: pl.DataFrame, vectors: np.ndarray, entities: pl.DataFrame | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Returns (topics, topic_edges, topic_memories), each scope by itself, sorted by id.

    Up to 16 memories in a row of one document are a block. Among the phrases that several blocks use, those are taken
    one by one that tell the most of blocks which no phrase told of yet; the first of them, about the square root of
    all, are the broader ones that the others hang below. A memory is held by its nearest two topics, with the cosine to
    their centre as relevance, where that is 0.3 or more; it is rounded to 2 decimals, because a third would rewrite a
    fifth of all rows whenever 1 % of the texts change.

    Args:
        memories: the memories table; those of document versions that are not current belong to no topic.
        documents: the documents table.
        vectors: unit vectors aligned to the rows of `memories`, shape (n, 384) float32.
        entities: the entities table: names of people are no topics.
    """
    current = documents.filter("is_current").select("document_id")
    live = memories.with_row_index("row").join(current, on="document_id", how="semi")
    if live.is_empty():
        return empty("topics"), empty("topic_edges"), empty("topic_memories")
    live = live.sort(*SCOPE, "document_id", "ordinal", "memory_id").with_columns(
        block=pl.struct(*SCOPE, "document_id", pl.col("ordinal").fill_null(0) // _BLOCK).rle_id()
    )
    titles = live.filter(pl.col("unit") != "turn").select(*SCOPE, "block", text="title").unique()
    found = count_phrases(pl.concat([live.select(*SCOPE, "block", "text"), titles]))
    said, spelled = by_scope(found), by_scope(phrase_labels(found))
    people = by_scope(_people(live, entities))
    parts = [
        _scope_topics(at, rows, vectors, _candidates(rows, said.get(at), spelled.get(at), people.get(at)))
        for at, rows in by_scope(live.select("memory_id", *SCOPE, "block", "row")).items()
    ]
    topics, edges, held = (pl.concat(list(frames)) for frames in zip(*parts, strict=True))
    return topics.sort("topic_id"), edges.sort("source_id", "target_id", "kind"), held.sort("topic_id", "memory_id")


def _people(live: pl.DataFrame, entities: pl.DataFrame | None) -> pl.DataFrame:
    """(scope, name) of who speaks and who is spoken of."""
    speakers = live.select(*SCOPE, name="speaker").drop_nulls().unique()
    if entities is None:
        return speakers.with_columns(speaks=pl.lit(True))
    persons = entities.filter(type="person")
    names = pl.concat([persons.select(*SCOPE, "name"), persons.select(*SCOPE, name="aliases").explode("name")])
    names = names.drop_nulls().unique().with_columns(speaks=pl.lit(False))
    return pl.concat([speakers.with_columns(speaks=pl.lit(True)), names])


def _candidates(
    live: pl.DataFrame, said: pl.DataFrame | None, spelled: pl.DataFrame | None, people: pl.DataFrame | None
) -> pl.DataFrame:
    """Returns (phrase, label, telling, blocks), the most telling first.

    No names of people, no word that a pair says better. `telling` is what a phrase tells of one block: more where few
    blocks use it, where those use it often, and where it has two words.
    """
    if said is None or spelled is None:
        return pl.DataFrame(
            schema={"phrase": pl.String, "label": pl.String, "telling": pl.Float64, "blocks": pl.List(pl.Int64)}
        )
    blocks = live["block"].n_unique()
    least, most = (1, blocks) if blocks < _FEW_BLOCKS else (2, max(2, math.floor(_WIDEST * blocks)))
    rows = (
        said.group_by("phrase")
        .agg(blocks=pl.col("block").unique().sort() - live["block"].min(), n=pl.col("n").sum())
        .with_columns(df=pl.col("blocks").list.len().cast(pl.Int64))
        .filter(pl.col("df").is_between(least, most))
        .join(spelled.select("phrase", "label", "capitals", "nouns"), on="phrase", how="left")
    )
    words = pl.col("phrase").str.split(" ")
    if people is not None:
        always = phrase_stems(w for name in people.filter("speaks")["name"] for w in name.split())
        named = phrase_stems(w for name in people["name"] for w in name.split()) - always
        is_name = words.list.eval(pl.element().is_in(sorted(named))).list.any() & (pl.col("capitals") >= _NAME)
        rows = rows.filter(~words.list.eval(pl.element().is_in(sorted(always))).list.any() & ~is_name)
    pairs = rows.filter(pl.col("phrase").str.contains(" ", literal=True))
    held = pairs.select(phrase=words, held="df").explode("phrase").group_by("phrase").agg(pl.col("held").max())
    rows = rows.join(held, on="phrase", how="left").filter(pl.col("held").fill_null(0) < _TOLD * pl.col("df"))
    nouns = rows.filter(pl.col("nouns") >= _NOUN)
    if nouns.height >= _topic_count(blocks):  # notes without articles, and other languages, show none
        rows = nouns
    worth = pl.when(pl.col("phrase").str.contains(" ", literal=True)).then(_TWO_WORDS).otherwise(1.0)
    telling = worth * (1 + blocks / pl.col("df")).log() * (1 + _BURST * (pl.col("n") / pl.col("df")).log())
    return (
        rows.with_columns(telling=telling.round(6))
        .sort((pl.col("df") * pl.col("telling")).round(4), "phrase", descending=[True, False])
        .select("phrase", "label", "telling", "blocks")
        .head(_MOST_CANDIDATES)
    )


def _scope_topics(
    scope: ScopeKey, live: pl.DataFrame, vectors: np.ndarray, candidates: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    of_memory = live["block"].to_numpy().astype(np.int64) - int(live["block"][0])
    # To 4 decimals: neither the last bits of a sum nor the order of rows may decide a tie.
    mine = np.round(vectors[live["row"].to_numpy()].astype(np.float64), 4)
    blocks = _unit(np.add.reduceat(mine, np.searchsorted(of_memory, np.arange(of_memory[-1] + 1))))
    if len(blocks) < _FEW_BLOCKS or candidates.is_empty():
        chosen, middles = [0], _unit(blocks.sum(axis=0, keepdims=True))
    else:
        chosen, middles = _choose(blocks, candidates)
    of_block = np.round(blocks @ middles.T, 4).argmax(axis=1)
    used = np.unique(of_block)
    chosen, middles, of_block = [chosen[i] for i in used], middles[used], np.searchsorted(used, of_block)
    if candidates.is_empty():
        names, said = ["everything"], ["everything"]
    else:
        names, said = (candidates[c].gather(chosen).to_list() for c in ("phrase", "label"))
    ids = [content_id("topic", *scope_parts(*scope), name) for name in names]
    above = _above(middles)
    sizes = np.bincount(of_block[of_memory], minlength=len(ids))
    total = sizes.copy()
    for child, parent in above.items():
        total[parent] += sizes[child]
    edges = list(_related(ids, middles))
    edges += [(ids[c], ids[p], "subtopic_of", round(float(middles[c] @ middles[p]), 2)) for c, p in above.items()]
    rows = [(i, *scope, label, int(n)) for i, label, n in zip(ids, said, total, strict=True)]
    return (
        conform("topics", pl.DataFrame(rows, schema=["topic_id", *SCOPE, "label", "size"], orient="row")),
        _scoped("topic_edges", scope, pl.DataFrame(edges, schema=_EDGE, orient="row")),
        _scoped("topic_memories", scope, _held(live, mine, middles, ids)),
    )


def _scoped(table: str, scope: ScopeKey, frame: pl.DataFrame) -> pl.DataFrame:
    return conform(table, frame.with_columns(pl.lit(v).alias(c) for c, v in zip(SCOPE, scope, strict=True)))


def _choose(blocks: np.ndarray, candidates: pl.DataFrame) -> tuple[list[int], np.ndarray]:
    """Takes phrases greedily by what they tell of blocks that were told less of (maximum coverage, damped).

    No two phrases share a word. Returns the candidates taken, the most telling first, and their centres: the middle of
    the blocks that use each.
    """
    from scipy.sparse import csr_matrix

    rows = candidates["blocks"]
    at = rows.explode().to_numpy().astype(np.int64)
    ends = np.r_[0, np.cumsum(rows.list.len().to_numpy())]
    uses = csr_matrix((np.ones(len(at)), at, ends), shape=(len(rows), len(blocks)))
    telling, words = candidates["telling"].to_numpy(), [set(p.split()) for p in candidates["phrase"]]
    open_, left, chosen = np.ones(len(rows), bool), np.ones(len(blocks)), list[int]()
    for _ in range(_topic_count(len(blocks))):
        gains = np.where(open_, np.round((uses @ left) * telling, 6), -1)
        pick = int(np.argmax(gains))  # candidates are sorted: of equals, the more telling one
        if gains[pick] <= 0:
            break
        chosen.append(pick)
        left[at[ends[pick] : ends[pick + 1]]] *= _TOLD_AGAIN
        open_ &= np.array([words[pick].isdisjoint(w) for w in words])
    return chosen, _unit(np.asarray(uses[chosen] @ blocks))


def _topic_count(blocks: int) -> int:
    return min(_MOST_TOPICS, max(2, round(math.sqrt(1.5 * blocks))))


def _above(middles: np.ndarray) -> dict[int, int]:
    """Maps each topic but the broad ones, which come first, to the nearest broad one."""
    if len(middles) < _FIRST_BROADER:
        return {}
    broad = round(math.sqrt(len(middles)))
    near = np.round(middles[broad:] @ middles[:broad].T, 4).argmax(axis=1)
    return {broad + i: int(p) for i, p in enumerate(near)}


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def _related(topic_ids: list[str], middles: np.ndarray) -> Iterator[tuple[str, str, str, float]]:
    weights = np.round(middles @ middles.T, 2)
    for i, j in zip(*np.nonzero(np.triu(weights >= _RELATED, 1)), strict=True):
        first, second = sorted((topic_ids[i], topic_ids[j]))
        yield first, second, "related_to", float(weights[i, j])


def _held(memories: pl.DataFrame, vectors: np.ndarray, middles: np.ndarray, topic_ids: list[str]) -> pl.DataFrame:
    relevance = np.round(vectors @ middles.T, 2)
    by_id = np.argsort(np.array(topic_ids))
    order = by_id[np.argsort(-relevance[:, by_id], axis=1, kind="stable")[:, :_TOPICS_PER_MEMORY]]
    best = np.take_along_axis(relevance, order, axis=1)
    row, place = np.nonzero(best >= _RELEVANT)
    return pl.DataFrame(
        {
            "topic_id": pl.Series(topic_ids, dtype=pl.String)[order[row, place]],
            "memory_id": memories["memory_id"][row],
            "relevance": best[row, place],
        }
    )
