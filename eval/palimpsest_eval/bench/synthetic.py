"""Seeded synthetic builds at any scale: users of Zipf size, Zipf words, clustered vectors, entities and versions.

`auto` resolves to a strategy of each kind: turns of sessions, or titled passages and long pages that name each other's
titles.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE, content_id
from palimpsest.nodes.node_tables import READS, build_nodes
from palimpsest.query.embed_query import count_tokens
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform, empty
from palimpsest.text.tokenizer import tokenizer

# Titled passages of a synthetic build: sentences, and names in them that lead from one passage to the next.
#
# The numbers of names and sentences are those of encyclopedia passages: MuSiQue's and HotpotQA's have 80 to 88 words,
# four sentences and ten names, of which six occur nowhere else and one or two are titles of other passages.


@dataclass(frozen=True)
class Shape:
    """How long titled texts are, and how many names they have.

    Attributes:
        words: least and most, names left out.
        sentences: of each text.
        others: titles of others that each names.
        shared: names that it shares with others.
        own: names that are in it alone.
    """

    words: tuple[int, int]
    sentences: int
    others: int
    shared: int
    own: int


PASSAGE = Shape((60, 140), 4, 2, 2, 4)
PAGE = Shape((700, 770), 48, 6, 8, 24)
"""A page of documentation: some 1,500 tokens, 50 sentences and 40 names."""

_ZIPF = 1.3
_TITLE_SPREAD = 7919  # a prime: sentences have vectors of passages far from their own


@dataclass(frozen=True)
class Passages:
    """Texts of titled passages and the names in them.

    Attributes:
        titles: of each passage.
        texts: of each passage.
        spans: start and end of each sentence in its text, shape (passages, sentences, 2).
        others: the passages whose titles each names, shape (passages, others).
        mentions: (passage, kind, number, start, end) of each name; a title's number is its passage's.
        names: of each kind of name by number.
    """

    titles: list[str]
    texts: list[str]
    spans: np.ndarray
    others: np.ndarray
    mentions: pl.DataFrame
    names: dict[str, list[str]]

    def draw_names(self, rng: np.random.Generator, passages: Sequence[int]) -> list[str]:
        """Returns a name for a question about each of some passages: its title, or a title that it names."""
        is_title = (rng.random(len(passages)) < 0.5).tolist()
        return [self.titles[p if title else self.others[p, 0]] for p, title in zip(passages, is_title, strict=True)]


def titled_passages(
    rng: np.random.Generator,
    sizes: np.ndarray,
    cluster: np.ndarray,
    words: Sequence[Sequence[str]],
    vocabulary: np.ndarray,
    shape: Shape = PASSAGE,
) -> Passages:
    """Makes passages of given words; a passage names only those of its user, and prefers its cluster's.

    Args:
        rng: of the random choices.
        sizes: memories of each user, which are consecutive.
        cluster: of each memory.
        words: of each memory.
        vocabulary: words to make names of.
        shape: how many sentences and names they have.
    """
    n = len(words)
    rare = vocabulary[500:].tolist()

    def draw_rare_names(count: int) -> list[str]:
        return [f"{rare[a]} {rare[b]}".title() for a, b in rng.integers(0, len(rare), (count, 2)).tolist()]

    first, size = (np.repeat(a, sizes)[:, None] for a in (np.cumsum(sizes) - sizes, sizes))
    others = first + (rng.zipf(_ZIPF, (n, shape.others)) + 31 * cluster[:, None]) % size
    shared = first + (rng.zipf(_ZIPF, (n, shape.shared)) + 31 * cluster[:, None]) % np.maximum(1, size // 4)
    names = {"title": draw_rare_names(n), "shared": draw_rare_names(n), "own": draw_rare_names(n * shape.own)}
    own = np.arange(n * shape.own).reshape(n, shape.own)
    numbers = np.concatenate([np.arange(n)[:, None], others, shared, own], axis=1)
    kinds = ["title"] * (1 + shape.others) + ["shared"] * shape.shared + ["own"] * shape.own
    texts, sentence_spans, name_spans = [], [], []
    for passage_words, named in zip(words, numbers.tolist(), strict=True):
        mentioned_names = [names[k][i] for k, i in zip(kinds, named, strict=True)]
        text, sentences, mentioned = _passage(passage_words, mentioned_names, shape.sentences)
        texts.append(text)
        sentence_spans.append(sentences)
        name_spans.append(mentioned)
    mentions = pl.DataFrame(
        {
            "passage": np.repeat(np.arange(n), len(kinds)),
            "kind": kinds * n,
            "number": numbers.ravel(),
            "char_start": np.array(name_spans)[:, :, 0].ravel(),
            "char_end": np.array(name_spans)[:, :, 1].ravel(),
        }
    )
    return Passages(names["title"], texts, np.array(sentence_spans), others, mentions, names)


def _passage(
    words: Sequence[str], names: Sequence[str], sentences: int
) -> tuple[str, list[list[int]], list[list[int]]]:
    """Returns a text of so many sentences that begins with the first name, and spans of sentences and of names.

    Each of the other names ends a sentence, in turn.
    """
    parts, spans, name_spans, length = [], [], [[0, 0]] * len(names), 0
    for s in range(sentences):
        plain = list(words[len(words) * s // sentences : len(words) * (s + 1) // sentences])
        begins = length
        for i, text in _pieces(s, plain, names, sentences):
            if i is not None:
                name_spans[i] = [length, length + len(text)]
            parts.append(text)
            length += len(text) + 1
        parts[-1] += "."
        length += 1
        spans.append([begins, length - 1])
    return " ".join(parts), spans, name_spans


def _pieces(s: int, plain: list[str], names: Sequence[str], sentences: int) -> Iterator[tuple[int | None, str]]:
    """Yields the parts of a sentence with the number of the name that each is, None for plain words."""
    if s == 0:
        yield 0, names[0]
        yield None, " ".join(plain)
    else:
        yield None, " ".join(plain).capitalize()
    for i in range(1 + s, len(names), sentences):
        yield i, names[i]


def named_tables(
    passages: Passages, ids: Sequence[str], owner: np.ndarray, collection: str, embedded: bool | None = None
) -> dict[str, pl.DataFrame]:
    """Returns entities, mentions and context_inputs of passages.

    Where sentences are `embedded`, each has the vector of some passage; by default they are where a collection that
    names no profile embeds them.
    """
    if embedded is None:
        embedded = CollectionConfig.model_fields["profile"].default == "full"
    owners = pl.DataFrame({"passage": np.arange(len(ids)), "memory_id": ids, "user_id": owner})
    mentions = passages.mentions.join(owners, on="passage", maintain_order="left").with_columns(
        pl.format("{}-{}-{}", "user_id", "kind", "number").alias("entity_id"), collection=pl.lit(collection)
    )
    distinct = mentions.unique("entity_id", keep="first", maintain_order=True)
    named = [passages.names[k][i] for k, i in distinct.select("kind", "number").iter_rows()]
    entities = distinct.select(
        "entity_id", "collection", "user_id", pl.Series("name", named), pl.lit("x").alias("type")
    )
    first_mentions = mentions.unique(["memory_id", "entity_id"], keep="first", maintain_order=True)
    n, k = passages.spans.shape[:2]
    spans = passages.spans.reshape(-1, 2)
    vectors = (np.arange(n)[:, None] + _TITLE_SPREAD * np.arange(k)) % n
    inputs = pl.DataFrame(
        {
            "memory_id": np.repeat(ids, k),
            "ordinal": np.tile(np.arange(k), n),
            "char_start": spans[:, 0],
            "char_end": spans[:, 1],
            "text_hash": [f"{i:032x}" for i in vectors.ravel().tolist()],
            "text": [text[a:b] for text, s in zip(passages.texts, passages.spans.tolist(), strict=True) for a, b in s],
        }
    ).with_columns(kind=pl.lit("sentence"))
    if not embedded:
        inputs = inputs.with_columns(text_hash=pl.lit(None, pl.String))
    return {
        "entities": conform("entities", entities),
        "mentions": conform("mentions", first_mentions.drop("passage", "kind", "number")),
        "context_inputs": conform("context_inputs", inputs),
    }


# Topics and facts of a synthetic build, its nodes and edges: a broad topic a cluster, narrow ones below it.

_NARROW = 25  # topics below each broad one
_RELATED = 2  # further narrow topics of the same broad one that each is related to


def with_topics(
    rng: np.random.Generator, tables: Mapping[str, pl.DataFrame], cluster: np.ndarray, words: np.ndarray
) -> dict[str, pl.DataFrame]:
    """Returns the tables with topics, and with the nodes and edges that a build derives from them.

    Args:
        rng: draws the narrow topic of each memory.
        tables: memories, documents, versions, entities and mentions.
        cluster: of each memory.
        words: the vocabulary, for labels.
    """
    memories = tables["memories"].select("memory_id", "collection", "user_id")
    narrow = cluster * _NARROW + rng.integers(0, _NARROW, len(cluster))
    placed = memories.with_columns(narrow=pl.Series(narrow), broad=pl.Series(cluster))
    scope = ("collection", "user_id")
    levels = {
        level: placed.select(*scope, number=level).unique().sort(*scope, "number") for level in ("broad", "narrow")
    }
    topics = {level: _with_ids(frame, level, words) for level, frame in levels.items()}
    members = placed.join(topics["narrow"].rename({"number": "narrow"}), on=[*scope, "narrow"]).with_columns(
        relevance=pl.lit(0.7)
    )
    parents = (
        topics["narrow"]
        .with_columns(broad=pl.col("number") // _NARROW)
        .join(
            topics["broad"].select(*scope, pl.col("topic_id").alias("target_id"), broad="number"), on=[*scope, "broad"]
        )
    )
    below = parents.select(*scope, "target_id", source_id="topic_id", kind=pl.lit("subtopic_of"), weight=pl.lit(0.8))
    related = [
        parents.select(
            *scope,
            source_id="topic_id",
            target_id=pl.col("topic_id").shift(-n).over(*scope, "broad"),
            kind=pl.lit("related_to"),
            weight=pl.lit(0.5),
        ).drop_nulls()
        for n in range(1, _RELATED + 1)
    ]
    made = {
        **{name: tables.get(name, empty(name)) for name in READS},
        "topics": conform(
            "topics", pl.concat([t.drop("number").with_columns(size=pl.lit(1)) for t in topics.values()])
        ),
        "topic_edges": conform("topic_edges", pl.concat([below.select(related[0].columns), *related])),
        "topic_memories": conform("topic_memories", members.drop("narrow", "broad", "label")),
    }
    made["facts"] = _facts(tables["mentions"])
    return {**tables, **made, **build_nodes(made)}


def _facts(mentions: pl.DataFrame) -> pl.DataFrame:
    """Returns a fact for each memory that names two entities: the first works with the second."""
    pairs = (
        mentions.sort("memory_id", "char_start")
        .group_by(*SCOPE, "memory_id", maintain_order=True)
        .agg(pl.col("entity_id").unique(maintain_order=True).head(2))
        .filter(pl.col("entity_id").list.len() == 2)
        .select(
            *SCOPE,
            "memory_id",
            subject_id=pl.col("entity_id").list.get(0),
            object_id=pl.col("entity_id").list.get(1),
        )
    )
    stated = pairs.group_by(*SCOPE, "subject_id", "object_id", maintain_order=True).agg(memory_ids="memory_id")
    ids = [content_id("fact", *row[:-1]) for row in stated.iter_rows()]
    return conform(
        "facts",
        stated.with_columns(
            fact_id=pl.Series(ids, dtype=pl.String),
            predicate=pl.lit("work_with"),
            is_negated=pl.lit(False),
            is_latest=pl.lit(True),
            confidence=pl.lit(0.8),
        ),
    )


def _with_ids(topics: pl.DataFrame, level: str, words: np.ndarray) -> pl.DataFrame:
    ids = [content_id("topic", level, *row) for row in topics.iter_rows()]
    labels = [f"{words[(7 * n) % len(words)]} {words[(11 * n + 3) % len(words)]}" for n in topics["number"]]
    return topics.with_columns(topic_id=pl.Series(ids), label=pl.Series(labels))


Kind = Literal["turns", "titled", "pages"]
KINDS: tuple[Kind, ...] = ("turns", "titled", "pages")

COLLECTION = "bench"
SEED = 20_251_122
DIMENSIONS = 384
_SIZE_EXPONENT = 1.5  # Zipf, of users: the largest of 50 has 43 %
_WORDS, _WORD_EXPONENT = 40_000, 1.05
_CLUSTERS, _SPREAD = 200, 0.8
_PER_MEMORY = {"turns": (6, 40), "titled": PASSAGE.words, "pages": PAGE.words}  # words
_WINDOWS = {"turns": 1, "titled": 1, "pages": 7}
_MENTIONS = 2
_QUESTIONS_PER_MONTH_QUESTION = 5  # one of so many names a month
_EPOCH = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class SyntheticBuild:
    """Tables of a build, its vectors, and questions in the words of its largest user.

    Attributes:
        tables: as in `store.tables`.
        vectors: unit vectors of the memories' windows in order, shape (n, 384) float32.
        largest: user with most memories.
        sizes: memories of each user.
        queries: distinct question texts.
    """

    tables: dict[str, pl.DataFrame]
    vectors: np.ndarray
    largest: str
    sizes: dict[str, int]
    queries: list[str]

    def lookup(self, hashes: Sequence[str]) -> np.ndarray:
        """Returns the vectors of text hashes, shape (n, 384)."""
        return self.vectors[np.fromiter((int(h, 16) for h in hashes), np.int64, len(hashes))]


def synthetic_build(memories: int, users: int, kind: Kind, queries: int, *, has_topics: bool = False) -> SyntheticBuild:
    """Makes a build of `memories` memories; the same arguments give the same build.

    Args:
        memories: in all.
        users: of Zipf size.
        kind: of memories.
        queries: how many questions.
        has_topics: whether memories belong to topics, some 5,000 of a user with 100,000.

    Raises:
        PalimpsestError: fewer memories than users, or an unknown kind.
    """
    if kind not in _PER_MEMORY:
        raise PalimpsestError(f"--kind {kind}: not one of {', '.join(_PER_MEMORY)}")
    if not 1 <= users <= memories:
        raise PalimpsestError(f"--users {users}: must be 1 to --memories {memories}")
    rng = np.random.default_rng([SEED, memories, users, KINDS.index(kind)])
    sizes = _zipf_sizes(memories, users)
    owner = np.repeat([f"user{u:04d}" for u in range(users)], sizes)
    cluster = rng.integers(0, _CLUSTERS, memories)
    vocabulary, texts = _draw_words(rng, cluster, kind)
    ids = [content_id(COLLECTION, kind, i) for i in range(memories)]
    drawn = rng.integers(0, sizes[0], queries).tolist()
    if kind != "turns":
        shape = PAGE if kind == "pages" else PASSAGE
        passages = titled_passages(rng, sizes, cluster, texts, vocabulary, shape)
        frame = _memories(rng, ids, owner, passages.texts, vocabulary, passages.titles)
        named = named_tables(passages, ids, owner, COLLECTION)
        names = passages.draw_names(rng, drawn)
        questions = [_draw_question(rng, texts[i], name) for i, name in zip(drawn, names, strict=True)]
    else:
        frame = _memories(rng, ids, owner, [" ".join(words) + "." for words in texts], vocabulary, None)
        named = {"context_inputs": empty("context_inputs"), **_entities(rng, ids, owner, cluster, vocabulary)}
        questions = [_draw_question(rng, texts[i], "") for i in drawn]
    if kind == "pages":  # whose quotes depend on it
        frame = frame.with_columns(token_count=pl.Series([count_tokens(text) for text in frame["text"]]))
    tables = {
        "memories": conform("memories", frame),
        "documents": conform("documents", _documents(frame)),
        "embed_inputs": conform("embed_inputs", _inputs(frame, _WINDOWS[kind])),
        **named,
        **_versions(rng, frame),
    }
    if has_topics:
        tables = with_topics(rng, tables, cluster, vocabulary)
    return SyntheticBuild(
        tables=tables,
        vectors=_vectors(rng, np.repeat(cluster, _WINDOWS[kind])),
        largest="user0000",
        sizes={f"user{u:04d}": int(s) for u, s in enumerate(sizes)},
        queries=questions,
    )


def _zipf_sizes(memories: int, users: int) -> np.ndarray:
    share = 1 / np.arange(1, users + 1) ** _SIZE_EXPONENT
    sizes: np.ndarray = np.maximum(1, np.floor(memories * share / share.sum())).astype(int)
    sizes[0] += memories - sizes.sum()
    return sizes


def _draw_words(rng: np.random.Generator, cluster: np.ndarray, kind: Kind) -> tuple[np.ndarray, list[list[str]]]:
    """Returns the vocabulary and the words of each memory; half of them are those of its cluster."""
    vocabulary = _vocabulary(rng)
    if kind == "pages":
        vocabulary = _with_common_words(rng, vocabulary)
    rank = 1 / np.arange(1, _WORDS + 1) ** _WORD_EXPONENT
    lengths = rng.integers(*_PER_MEMORY[kind], len(cluster))
    drawn = rng.choice(_WORDS, int(lengths.sum()), p=rank / rank.sum())
    shifted = (drawn + 97 * np.repeat(cluster, lengths)) % _WORDS
    known = vocabulary.tolist()
    chosen = [known[i] for i in np.where(rng.random(len(drawn)) < 0.5, drawn, shifted).tolist()]
    ends = np.cumsum(lengths)
    return vocabulary, [chosen[end - n : end] for end, n in zip(ends.tolist(), lengths.tolist(), strict=True)]


def _vocabulary(rng: np.random.Generator) -> np.ndarray:
    syllables = np.array([c + v + e for c in "bdfgklmnprstvz" for v in "aeiou" for e in ("", "n", "r", "s")])
    made: dict[str, None] = {}
    while len(made) < _WORDS:
        parts = syllables[rng.integers(0, len(syllables), (_WORDS, 3))]
        made |= dict.fromkeys("".join(p) for p in parts.tolist())
    return np.array(list(made)[:_WORDS])


def _with_common_words(rng: np.random.Generator, vocabulary: np.ndarray) -> np.ndarray:
    """Returns the vocabulary with three words of four replaced by words of one token, while there are any.

    Made words have three to four tokens, words of English texts one and a half.
    """
    known = sorted(word for word in tokenizer().get_vocab() if word.isalpha() and word.isascii() and len(word) > 2)
    places = np.flatnonzero(np.arange(len(vocabulary)) % 4)[: len(known)]
    mixed = vocabulary.astype("U32")
    mixed[places] = rng.permutation(known)[: len(places)]
    return mixed


def _memories(
    rng: np.random.Generator,
    ids: list[str],
    owner: np.ndarray,
    texts: list[str],
    words: np.ndarray,
    titles: list[str] | None,
) -> pl.DataFrame:
    """Returns memories: passages where they have titles, else turns."""
    n = len(ids)
    turns = titles is None
    speakers = [f"{words[i]}".capitalize() for i in range(200)]
    speaker = [speakers[i] for i in rng.integers(0, len(speakers), n)]
    session = [f"s{i // 40:06d}" for i in range(n)]
    return pl.DataFrame(
        {
            "memory_id": ids,
            "collection": COLLECTION,
            "user_id": owner,
            "session_id": session,
            "document_id": session,
            "ordinal": np.arange(n) % 40,
            "unit": "turn" if turns else "chunk",
            "text": texts,
            "type": "episodic" if turns else "document",
            "char_start": 0,
            "title": titles,
            "speaker": pl.Series(speaker) if turns else None,
            "observed_at": [_EPOCH + dt.timedelta(minutes=i) for i in range(n)],
            "token_count": [round(1.7 * t.count(" ")) + 2 for t in texts],
            "confidence": 1.0,
            "importance": 0.5,
        },
        strict=False,
    ).with_columns(
        pl.col("document_id") + pl.lit("-") + pl.col("user_id"),
        pl.col("text").str.len_chars().alias("char_end"),
        pl.concat_str(
            pl.coalesce("title", "speaker"), "text", pl.col("observed_at").dt.strftime("%-d %B %Y"), separator=" "
        ).alias("search_text"),
    )


def _documents(memories: pl.DataFrame) -> pl.DataFrame:
    return memories.group_by("document_id", maintain_order=True).agg(
        pl.col("collection", "user_id", "session_id").first(),
        pl.format("sessions/{}.jsonl", pl.col("document_id").first()).alias("uri"),
        pl.lit("session").alias("title"),
        pl.lit(True).alias("is_current"),
    )


def _inputs(memories: pl.DataFrame, windows: int) -> pl.DataFrame:
    """Returns the texts that memories are embedded by: each whole, or so many windows."""
    inputs = memories.select(
        "memory_id",
        pl.lit("memory" if windows == 1 else "window").alias("kind"),
        pl.lit(list(range(windows))).alias("ordinal"),
        "text",
    ).explode("ordinal")
    return inputs.with_columns(text_hash=pl.Series([f"{i:032x}" for i in range(inputs.height)]))


def _entities(
    rng: np.random.Generator, ids: list[str], owner: np.ndarray, cluster: np.ndarray, words: np.ndarray
) -> dict[str, pl.DataFrame]:
    """Returns entities of Zipf frequency and their mentions; each cluster prefers entities of its own."""
    n = len(ids)
    number = (rng.zipf(1.3, (n, _MENTIONS)) + 31 * cluster[:, None]) % max(50, n // 20)
    flat = pl.DataFrame(
        {
            "memory_id": np.repeat(ids, _MENTIONS),
            "user_id": np.repeat(owner, _MENTIONS),
            "number": number.ravel(),
            "collection": COLLECTION,
            "char_start": 0,
            "char_end": 1,
        }
    )
    flat = flat.with_columns(pl.format("{}-{}", "user_id", "number").alias("entity_id")).unique(maintain_order=True)
    distinct = flat.unique("entity_id", maintain_order=True)
    entities = distinct.select(
        "entity_id",
        "collection",
        "user_id",
        pl.Series("name", words[distinct["number"].to_numpy() % _WORDS].tolist()),
        pl.lit("person").alias("type"),
    )
    return {"entities": conform("entities", entities), "mentions": conform("mentions", flat.drop("number"))}


def _versions(rng: np.random.Generator, memories: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Returns relations and versions: one memory in fifty updates the one before it of its user, as many extend it."""
    frame = memories.select("memory_id", "collection", "user_id", "observed_at").with_columns(
        pl.col("memory_id").shift(1).over("user_id").alias("older_id"),
        pl.Series("draw", rng.integers(0, 50, memories.height)),
    )
    related = frame.filter(pl.col("older_id").is_not_null() & (pl.col("draw") < 2)).select(
        pl.concat_str("memory_id", "older_id", separator=":").alias("relation_id"),
        "collection",
        "user_id",
        pl.col("memory_id").alias("newer_id"),
        "older_id",
        pl.lit(0.9).alias("confidence"),
        pl.when(pl.col("draw") == 0).then(pl.lit("UPDATE")).otherwise(pl.lit("EXTEND")).alias("label"),
        pl.col("observed_at").alias("decided_at"),
    )
    retired = related.filter(pl.col("label") == "UPDATE").select(
        pl.col("older_id").alias("memory_id"),
        pl.col("newer_id").alias("superseded_by"),
        pl.col("decided_at").alias("valid_until"),
    )
    versions = frame.join(retired, on="memory_id", how="left", maintain_order="left").select(
        "memory_id",
        "collection",
        "user_id",
        pl.col("superseded_by").is_null().alias("is_latest"),
        pl.col("observed_at").alias("valid_from"),
        "valid_until",
        "superseded_by",
    )
    return {"relations": conform("relations", related), "versions": conform("versions", versions)}


def _vectors(rng: np.random.Generator, cluster: np.ndarray) -> np.ndarray:
    centres = rng.standard_normal((_CLUSTERS, DIMENSIONS), dtype=np.float32) / np.sqrt(DIMENSIONS, dtype=np.float32)
    noise = rng.standard_normal((len(cluster), DIMENSIONS), dtype=np.float32)
    noise *= np.float32(_SPREAD / np.sqrt(DIMENSIONS))
    noise += centres[cluster]
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return noise


def _draw_question(rng: np.random.Generator, words: list[str], name: str) -> str:
    """Returns a question of some words of a memory, in order, with a name, and sometimes with a month."""
    chosen = rng.choice(len(words), size=min(len(words), int(rng.integers(4, 10))), replace=False)
    topic = " ".join(words[i] for i in sorted(chosen)) + (f" of {name}" if name else "")
    month = " in February 2024" if rng.integers(_QUESTIONS_PER_MONTH_QUESTION) == 0 else ""
    return f"What did we say about {topic}{month}?"
