"""Titled passages of a synthetic build: sentences, and names in them that lead from one passage to the next.

How many names and sentences there are is what passages of encyclopaedias have: MuSiQue's and HotpotQA's hold 80 to 88
words, four sentences and ten names, of which six are said nowhere else and one or two are other passages' titles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform

SENTENCES = 4
OTHERS, SHARED, OWN = 2, 2, 4  # names in a passage: titles of others, names that others say too, its alone
_ZIPF = 1.3
_SPREAD = 7919  # a prime: sentences have vectors of passages far from their own


@dataclass(frozen=True)
class Passages:
    """Texts of titled passages and what is named in them.

    Attributes:
        titles: of each passage.
        texts: of each passage.
        spans: start and end of each sentence in its text, shape (passages, SENTENCES, 2).
        others: the passages whose titles each names, shape (passages, OTHERS).
        mentions: (passage, kind, number, start, end) of each name; a title's number is its passage's.
        names: of each kind of name by number.
    """

    titles: list[str]
    texts: list[str]
    spans: np.ndarray
    others: np.ndarray
    mentions: pl.DataFrame
    names: dict[str, list[str]]

    def asked(self, rng: np.random.Generator, passages: Sequence[int]) -> list[str]:
        """Returns a name to ask about for each of some passages: its own title, or one that it names."""
        own = rng.random(len(passages)) < 0.5
        return [self.titles[p if mine else self.others[p, 0]] for p, mine in zip(passages, own.tolist(), strict=True)]


def titled_passages(
    rng: np.random.Generator,
    sizes: np.ndarray,
    cluster: np.ndarray,
    words: Sequence[Sequence[str]],
    vocabulary: np.ndarray,
) -> Passages:
    """Makes passages of given words; what a passage names is its own user's, a cluster favouring its own.

    Args:
        rng: what chooses.
        sizes: memories of each user, which follow each other.
        cluster: of each memory.
        words: of each memory.
        vocabulary: words to make names of.
    """
    n = len(words)
    rare = vocabulary[500:].tolist()

    def made(count: int) -> list[str]:
        return [f"{rare[a]} {rare[b]}".title() for a, b in rng.integers(0, len(rare), (count, 2)).tolist()]

    first, size = (np.repeat(a, sizes)[:, None] for a in (np.cumsum(sizes) - sizes, sizes))
    others = first + (rng.zipf(_ZIPF, (n, OTHERS)) + 31 * cluster[:, None]) % size
    shared = first + (rng.zipf(_ZIPF, (n, SHARED)) + 31 * cluster[:, None]) % np.maximum(1, size // 4)
    names = {"title": made(n), "shared": made(n), "own": made(n * OWN)}
    numbers = np.concatenate([np.arange(n)[:, None], others, shared, np.arange(n * OWN).reshape(n, OWN)], axis=1)
    kinds = ["title"] * (1 + OTHERS) + ["shared"] * SHARED + ["own"] * OWN
    texts, spans, at = [], [], []
    for said, told in zip(words, numbers.tolist(), strict=True):
        text, ends, starts = _passage(said, [names[k][i] for k, i in zip(kinds, told, strict=True)])
        texts.append(text)
        spans.append(ends)
        at.append(starts)
    mentions = pl.DataFrame(
        {
            "passage": np.repeat(np.arange(n), len(kinds)),
            "kind": kinds * n,
            "number": numbers.ravel(),
            "char_start": np.array(at)[:, :, 0].ravel(),
            "char_end": np.array(at)[:, :, 1].ravel(),
        }
    )
    return Passages(names["title"], texts, np.array(spans), others, mentions, names)


def _passage(words: Sequence[str], names: Sequence[str]) -> tuple[str, list[list[int]], list[list[int]]]:
    """Returns a text of `SENTENCES` sentences that begins with the first name, and spans of sentences and of names.

    Each of the other names ends a sentence, in turn.
    """
    parts, spans, at, length = [], [], [[0, 0]] * len(names), 0
    for s in range(SENTENCES):
        plain = list(words[len(words) * s // SENTENCES : len(words) * (s + 1) // SENTENCES])
        begins = length
        for i, text in _pieces(s, plain, names):
            if i is not None:
                at[i] = [length, length + len(text)]
            parts.append(text)
            length += len(text) + 1
        parts[-1] += "."
        length += 1
        spans.append([begins, length - 1])
    return " ".join(parts), spans, at


def _pieces(s: int, plain: list[str], names: Sequence[str]) -> Iterator[tuple[int | None, str]]:
    """Yields what a sentence is made of, and the number of each name in it."""
    if s == 0:
        yield 0, names[0]
        yield None, " ".join(plain)
    else:
        yield None, " ".join(plain).capitalize()
    for i in range(1 + s, len(names), SENTENCES):
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
    whose = pl.DataFrame({"passage": np.arange(len(ids)), "memory_id": ids, "user_id": owner})
    mentions = passages.mentions.join(whose, on="passage", maintain_order="left").with_columns(
        pl.format("{}-{}-{}", "user_id", "kind", "number").alias("entity_id"), collection=pl.lit(collection)
    )
    distinct = mentions.unique("entity_id", keep="first", maintain_order=True)
    named = [passages.names[k][i] for k, i in distinct.select("kind", "number").iter_rows()]
    entities = distinct.select(
        "entity_id", "collection", "user_id", pl.Series("name", named), pl.lit("x").alias("type")
    )
    said = mentions.unique(["memory_id", "entity_id"], keep="first", maintain_order=True)
    n, k = len(ids), SENTENCES
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
        "mentions": conform("mentions", said.drop("passage", "kind", "number")),
        "context_inputs": conform("context_inputs", inputs),
    }
