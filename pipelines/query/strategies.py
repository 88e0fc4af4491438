"""The strategies by name, and the weights of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """The composite: `vector` * z(cosine) + `words` * z(BM25), lifted over links.

    A link lifts what it reaches to `links` * DECAY * link weight of the score that it comes from, where that is more.
    `time` weighs z(overlap with the period that the question asks about), where it states one. `entities` is how many
    links over shared entities are followed from each memory. `whole` names what scores every memory of the scope first:
    `order`, `passages`, or `alone`, which does so only for questions that state a period. `shares` are of the
    score of what was said one, two, ... places away.
    """

    vector: float = 1.0
    words: float = 1.2
    links: float = 1.0
    time: float = 0.0
    entities: int = 20
    whole: str = ""
    shares: tuple[float, ...] = ()


STRATEGIES: dict[str, Weights] = {
    "flat": Weights(words=0.0, links=0.0),
    "hybrid": Weights(),
    "dated": Weights(whole="alone", time=1.0),
    "turns": Weights(whole="order", time=1.0, entities=0, shares=(0.3, 0.15)),
    "graph": Weights(whole="passages", time=1.0, entities=0),
}
"""`auto` is one of the last three, by what the collection is: `pipelines.memory.shape`."""
