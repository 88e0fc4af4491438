"""The strategies by name, and the weights of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from palimpsest.core.errors import ArgumentError
from palimpsest.query.request.types import CollectionInfo


@dataclass(frozen=True)
class Spreading:
    """Weights of a walk over names: where it starts, and what is added to ln(where it ends + an even share).

    Attributes:
        question: share of the start on entities that the question names.
        passages: share on the `seeds` best passages; of it `named` goes to those whose title the question names.
        sentences: share on entities in the sentences of the best passages.
        named: see `passages`.
        seeds: how many passages.
        cosine: a sentence counts exp(cosine * its cosine with the question) times its passage's share.
        overlap: the same, where sentences have no vectors, with the share of the question's words in it.
        steps: of the walk.
        follow: how much of it goes on at each step.
        own: weight of what a memory scores by itself, as a share of the best one's.
        pairs: weight of answering together with another passage, where one of both is among the `leading` best.
        leading: see `pairs`.
        title: what it adds to a pair, in z-scores, that one names the other's title.
    """

    question: float = 0.1
    passages: float = 0.3
    sentences: float = 0.6
    named: float = 0.8
    seeds: int = 20
    cosine: float = 10.0
    overlap: float = 3.0
    steps: int = 3
    follow: float = 0.3
    own: float = 4.0
    pairs: float = 2.0
    leading: int = 10
    title: float = 2.0


@dataclass(frozen=True)
class Weights:
    """The composite: `vector` * z(cosine) + `words` * z(BM25) + ..., lifted over links.

    A collection's settings may give `NAMED` of them. `palimpsest.query.ranking.priors` tells of recency, frequency and
    importance.

    Attributes:
        vector: weight of z(cosine).
        words: weight of z(BM25).
        graph: how much counts of what comes over links, neighbours, topics and names. A link lifts what it reaches to
            `graph` * DECAY * link weight of the score that it comes from, where that is more.
        time: weight of z(overlap with the period that the question asks about), where it states one.
        recency: weight of how new a memory is.
        frequency: weight of how many others support it.
        importance: weight of how important it is said to be.
        diversity: weight of what a result repeats of those before it; see `palimpsest.query.ranking.diversity`.
        entities: how many links over shared entities are followed from each memory.
        whole: what scores every memory of the scope first: `order`, `passages`, `topics`, or `alone`, by itself, which
            is needed only where more than vectors and words counts.
        shares: in conversations, of the vector score of what was said one, two, ... turns away.
        nearby: of a word's score there; a word counts once.
        spreading: the walk's where `passages` are scored.
        fusion: `z` adds z-scores; `ranks` adds 1 / (60 + rank) instead, for comparison.
    """

    vector: float = 1.0
    words: float = 1.0
    graph: float = 1.0
    time: float = 0.0
    recency: float = 0.0
    frequency: float = 0.0
    importance: float = 0.0
    diversity: float = 0.0
    entities: int = 20
    whole: str = ""
    shares: tuple[float, ...] = ()
    nearby: tuple[float, ...] = ()
    spreading: Spreading = field(default_factory=Spreading)
    fusion: str = "z"


NAMED = ("vector", "words", "graph", "time", "recency", "frequency", "importance", "diversity")
"""The weights that a collection's settings may give."""

STRATEGIES: dict[str, Weights] = {
    "flat": Weights(words=0.0, graph=0.0),
    "hybrid": Weights(),
    "words": Weights(vector=0.0, graph=0.0),
    "hierarchical": Weights(whole="topics"),
    "dated": Weights(whole="alone", time=1.0),
    "turns": Weights(words=0.8, whole="order", time=0.5, entities=0, shares=(0.3, 0.15), nearby=(0.6, 0.36, 0.22)),
    "statements": Weights(words=1.2, whole="passages", time=1.0, entities=0, spreading=Spreading(own=8.0, title=0.0)),
    "graph": Weights(words=1.2, whole="passages", time=1.0, entities=0),
}
"""`auto` is one of the last four, by what the collection is: `palimpsest.entities.collection_shape`."""


def chosen_weights(asked: str | Weights, info: CollectionInfo | None = None) -> tuple[str, Weights]:
    """Returns the name and the weights of what a search is asked for.

    Args:
        asked: name of a strategy, `auto`, or weights.
        info: what the build says of the collection; `auto` is its strategy, with the weights that it gives.

    Raises:
        PalimpsestError: there is no such strategy.
    """
    if isinstance(asked, Weights):
        return "weights", asked
    name: str = asked
    told: Mapping[str, Any] = {}
    if asked == "auto":
        name, told = (info.strategy, info.weights) if info else ("hybrid", told)
    if name not in STRATEGIES:
        raise ArgumentError("strategy", f"not one of auto, {', '.join(STRATEGIES)}", name)
    return name, replace(STRATEGIES[name], **told)
