"""Pairs cut into batches for workers, and the labeler of builds over them: those of one newer memory go together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from palimpsest.core.batches.batch import BatchRunner, cut
from palimpsest.core.ids import content_id
from palimpsest.core.progress import progress
from palimpsest.relations.classify.label_types import LabelPair, LabelResult
from palimpsest.relations.classify.offline_labeler import OfflineLabeler, offline_labeler, shipped_key

_MEMORIES_PER_BATCH = 32  # about a second
PROBE_PAIRS = [
    LabelPair("p1", "p0", "The deadline is now 20 April instead of 12 March.", "The deadline is 12 March."),
    LabelPair("p2", "p0", "The release moved to Thursday.", "The weekly release goes out on Tuesday."),
    LabelPair("p3", "p0", "The bridge has two lanes and a path for bicycles.", "The bridge is 40 metres long."),
    LabelPair("p4", "p0", "I drink coffee now, no longer tea.", "I prefer tea in the morning."),
    LabelPair("p5", "p0", "The new office in Porto opened in May.", "The company opened an office in Porto."),
]


@dataclass(frozen=True)
class LabelWork:
    """Labels pairs with the labeler that is installed; see BatchWork."""

    none_odds: float

    @property
    def name(self) -> str:
        """See BatchWork."""
        return "label"

    def load(self) -> Callable[[Sequence[Sequence[LabelPair]]], list[list[LabelResult]]]:
        """See BatchWork."""
        labeler = offline_labeler(self.none_odds)
        return lambda groups: [labeler.label(list(group)) for group in groups]

    def probe(self, compute: Callable[[Sequence[Sequence[LabelPair]]], list[list[LabelResult]]]) -> str:
        """See BatchWork: code and weights count as well."""
        return content_id(shipped_key(), repr(compute([[pair] for pair in PROBE_PAIRS])))


class DistributedLabeler:
    """See RelationLabeler: the labeler of builds, in workers."""

    reads_together = True

    def __init__(self, whole: OfflineLabeler, runner: BatchRunner):
        """Makes a labeler whose labels and program are those of `whole`."""
        self.name, self.program_hash = whole.name, whole.program_hash
        self._work, self._runner = LabelWork(whole.none_odds), runner

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """See RelationLabeler."""
        groups = [list(members) for _, members in groupby(range(len(pairs)), key=lambda row: pairs[row].newer_id)]
        items: list[Sequence[LabelPair]] = [[pairs[row] for row in group] for group in groups]
        batches = cut(range(len(groups)), items, _MEMORIES_PER_BATCH, _key_of)
        found: dict[int, LabelResult] = {}
        with progress("label", len(pairs), "pairs") as advance:
            for batch, results in self._runner.run(self._work, batches):
                for number, of_group in zip(batch.rows, results, strict=True):
                    found.update(zip(groups[number], of_group, strict=True))
                    advance(len(of_group))
        return [found[row] for row in range(len(pairs))]


def _key_of(group: Sequence[LabelPair]) -> str:
    return " ".join([group[0].newer_id, *(pair.older_id for pair in group)])
