"""Pairs cut into batches for workers, and the offline labeler over them: a label depends on its pair alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from palimpsest.core.batches.batch import BatchRunner, cut
from palimpsest.core.ids import content_id
from palimpsest.core.progress import progress
from palimpsest.relations.classify.label_types import LabelPair, LabelResult
from palimpsest.relations.classify.model.shipped_model import default_key, default_model
from palimpsest.relations.classify.offline_labeler import OfflineLabeler, labeler_code

_PAIRS_PER_BATCH = 128  # about a second
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

    def load(self) -> Callable[[Sequence[LabelPair]], list[LabelResult]]:
        """See BatchWork."""
        labeler = OfflineLabeler(default_model(), self.none_odds)
        return lambda pairs: labeler.label(list(pairs))

    def probe(self, compute: Callable[[Sequence[LabelPair]], list[LabelResult]]) -> str:
        """See BatchWork: code and weights count as well."""
        return content_id(labeler_code(), default_key(), repr(compute(PROBE_PAIRS)))


class DistributedLabeler:
    """See RelationLabeler: the offline labeler, in workers."""

    def __init__(self, offline: OfflineLabeler, runner: BatchRunner):
        """Makes a labeler whose labels and program are those of `offline`."""
        self.name, self.program_hash = offline.name, offline.program_hash
        self._work, self._runner = LabelWork(offline.none_odds), runner

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """See RelationLabeler."""
        # Pairs of one memory together: a worker parses its text once.
        rows = sorted(range(len(pairs)), key=lambda row: (pairs[row].newer_id, pairs[row].older_id))
        batches = cut(rows, pairs, _PAIRS_PER_BATCH, lambda pair: f"{pair.newer_id} {pair.older_id}")
        found: dict[int, LabelResult] = {}
        with progress("label", len(pairs), "pairs") as advance:
            for batch, results in self._runner.run(self._work, batches):
                found.update(zip(batch.rows, results, strict=True))
                advance(len(results))
        return [found[row] for row in range(len(pairs))]
