"""Titled passages of a synthetic build: sentences, and names in them that lead from one passage to the next.

The numbers of names and sentences are those of encyclopedia passages: MuSiQue's and HotpotQA's have 80 to 88 words,
four sentences and ten names, of which six occur nowhere else and one or two are titles of other passages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform


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
_SPREAD = 7919  # a prime: sentences have vectors of passages far from their own


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
    vectors = (np.arange(n)[:, None] + _SPREAD * np.arange(k)) % n
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
