"""Topics of a scope: phrases that its texts really use, chosen so that together they cover the texts.

The description comes first and the cluster follows (as in Lingo, Osinski et al. 2004): a topic is a phrase, its center
the texts that use it. Phrases are selected by counts alone: selecting by vectors too changed 6 to 20 % of a graph when
1 % of its texts changed, by counts it is 2 to 3 %. A topic's id comes from its phrase; a topic whose phrase is the name
of an entity of its scope is that entity, and has its id.
"""

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE, ScopeKey, by_scope, content_id, scope_parts
from palimpsest.store.tables import conform, empty
from palimpsest.text.words import NON_TOPIC_WORDS, fold

# Phrases of a scope's texts: one content word, or two adjacent ones, every inflection counted as one.

_PIECE = r"\p{L}[\p{L}\p{N}\-’']*[\p{L}\p{N}]|[^\s\p{L}\p{N}]|\p{N}+|\p{L}"  # noqa: RUF001
_MARK = r"\{\w+\}"
_ENDING = r"^(.{3,}?)(?:ings|ing|ies|ied|ed|es|s|e|y)(?:['’]s)?$"  # noqa: RUF001
_BEFORE_NOUNS = """
the a an our my your his her its their this that these those each every any some no of in for with on at from by about
new old first second next last own other more many few several two three four five six
"""
_BLOCKS_AT_ONCE = 4096  # a row for each of their words: all those of a million texts took 15 GB
_STOP_STEMS = sorted({*NON_TOPIC_WORDS, *(m.group(1) for w in NON_TOPIC_WORDS if (m := re.match(_ENDING, w)))})


def count_phrases(texts: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, block, phrase, label, n, noun): how often each block uses a phrase, and how often as a noun.

    `phrase` is the stem or stems, `label` a spelling. Words count as nouns by what precedes them: there is no tagger.

    Args:
        texts: (scope, block, text); a block, which is a number, may have several rows, and no phrase crosses two.
    """
    part = pl.col("block") // _BLOCKS_AT_ONCE
    parts = texts.with_columns(part=part).partition_by("part", include_key=False, maintain_order=True)
    return pl.concat(map(_count_phrases, parts)) if parts else _count_phrases(texts)


def _count_phrases(texts: pl.DataFrame) -> pl.DataFrame:
    tokens = (
        texts.lazy()
        .select(*SCOPE, "block", word=pl.col("text").str.replace_all(_MARK, " ").str.extract_all(_PIECE))
        .with_row_index("row")
        .explode("word")
        .drop_nulls("word")
        .with_columns(
            lower=pl.col("word").str.to_lowercase().str.replace(r"['’]s$", ""),  # noqa: RUF001
            capitalized=pl.col("word").str.contains(r"^\p{Lu}"),
            is_first=pl.col("row") != pl.col("row").shift(1, fill_value=-1),
        )
        .with_columns(stem=pl.col("lower").str.replace(_ENDING, "${1}"))
        .with_columns(
            is_candidate=pl.col("lower").str.contains(r"^\p{L}[\p{L}\p{N}\-]+$")
            & pl.col("lower").str.len_chars().is_between(3, 24)
            & ~pl.col("stem").is_in(_STOP_STEMS),
            after_determiner=~pl.col("is_first") & pl.col("lower").shift(1).is_in(_BEFORE_NOUNS.split()),
            after_word=~pl.col("is_first") & pl.col("lower").shift(1).str.contains(r"^\p{L}"),
        )
        .with_columns(
            pair=pl.col("is_candidate")
            & pl.col("is_candidate").shift(-1)
            & ~pl.col("is_first").shift(-1, fill_value=True),
            next_stem=pl.col("stem").shift(-1),
            next_word=pl.col("word").shift(-1),
            next_capitalized=pl.col("capitalized").shift(-1),
        )
        .filter("is_candidate")
    )
    single = tokens.select(
        *SCOPE,
        "block",
        phrase="stem",
        label=pl.col("word").str.replace(r"['’]s$", ""),  # noqa: RUF001
        noun=pl.col("after_determiner") | (pl.col("capitalized") & pl.col("after_word")),
    )
    pairs = tokens.filter("pair").select(
        *SCOPE,
        "block",
        phrase=pl.format("{} {}", "stem", "next_stem"),
        label=pl.format("{} {}", "word", "next_word"),
        noun=pl.col("after_determiner") | (pl.col("capitalized") & pl.col("next_capitalized")),
    )
    found = pl.concat([single, pairs]).group_by(*SCOPE, "block", "phrase", "label")
    return found.agg(n=pl.len(), noun=pl.col("noun").sum()).collect()


def phrase_labels(counts: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, phrase, label, capitals, nouns): the commonest spelling, and shares of all occurrences.

    `capitals` is the share with a capital, `nouns` the share used as a noun.
    """
    spelled = counts.group_by(*SCOPE, "phrase", "label").agg(pl.col("n").sum(), pl.col("noun").sum())
    capital = pl.col("label").str.contains(r"^\p{Lu}")
    return (
        spelled.sort(*SCOPE, "phrase", "n", "label", descending=[False] * len(SCOPE) + [False, True, True])
        .group_by(*SCOPE, "phrase", maintain_order=True)
        .agg(
            pl.col("label").first(),
            capitals=pl.col("n").filter(capital).sum() / pl.col("n").sum(),
            nouns=pl.col("noun").sum() / pl.col("n").sum(),
        )
    )


def phrase_stems(words: Iterable[str]) -> set[str]:
    """Returns the stems of words, as `count_phrases` makes them."""
    frame = pl.DataFrame({"word": sorted(set(words))}, schema={"word": pl.String})
    return set(frame.select(pl.col("word").str.to_lowercase().str.replace(_ENDING, "${1}")).to_series())


_BLOCK_MEMORIES = 16  # in a row that count as one text
_MIN_BLOCKS = 4  # fewer than this: one topic
_MAX_TOPICS = 64
_MIN_TOPICS_FOR_BROAD = 8  # from here on some topics are broader than others
_MAX_CANDIDATES = 400
_MAX_BLOCK_SHARE = 0.5  # a phrase that more blocks use says nothing
_MIN_RELEVANCE = 0.3
_MIN_RELATED = 0.6
_TOPICS_PER_MEMORY = 2
_PAIR_WEIGHT = 1.5  # of a phrase of two words
_MIN_PAIR_SHARE = 0.6  # of a word's blocks: from here on a pair with it replaces it
_MIN_NAME_CAPITALS = 0.5  # share of capitals from which a word that is part of a person's name is no topic
_MIN_NOUN_SHARE = 0.3  # of the occurrences of a phrase that may be a topic
_COVERED_WEIGHT = 0.25  # factor of a block for each selected phrase that it uses
_BURST_WEIGHT = 2.0  # of repeated use in the blocks that use a phrase
_EDGE = {"source_id": pl.String, "target_id": pl.String, "kind": pl.String, "weight": pl.Float64}


def build_topics(
    memories: pl.DataFrame, documents: pl.DataFrame, vectors: np.ndarray, entities: pl.DataFrame | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Returns (topics, topic_edges, topic_memories), each scope by itself, sorted by id.

    Up to 16 memories in a row of one document are a block. Among the phrases that several blocks use, those are
    selected one by one that weigh most in blocks not yet covered; the first of them, about the square root of all, are
    the broader ones, parents of the others. A memory belongs to its nearest two topics, with the cosine to their center
    as relevance, where that is 0.3 or more; it is rounded to 2 decimals, because a third would rewrite a fifth of all
    rows whenever 1 % of the texts change.

    Args:
        memories: the memories table; those of document versions that are not current belong to no topic.
        documents: the documents table.
        vectors: unit vectors aligned to the rows of `memories`, shape (n, 384) float32.
        entities: the entities table: names of people are no topics, and a topic with the name of one is that entity.
    """
    current = documents.filter("is_current").select("document_id")
    live = memories.with_row_index("row").join(current, on="document_id", how="semi")
    if live.is_empty():
        return empty("topics"), empty("topic_edges"), empty("topic_memories")
    live = live.sort(*SCOPE, "document_id", "ordinal", "memory_id").with_columns(
        block=pl.struct(*SCOPE, "document_id", pl.col("ordinal").fill_null(0) // _BLOCK_MEMORIES).rle_id()
    )
    titles = live.filter(pl.col("unit") != "turn").select(*SCOPE, "block", text="title").unique()
    found = count_phrases(pl.concat([live.select(*SCOPE, "block", "text"), titles]))
    counts, labels = by_scope(found), by_scope(phrase_labels(found))
    people = by_scope(_people(live, entities))
    parts = [
        _scope_topics(at, rows, vectors, _candidates(rows, counts.get(at), labels.get(at), people.get(at)))
        for at, rows in by_scope(live.select("memory_id", *SCOPE, "block", "row")).items()
    ]
    topics, edges, members = (pl.concat(list(frames)) for frames in zip(*parts, strict=True))
    if entities is not None:
        same = _named_as_entities(topics, entities)
        topics, members = (frame.with_columns(pl.col("topic_id").replace(same)) for frame in (topics, members))
        edges = edges.with_columns(pl.col("source_id", "target_id").replace(same))
    return topics.sort("topic_id"), edges.sort("source_id", "target_id", "kind"), members.sort("topic_id", "memory_id")


def _named_as_entities(topics: pl.DataFrame, entities: pl.DataFrame) -> dict[str, str]:
    """Returns the entity that has the name of a topic in its scope, by the topic's id; of several the lowest id."""
    rows = entities.select(*SCOPE, "name", "entity_id").sort("entity_id", descending=True).iter_rows()
    named = {(*scope, fold(name)): entity_id for *scope, name, entity_id in rows}
    labels = topics.select(*SCOPE, "label", "topic_id").iter_rows()
    return {i: named[key] for *scope, label, i in labels if (key := (*scope, fold(label))) in named}


def _people(live: pl.DataFrame, entities: pl.DataFrame | None) -> pl.DataFrame:
    """Returns (scope, name, speaks) of speakers and of people in texts."""
    speakers = live.select(*SCOPE, name="speaker").drop_nulls().unique()
    if entities is None:
        return speakers.with_columns(speaks=pl.lit(True))
    persons = entities.filter(type="person")
    names = pl.concat([persons.select(*SCOPE, "name"), persons.select(*SCOPE, name="aliases").explode("name")])
    names = names.drop_nulls().unique().with_columns(speaks=pl.lit(False))
    return pl.concat([speakers.with_columns(speaks=pl.lit(True)), names])


def _candidates(
    live: pl.DataFrame, counts: pl.DataFrame | None, labels: pl.DataFrame | None, people: pl.DataFrame | None
) -> pl.DataFrame:
    """Returns (phrase, label, weight, blocks), the phrases of most weight in all blocks first.

    Names of people and words that a pair replaces are excluded. `weight` is that of a phrase in one block: more where
    few blocks use it, where those use it often, and where it has two words.
    """
    if counts is None or labels is None:
        return pl.DataFrame(
            schema={"phrase": pl.String, "label": pl.String, "weight": pl.Float64, "blocks": pl.List(pl.Int64)}
        )
    blocks = live["block"].n_unique()
    fewest, most = (1, blocks) if blocks < _MIN_BLOCKS else (2, max(2, math.floor(_MAX_BLOCK_SHARE * blocks)))
    rows = (
        counts.group_by("phrase")
        .agg(blocks=pl.col("block").unique().sort() - live["block"].min(), n=pl.col("n").sum())
        .with_columns(df=pl.col("blocks").list.len().cast(pl.Int64))
        .filter(pl.col("df").is_between(fewest, most))
        .join(labels.select("phrase", "label", "capitals", "nouns"), on="phrase", how="left")
    )
    words = pl.col("phrase").str.split(" ")
    if people is not None:
        speakers = phrase_stems(w for name in people.filter("speaks")["name"] for w in name.split())
        named = phrase_stems(w for name in people["name"] for w in name.split()) - speakers
        has_name = words.list.eval(pl.element().is_in(sorted(named))).list.any()
        is_name = has_name & (pl.col("capitals") >= _MIN_NAME_CAPITALS)
        rows = rows.filter(~words.list.eval(pl.element().is_in(sorted(speakers))).list.any() & ~is_name)
    pairs = rows.filter(pl.col("phrase").str.contains(" ", literal=True))
    in_pairs = (
        pairs.select(phrase=words, pair_df="df").explode("phrase").group_by("phrase").agg(pl.col("pair_df").max())
    )
    rows = rows.join(in_pairs, on="phrase", how="left").filter(
        pl.col("pair_df").fill_null(0) < _MIN_PAIR_SHARE * pl.col("df")
    )
    nouns = rows.filter(pl.col("nouns") >= _MIN_NOUN_SHARE)
    if nouns.height >= _topic_count(blocks):  # notes without articles, and other languages, show none
        rows = nouns
    length_weight = pl.when(pl.col("phrase").str.contains(" ", literal=True)).then(_PAIR_WEIGHT).otherwise(1.0)
    weight = (
        length_weight * (1 + blocks / pl.col("df")).log() * (1 + _BURST_WEIGHT * (pl.col("n") / pl.col("df")).log())
    )
    return (
        rows.with_columns(weight=weight.round(6))
        .sort((pl.col("df") * pl.col("weight")).round(4), "phrase", descending=[True, False])
        .select("phrase", "label", "weight", "blocks")
        .head(_MAX_CANDIDATES)
    )


def _scope_topics(
    scope: ScopeKey, live: pl.DataFrame, vectors: np.ndarray, candidates: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    block_of = live["block"].to_numpy().astype(np.int64) - int(live["block"][0])
    # To 4 decimals: neither the last bits of a sum nor the order of rows may decide a tie.
    memory_vectors = np.round(vectors[live["row"].to_numpy()].astype(np.float64), 4)
    blocks = _unit(np.add.reduceat(memory_vectors, np.searchsorted(block_of, np.arange(block_of[-1] + 1))))
    if len(blocks) < _MIN_BLOCKS or candidates.is_empty():
        chosen, centers = [0], _unit(blocks.sum(axis=0, keepdims=True))
    else:
        chosen, centers = _choose(blocks, candidates)
    topic_of = np.round(blocks @ centers.T, 4).argmax(axis=1)
    used = np.unique(topic_of)
    chosen, centers, topic_of = [chosen[i] for i in used], centers[used], np.searchsorted(used, topic_of)
    if candidates.is_empty():
        names, labels = ["everything"], ["everything"]
    else:
        names, labels = (candidates[c].gather(chosen).to_list() for c in ("phrase", "label"))
    ids = [content_id("topic", *scope_parts(*scope), name) for name in names]
    parents = _broader_topics(centers)
    sizes = np.bincount(topic_of[block_of], minlength=len(ids))
    total_sizes = sizes.copy()
    for child, parent in parents.items():
        total_sizes[parent] += sizes[child]
    edges = list(_related(ids, centers))
    edges += [(ids[c], ids[p], "subtopic_of", round(float(centers[c] @ centers[p]), 2)) for c, p in parents.items()]
    rows = [(i, *scope, label, int(n)) for i, label, n in zip(ids, labels, total_sizes, strict=True)]
    return (
        conform("topics", pl.DataFrame(rows, schema=["topic_id", *SCOPE, "label", "size"], orient="row")),
        _with_scope("topic_edges", scope, pl.DataFrame(edges, schema=_EDGE, orient="row")),
        _with_scope("topic_memories", scope, _topic_memories(live, memory_vectors, centers, ids)),
    )


def _with_scope(table: str, scope: ScopeKey, frame: pl.DataFrame) -> pl.DataFrame:
    return conform(table, frame.with_columns(pl.lit(v).alias(c) for c, v in zip(SCOPE, scope, strict=True)))


def _choose(blocks: np.ndarray, candidates: pl.DataFrame) -> tuple[list[int], np.ndarray]:
    """Selects phrases greedily by their weight in the blocks that are covered least (maximum coverage, damped).

    No two phrases share a word. Returns the selected candidates, in order, and their centers: the mean direction of the
    blocks that use each.
    """
    from scipy.sparse import csr_matrix

    rows = candidates["blocks"]
    at = rows.explode().to_numpy().astype(np.int64)
    ends = np.r_[0, np.cumsum(rows.list.len().to_numpy())]
    uses = csr_matrix((np.ones(len(at)), at, ends), shape=(len(rows), len(blocks)))
    weights, words = candidates["weight"].to_numpy(), [set(p.split()) for p in candidates["phrase"]]
    available, uncovered, chosen = np.ones(len(rows), bool), np.ones(len(blocks)), list[int]()
    for _ in range(_topic_count(len(blocks))):
        gains = np.where(available, np.round((uses @ uncovered) * weights, 6), -1)
        pick = int(np.argmax(gains))  # candidates are sorted: of equals, the one with more weight
        if gains[pick] <= 0:
            break
        chosen.append(pick)
        uncovered[at[ends[pick] : ends[pick + 1]]] *= _COVERED_WEIGHT
        available &= np.array([words[pick].isdisjoint(w) for w in words])
    return chosen, _unit(np.asarray(uses[chosen] @ blocks))


def _topic_count(blocks: int) -> int:
    return min(_MAX_TOPICS, max(2, round(math.sqrt(1.5 * blocks))))


def _broader_topics(centers: np.ndarray) -> dict[int, int]:
    """Maps each topic but the broad ones, which come first, to the nearest broad one."""
    if len(centers) < _MIN_TOPICS_FOR_BROAD:
        return {}
    broad = round(math.sqrt(len(centers)))
    near = np.round(centers[broad:] @ centers[:broad].T, 4).argmax(axis=1)
    return {broad + i: int(p) for i, p in enumerate(near)}


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def _related(topic_ids: list[str], centers: np.ndarray) -> Iterator[tuple[str, str, str, float]]:
    weights = np.round(centers @ centers.T, 2)
    for i, j in zip(*np.nonzero(np.triu(weights >= _MIN_RELATED, 1)), strict=True):
        first, second = sorted((topic_ids[i], topic_ids[j]))
        yield first, second, "related_to", float(weights[i, j])


def _topic_memories(
    memories: pl.DataFrame, vectors: np.ndarray, centers: np.ndarray, topic_ids: list[str]
) -> pl.DataFrame:
    relevance = np.round(vectors @ centers.T, 2)
    by_id = np.argsort(np.array(topic_ids))
    order = by_id[np.argsort(-relevance[:, by_id], axis=1, kind="stable")[:, :_TOPICS_PER_MEMORY]]
    best = np.take_along_axis(relevance, order, axis=1)
    row, place = np.nonzero(best >= _MIN_RELEVANCE)
    return pl.DataFrame(
        {
            "topic_id": pl.Series(topic_ids, dtype=pl.String)[order[row, place]],
            "memory_id": memories["memory_id"][row],
            "relevance": best[row, place],
        }
    )
