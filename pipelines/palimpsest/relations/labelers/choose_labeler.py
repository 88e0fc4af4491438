"""Which labeler a build uses: the offline one, an LM, or both. Set by the environment, never by a document.

`PALIMPSEST_LABELER` is offline (the default), dspy or cascade; the last two need `PALIMPSEST_LM`.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import progress
from palimpsest.core.ids import content_id
from palimpsest.core.parallel import BatchRunner, configured_runner, cut
from palimpsest.lm.settings import Budget
from palimpsest.relations.labelers.label_types import CANDIDATE_ODDS, UNPAID, LabelPair, LabelResult, RelationLabeler
from palimpsest.relations.labelers.offline_labeler import OfflineLabeler, offline_labeler, shipped_key
from palimpsest.store.home import Home

# Pairs cut into batches for workers, and the labeler of builds over them: those of one newer memory go together.

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


LABELERS = ("offline", "dspy", "cascade")
_CASCADE_LM_SHARE = 0.7  # of memories, in small scopes; in large ones the model reads more of them
_TOKENS_PER_CALL = (1200, 120)  # read, written


def configured_labeler() -> str:
    """Returns the name of the labeler that the environment sets.

    Raises:
        PalimpsestError: there is none of that name, or the LM it needs is not set.
    """
    name = os.environ.get("PALIMPSEST_LABELER") or "offline"
    if name not in LABELERS:
        raise PalimpsestError(f"PALIMPSEST_LABELER: {name!r} must be one of {', '.join(LABELERS)}; set one or unset it")
    if name != "offline":
        from palimpsest.lm.settings import lm_settings

        lm_settings()
    return name


def labeler_key() -> str:
    """Returns a key that differs between the labelers of two builds, without loading any."""
    name = configured_labeler()
    if name == "offline":
        return shipped_key()
    from palimpsest.lm.settings import lm_settings
    from palimpsest.relations.labelers.lm_labeler import program_hash

    code = code_hash(("palimpsest.relations.labelers.choose_labeler", "palimpsest.relations.labelers.lm_labeler"))
    return content_id(name, shipped_key(), program_hash(), *lm_settings().key_parts, code)


def build_labeler(
    home: Home, max_cost: float | Budget | None = None, none_odds: float = CANDIDATE_ODDS
) -> RelationLabeler:
    """Returns the labeler that the environment sets; the default odds are those of pairs that a build finds."""
    name = configured_labeler()
    if name != "offline":
        return lm_labeler(name, lambda: offline_labeler(none_odds), home, max_cost)
    labeler = offline_labeler(none_odds)
    return labeler if (runner := configured_runner()) is None else DistributedLabeler(labeler, runner)


def lm_labeler(
    name: str, load_offline: Callable[[], RelationLabeler], home: Home, max_cost: float | Budget | None
) -> RelationLabeler:
    """Returns the LM's labeler (`dspy`), which loads no other, or the cascade of both."""
    from palimpsest.lm.client import Ledger
    from palimpsest.lm.settings import lm_settings
    from palimpsest.relations.labelers.lm_labeler import LmLabeler

    lm = LmLabeler(lm_settings(), Ledger(home.lm_ledger), max_cost=max_cost)
    return lm if name == "dspy" else CascadeLabeler(load_offline(), lm)


def expected_calls(home: Home, new_memories: int, relations: pl.DataFrame | None = None) -> tuple[int, float]:
    """Returns (calls, cost) that a build may need with the labeler that the environment sets.

    An estimate for a dry run; the stage itself reports what it needs before its first call.

    Args:
        home: of the build.
        new_memories: how many that have candidates are in no earlier build.
        relations: of the published build, in collections that are built again; memories with some of another program
            are labelled again.
    """
    name = configured_labeler()
    if name == "offline":
        return 0, 0.0
    from palimpsest.lm.settings import lm_settings

    memories = new_memories
    if relations is not None:
        unchanged = ("person", build_labeler(home).program_hash)
        memories += relations.filter(~pl.col("program_hash").is_in(unchanged))["newer_id"].n_unique()
    calls = round(memories * (_CASCADE_LM_SHARE if name == "cascade" else 1.0))
    return calls, calls * lm_settings().cost(*_TOKENS_PER_CALL)


# The cascade: the language model decides where the offline labeler thinks a change possible.

POSSIBLE = 0.03
"""Probability that a memory ends any of its candidates, from which the model reads them."""
SHOWN = 0.002
"""The same of one candidate, from which the model sees it."""


class CascadeLabeler:
    """Calls the LM where the offline labeler thinks a change possible; a pair without an answer retires nothing."""

    name = "cascade"
    reads_together = True

    def __init__(self, offline: RelationLabeler, lm: RelationLabeler):
        self.offline, self.lm = offline, lm
        lines = (POSSIBLE, SHOWN)
        self.program_hash = content_id("cascade", offline.program_hash, lm.program_hash, str(lines))

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order; `labeler` names the labeler that decided."""
        results = [replace(r, labeler="offline") for r in self.offline.label(pairs)]
        possible = _possible_changes(pairs, results)
        for i, answer in zip(possible, self.lm.label([pairs[i] for i in possible]), strict=True):
            results[i] = replace(answer, likelihood=results[i].likelihood) if answer.rule == UNPAID else answer
        return results


def _possible_changes(pairs: Sequence[LabelPair], results: Sequence[LabelResult]) -> list[int]:
    """Returns the places of the pairs that the model decides."""
    of_newer: dict[str, list[int]] = defaultdict(list)
    for i, pair in enumerate(pairs):
        of_newer[pair.newer_id].append(i)
    chosen: list[int] = []
    for places in of_newer.values():
        likely = [results[i].likelihood or 0.0 for i in places]
        if sum(likely) >= POSSIBLE:
            chosen += [i for i, p in zip(places, likely, strict=True) if p >= SHOWN]
    return sorted(chosen)
