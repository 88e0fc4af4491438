"""Topics of a scope: clusters of its current documents by what they mean, named by the words that set them apart.

Two levels: topics, and above them broader ones where there are enough. A topic's id comes from its label, so that a
build that changed a little keeps the nodes it can.
"""

import math
from collections.abc import Iterator

import numpy as np
import polars as pl

from pipelines.memory.words import fold, is_content, word_rows
from pipelines.store.ids import content_id
from pipelines.store.tables import conform, empty

_SCOPE = ["collection", "user_id"]
_FEW_DOCUMENTS = 4  # fewer than this: one topic
_MANY_DOCUMENTS = 2000  # more than this: k-means instead of a full tree
_MOST_TOPICS = 64
_FIRST_BROADER = 8  # topics from which broader ones are made
_RELEVANT = 0.3
_RELATED = 0.6
_TOPICS_PER_MEMORY = 2
_TITLE_WEIGHT = 3
_LABEL_WORDS = 3
_SEED = 7
_EDGE = {"source_id": pl.String, "target_id": pl.String, "kind": pl.String, "weight": pl.Float64}


def build_topics(
    memories: pl.DataFrame, documents: pl.DataFrame, vectors: np.ndarray
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Returns (topics, topic_edges, topic_memories), each scope by itself, sorted by id.

    Documents are clustered by the mean vector of their memories: Ward's tree up to 2,000 documents, seeded mini-batch
    k-means above. Labels are the two or three words of a cluster with the highest class-based tf-idf, titles counting
    three times (the weighting of BERTopic, Grootendorst 2022). A memory is held by its nearest two topics, with the
    cosine to their centre as relevance, where that is 0.3 or more; it is rounded to 2 decimals, because a third
    would rewrite a fifth of all rows whenever 1 % of the texts change.

    Args:
        memories: the memories table; those of document versions that are not current belong to no topic.
        documents: the documents table.
        vectors: unit vectors aligned to the rows of `memories`, shape (n, 384) float32.
    """
    current = documents.filter("is_current").select("document_id")
    live = memories.with_row_index("row").join(current, on="document_id", how="semi").sort("memory_id")
    if live.is_empty():
        return empty("topics"), empty("topic_edges"), empty("topic_memories")
    words = _document_words(live)
    parts = [
        _scope_topics((str(key[0]), str(key[1])), rows, words, vectors)
        for key, rows in live.sort(*_SCOPE, "memory_id").group_by(_SCOPE, maintain_order=True)
    ]
    topics, edges, held = (pl.concat(list(frames)) for frames in zip(*parts, strict=True))
    return topics.sort("topic_id"), edges.sort("source_id", "target_id", "kind"), held.sort("topic_id", "memory_id")


def _document_words(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (document_id, word, n): how often each document has each content word, its title counted three times."""
    plain = pl.col("word").str.contains(r"^\p{L}[\p{L}\-]+$") & pl.col("word").str.len_chars().is_between(3, 24)
    texts = word_rows(memories, "document_id").with_columns(n=pl.lit(1))
    shown = memories.filter(pl.col("unit") != "turn").select("document_id", "title").unique("document_id")
    titles = word_rows(shown, "document_id", "title").with_columns(n=pl.lit(_TITLE_WEIGHT))
    return pl.concat([texts, titles]).filter(plain).group_by("document_id", "word").agg(pl.col("n").sum())


def _scope_topics(
    scope: tuple[str, str], memories: pl.DataFrame, words: pl.DataFrame, vectors: np.ndarray
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    memories = memories.sort("document_id", "memory_id")
    ids = memories["document_id"].unique(maintain_order=True)
    of_memory = memories["document_id"].rle_id().to_numpy()
    mine = vectors[memories["row"].to_numpy()].astype(np.float64)
    centres = _unit(np.add.reduceat(mine, np.searchsorted(of_memory, np.arange(len(ids)))))
    fine = _cluster(centres, _topic_count(len(ids)))
    speakers = {w for s in memories["speaker"].drop_nulls().unique() for w in fold(s).split()}
    counts = words.join(pl.DataFrame({"document_id": ids, "cluster": fine}), on="document_id", how="inner")
    counts = counts.filter(~pl.col("word").is_in(sorted(speakers)))
    middles = _middles(centres, fine)
    labels = _labels(counts, middles.shape[0], set())
    topic_ids = [content_id("topic", *scope, label) for label in labels]
    sizes = np.bincount(fine[of_memory], minlength=len(labels))
    rows = [(i, *scope, label, int(n)) for i, label, n in zip(topic_ids, labels, sizes, strict=True)]
    edges = list(_related(topic_ids, middles))
    if len(labels) >= _FIRST_BROADER:
        broad = _cluster(middles, max(2, round(math.sqrt(len(labels)))))
        above = counts.with_columns(cluster=pl.Series(broad)[counts["cluster"]])
        tops = _middles(middles, broad)
        top_labels = _labels(above, tops.shape[0], set(labels))
        top_ids = [content_id("topic", *scope, label) for label in top_labels]
        for b, (top_id, label) in enumerate(zip(top_ids, top_labels, strict=True)):
            rows.append((top_id, *scope, label, int(sizes[broad == b].sum())))
        for f, b in enumerate(broad):
            edges.append((topic_ids[f], top_ids[b], "subtopic_of", round(float(middles[f] @ tops[b]), 2)))
    return (
        conform("topics", pl.DataFrame(rows, schema=["topic_id", *_SCOPE, "label", "size"], orient="row")),
        _scoped("topic_edges", scope, pl.DataFrame(edges, schema=_EDGE, orient="row")),
        _scoped("topic_memories", scope, _held(memories, mine, middles, topic_ids)),
    )


def _scoped(table: str, scope: tuple[str, str], frame: pl.DataFrame) -> pl.DataFrame:
    return conform(table, frame.with_columns(collection=pl.lit(scope[0]), user_id=pl.lit(scope[1])))


def _topic_count(documents: int) -> int:
    if documents < _FEW_DOCUMENTS:
        return 1
    return min(_MOST_TOPICS, max(2, round(math.sqrt(documents / 2))))


def _cluster(points: np.ndarray, k: int) -> np.ndarray:
    """Returns a cluster number for each point, numbered by first appearance; points that are all alike are one."""
    # To 4 decimals: neither the last bits of a sum nor the order of rows may decide a tie.
    points = np.round(points, 4)
    k = min(k, len(np.unique(points, axis=0)))
    if k <= 1:
        return np.zeros(len(points), np.int64)
    found = _ward(points, k) if len(points) <= _MANY_DOCUMENTS else _k_means(points, k)
    order = {c: n for n, c in enumerate(dict.fromkeys(found.tolist()))}
    return np.array([order[c] for c in found.tolist()], np.int64)


def _ward(points: np.ndarray, k: int) -> np.ndarray:
    """Cuts Ward's tree where k clusters are left: its first n - k merges are made, its last k - 1 are not."""
    from scipy.cluster.hierarchy import linkage

    found = np.arange(len(points))
    members = [[i] for i in found.tolist()]
    for a, b in linkage(points, "ward")[: len(points) - k, :2].astype(int).tolist():
        members.append(members[a] + members[b])
        found[members[-1]] = len(members) - 1
    return found


def _k_means(points: np.ndarray, k: int) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return MiniBatchKMeans(k, random_state=_SEED, n_init=1, batch_size=2048, max_iter=30).fit_predict(points)


def _middles(points: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    sums = np.zeros((int(clusters.max()) + 1, points.shape[1]))
    np.add.at(sums, clusters, points)
    return _unit(sums)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def _labels(counts: pl.DataFrame, clusters: int, taken: set[str]) -> list[str]:
    """Returns one label for each cluster, all different and none of `taken`: its most distinctive words."""
    per = counts.group_by("cluster", "word").agg(pl.col("n").sum(), documents=pl.len())
    average = per["n"].sum() / max(1, clusters)
    scored = (
        per.with_columns(total=pl.col("n").sum().over("word"), mass=pl.col("n").sum().over("cluster"))
        .with_columns(
            score=pl.col("n") / pl.col("mass") * (1 + average / pl.col("total")).log() * (1 + pl.col("documents")).log()
        )
        .sort(["cluster", "score", "word"], descending=[False, True, False])
        .group_by("cluster", maintain_order=True)
        .agg(pl.col("word").head(24))
    )
    best = dict(scored.iter_rows())
    out: list[str] = []
    for cluster in range(clusters):
        chosen: list[str] = []
        words = _one_of_each(best.get(cluster, []))
        for word in words[:_LABEL_WORDS]:
            chosen.append(word)
        extra = iter(words[_LABEL_WORDS:])
        label = ", ".join(chosen) or "everything"
        n = 2
        while label in taken or label in out:
            more = next(extra, None)
            label = f"{label}, {more}" if more else f"{', '.join(chosen) or 'everything'} ({n})"
            n += 0 if more else 1
        out.append(label)
    return out


def _one_of_each(words: list[str]) -> list[str]:
    """Drops words that only inflect an earlier one: the same first letters, up to the last three."""
    kept: list[str] = []
    for word in words:
        stem = word[: max(4, len(word) - 3)]
        if is_content(word) and not any(k.startswith(stem) or word.startswith(k[: max(4, len(k) - 3)]) for k in kept):
            kept.append(word)
    return kept


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
    return pl.DataFrame({
        "topic_id": pl.Series(topic_ids, dtype=pl.String)[order[row, place]],
        "memory_id": memories["memory_id"][row],
        "relevance": best[row, place],
    })  # fmt: skip
