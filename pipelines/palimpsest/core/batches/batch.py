"""A batch: items in a fixed order, whose result depends on nothing else, whichever process computes it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from palimpsest.core.ids import content_id

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch(Generic[Item]):
    """A batch.

    Attributes:
        key: hash of the items.
        rows: where each item is in the sequence that was cut into batches.
        items: what is computed at once.
    """

    key: str
    rows: tuple[int, ...]
    items: tuple[Item, ...]


class BatchWork(Protocol[Item, Result]):
    """What is computed of a batch. Hashable and small: it says what to load, and is sent to every worker."""

    def __hash__(self) -> int:
        """Returns a hash; a worker loads equal work once."""

    @property
    def name(self) -> str:
        """A verb, for messages."""

    def load(self) -> Callable[[Sequence[Item]], Result]:
        """Returns the function from items to a result; models are loaded once a process."""

    def probe(self, compute: Callable[[Sequence[Item]], Result]) -> str:
        """Returns a hash of what fixed items give, equal on two machines only where all results are equal in each bit.

        Args:
            compute: what `load` returned.
        """


class BatchRunner(Protocol):
    """Computes batches in other processes."""

    def run(
        self, work: BatchWork[Item, Result], batches: Sequence[Batch[Item]]
    ) -> Iterator[tuple[Batch[Item], Result]]:
        """Yields every batch once, with its result, as it finishes.

        Raises:
            ComponentFailed: no worker computes as this process does, or one failed and retries did not help.
        """


def cut(rows: Sequence[int], items: Sequence[Item], size: int, texts: Callable[[Item], str]) -> list[Batch[Item]]:
    """Returns batches of `size` items, the last one of fewer.

    Args:
        rows: which items, and in which order.
        items: what the rows refer to.
        size: items of a batch.
        texts: what of an item its key is made of.
    """
    batches = []
    for start in range(0, len(rows), size):
        part = tuple(rows[start : start + size])
        chosen = tuple(items[row] for row in part)
        batches.append(Batch(content_id(*map(texts, chosen)), part, chosen))
    return batches
