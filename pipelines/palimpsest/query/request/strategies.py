"""The strategies by name, and what each weighs: vectors, words, priors, shares of adjacent turns, steps of a walk."""

from dataclasses import dataclass, field, replace
from typing import Any

from palimpsest.core.errors import ArgumentError
from palimpsest.memories.vector_space import BGE_SMALL
from palimpsest.query.request.types import CollectionInfo


@dataclass(frozen=True)
class Spreading:
    """Weights of a walk over names: where it starts, and what is added to ln(final share + an even share).

    Attributes:
        question: start share of entities that the question names.
        passages: start share of the `seeds` best passages; `named` of it goes to those whose title the question names.
        sentences: start share of entities in the sentences of the best passages.
        named: see `passages`.
        seeds: how many passages.
        cosine: a sentence counts exp(cosine * its cosine with the question) times its passage's share.
        overlap: the same, where sentences have no vectors, with the share of the question's words in it.
        steps: of the walk.
        follow: share that follows edges at each step.
        own: weight of a memory's base score, relative to the best one's.
        pairs: weight of answering together with another passage, where one of both is among the `leading` best.
        leading: see `pairs`.
        title: bonus of a pair, in z-scores, where one names the other's title.
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
class ChatWeights:
    """Weights of a chat with an assistant, whose turns are long and mostly repeat what the user stated.

    Attributes:
        assistant: added to the score of an assistant's turn, in z-scores; of the other turns, where the question is
            about what the assistant wrote. Then an answer takes the shares below of the turn before it.
        answer: share of the vector score of the assistant's answer that the turn before it takes.
        answer_words: the same for the score of each word, which counts once.
        words: factor of the weight of words.
    """

    assistant: float = -0.5
    answer: float = 0.6
    answer_words: float = 0.6
    words: float = 0.6


@dataclass(frozen=True)
class Weights:
    """The composite: `vector` * z(cosine) + `words` * z(BM25) + ..., lifted over links.

    A collection's settings may give `NAMED` of them. See `palimpsest.query.ranking.scoring` for recency, frequency and
    importance.

    Attributes:
        vector: weight of z(cosine).
        words: weight of z(BM25).
        graph: factor of every contribution over links, neighbors, topics and names. A link lifts its target to `graph`
            * DECAY * link weight of its source's score, where that is more.
        time: weight of z(overlap with the period of the question), where it has one.
        recency: weight of how new a memory is.
        frequency: weight of how many others support it.
        importance: weight of how important it is.
        diversity: penalty of repeating a better result; see `palimpsest.query.ranking.merge`.
        entities: how many links over shared entities are followed from each memory.
        scorer: name of the scorer that scores every memory of the scope: see `palimpsest.query.ranking.rank`. With
            "" or `alone` each scores by itself, and the store finds the best where only vectors and words count.
        shares: in conversations, share of the vector scores one, two, ... turns away.
        nearby: the same for the score of each word, which counts once.
        windows: whether the cosines of memories lose what they gain by their number of windows alone.
        chat: weights in scopes with long turns of an assistant; there they replace `shares` and `nearby`. None scores
            those like other conversations.
        spreading: weights of the walk of the scorer `passages`.
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
    scorer: str = ""
    shares: tuple[float, ...] = ()
    nearby: tuple[float, ...] = ()
    windows: bool = True
    chat: ChatWeights | None = field(default_factory=ChatWeights)
    spreading: Spreading = field(default_factory=Spreading)
    fusion: str = "z"


NAMED = ("vector", "words", "graph", "time", "recency", "frequency", "importance", "diversity")
"""The weights that a collection's settings may give."""

STRATEGIES: dict[str, Weights] = {
    "flat": Weights(words=0.0, graph=0.0),
    "hybrid": Weights(),
    "words": Weights(vector=0.0, graph=0.0),
    "hierarchical": Weights(scorer="nodes"),
    "dated": Weights(scorer="alone", time=1.0),
    "turns": Weights(words=0.8, scorer="order", time=0.5, entities=0, shares=(0.3, 0.15), nearby=(0.6, 0.36, 0.22)),
    "statements": Weights(words=1.2, scorer="passages", time=1.0, entities=0, spreading=Spreading(own=8.0, title=0.0)),
    "graph": Weights(words=1.2, scorer="passages", time=1.0, entities=0),
}
"""`auto` is one of the last four, by the shape of the collection: `palimpsest.entities.collection_shape`."""


@dataclass(frozen=True)
class VectorTraits:
    """What differs between the vectors of an embedder and MiniLM's, with which all weights were chosen.

    Attributes:
        trust: factor of the weight of vectors relative to that of words.
        spread: standard deviation of cosines of questions with memories, relative to MiniLM's.
    """

    trust: float = 1.0
    spread: float = 1.0


TRAITS: dict[str, VectorTraits] = {BGE_SMALL: VectorTraits(trust=1.4, spread=0.55)}
"""By embedder; others are weighted as MiniLM. See docs/embedders.md for how these were chosen."""


def weights_for(weights: Weights, embedder: str) -> Weights:
    """Returns the weights of a strategy for the vectors of an embedder.

    Vectors and words keep the sum of their weights, so that what is added to both, such as time, counts as much, and
    scores of scopes with different embedders compare.
    """
    traits = TRAITS.get(embedder)
    total, spreading = weights.vector + weights.words, weights.spreading
    if traits is None or total <= 0:
        return weights
    vector = traits.trust * weights.vector
    scale = total / (vector + weights.words)
    return replace(
        weights,
        vector=vector * scale,
        words=weights.words * scale,
        spreading=replace(spreading, cosine=spreading.cosine / traits.spread),
    )


def register_strategy(name: str, weights: Weights) -> None:
    """Adds a strategy for the life of the process; a scorer of its own is added by `scorers.register_scorer`.

    Raises:
        ValueError: the name is `auto` or already in use.
    """
    if name == "auto" or name in STRATEGIES:
        raise ValueError(f"strategy {name}: already in use; choose another name")
    STRATEGIES[name] = weights


def resolve_strategy(strategy: str | Weights, info: CollectionInfo | None = None) -> tuple[str, Weights]:
    """Returns the name and the weights of a strategy.

    Args:
        strategy: its name, `auto`, or weights, which are taken as they are.
        info: what the build records of the collection; `auto` is its strategy, with the weights that its settings give,
            and each strategy is weighted for its embedder.

    Raises:
        ArgumentError: there is no such strategy.
    """
    if isinstance(strategy, Weights):
        return "weights", strategy
    name, changes = strategy, dict[str, Any]()
    if strategy == "auto":
        name, changes = (info.strategy, dict(info.weights)) if info else ("hybrid", changes)
    if name not in STRATEGIES:
        raise ArgumentError("strategy", f"not one of auto, {', '.join(STRATEGIES)}", name)
    weights = STRATEGIES[name]
    if info is not None and info.space is not None:
        weights = weights_for(weights, info.space.embedder)
    return name, replace(weights, **changes)
