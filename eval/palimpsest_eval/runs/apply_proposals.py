"""Confirms the proposals that settings name, without a person, as far as a trial build answers no worse with them.

A trial confirms a group of proposals in a home of its own, builds it, and searches the golden questions of the
collections that changed. Where no measure falls the group is confirmed in the home, else its halves are tried.
"""

import datetime as dt
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from palimpsest.consolidation.consolidate import consolidation_settings
from palimpsest.consolidation.decide import SETTING, confirm, finish_confirmed, needs_person, refuse
from palimpsest.consolidation.find_proposals import published_build, settled
from palimpsest.core.files import FORMAT_FILE, POINTER, counted, say
from palimpsest.pipeline.finish import stage_build
from palimpsest.pipeline.plan import make_plan
from palimpsest.relations.labelers.label_pairs import relation_id
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.decisions import Decisions, read_decisions
from palimpsest.store.event_log import observed
from palimpsest.store.home import SOURCES_FILE, TRIAL_FOLDER, Home, data_folder
from palimpsest.store.proposals import Proposal, read_proposals
from palimpsest_eval.gate.compare import significance
from palimpsest_eval.golden.golden_run import STALE, TOP, GoldenRun
from palimpsest_eval.golden.questions import JUDGED_TABLES, load_questions
from palimpsest_eval.runs.judge_build import find_violations, run_collection

# A home beside another, in which something is tried: what is decided or built there changes nothing in the other.

_COPIED = (SOURCES_FILE, FORMAT_FILE, POINTER, "decisions.jsonl", "embedder.json", "consolidation/proposals.jsonl")


@contextmanager
def trial_home(home: Home) -> Iterator[Home]:
    """Makes a home with the published build, log, decisions and proposals of another, and removes it afterwards.

    Builds of it are staged there. Vectors and answers of a language model are those of the other home: what a trial
    embeds or pays for is not paid again. What a process that was killed left goes with the next build or delete.

    Yields:
        The trial home.
    """
    folder = home.path / TRIAL_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    build = published(home)
    try:
        for name in ("builds", "consolidation"):
            (folder / name).mkdir(mode=0o700, parents=True)
        for name in _COPIED:
            if (home.path / name).is_file():
                shutil.copy(home.path / name, folder / name)
        if home.sources:
            Home(folder).write_sources(home.sources)  # those inside the home are listed relative to it
        (folder / "log").symlink_to(home.log.absolute())
        (folder / home.lm_ledger.name).symlink_to(home.lm_ledger.absolute())
        if build is not None:
            (folder / "builds" / build.build_id).symlink_to(build.path.absolute())
        yield Home(folder, home.embeddings, home.embedder, home.inbox, home.web)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


MAX_TRIALS = 12
"""Trial builds of one run; what is left is tried by the next run."""
MIN_CONFIDENCE = 0.8
"""Of a contradiction: three in five of the less sure ones are none, and only a person can tell."""
_RECALL = (f"R@{TOP}", "packed_recall")
_EPSILON = 1e-9

Runs = Mapping[str, GoldenRun | None]


@dataclass
class AppliedProposals:
    """What a run confirmed.

    Attributes:
        confirmed: proposals that the next build applies.
        refused: those that made a measure fall, with the first measure that fell; only a person confirms them now.
        waiting: why nothing was tried, or why some were not; empty where all were.
        trials: how many builds were made to find out.
    """

    confirmed: list[Proposal] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    waiting: str = ""
    trials: int = 0


def apply_proposals(
    home: Home, now: dt.datetime | None = None, dry_run: bool = False, max_cost: float | None = None
) -> AppliedProposals:
    """Confirms what `consolidation.apply` of each collection names, once it was open for `grace_days`.

    Nothing is decided in the home before a trial of it has ended well.

    Args:
        home: the home.
        now: the time; None reads the clock.
        dry_run: only find what is due: nothing is tried, `confirmed` are the proposals that would be.
        max_cost: money that a language model may cost in each trial build; None means no limit.

    Raises:
        PalimpsestError: nothing is published, or the trial build cannot be made.
    """
    now = now or dt.datetime.now(dt.UTC)
    with home.lock():
        build = published_build(home)
        if not dry_run:
            finish_confirmed(home, build)
        known = settled(read_proposals(home.path), build).values()
        due = _due(build, known, now, read_decisions(home.decisions))
        if dry_run or not due:
            return AppliedProposals(due)
        plan = make_plan(home, None)
        if not plan.nothing_to_do:
            why = f"sources or decisions changed since build {build.build_id}: run palimpsest build first"
            return AppliedProposals(waiting=f"home {home.path}: {why}")
        with observed(home.path, "apply", build.build_id) as event:
            trials = _Trials(home, plan.collections.keys(), now, max_cost)
            for group in _groups(due):
                trials.apply(group)
            found = trials.found
            event |= {"confirmed": len(found.confirmed), "refused": len(found.refused), "trials": found.trials}
    return found


def _due(build: Build, proposals: Iterable[Proposal], now: dt.datetime, decisions: Decisions) -> list[Proposal]:
    """Returns the proposals that settings name, are old enough, and are about nothing that a person decided."""
    settings = consolidation_settings(build)
    pairs = {frozenset((r.newer_id, r.older_id)) for r in decisions.relations}
    by_person = decisions.undone | decisions.confirmed

    def is_decided(p: Proposal) -> bool:
        if p.kind == "connection":
            return tuple(sorted(p.names)) in decisions.paired
        ids = p.memory_ids[:2]
        orders = (ids, ids[::-1]) if len(ids) == 2 else ()
        return frozenset(ids) in pairs or any(relation_id(*order) in by_person for order in orders)

    def is_due(p: Proposal) -> bool:
        config = settings.get(p.scope[0])
        if config is None or p.state != "open" or p.kind not in config.apply or needs_person(p) or is_decided(p):
            return False
        if (p.kind == "connection" and not p.names) or (p.kind == "contradiction" and p.confidence < MIN_CONFIDENCE):
            return False
        return now - dt.datetime.fromisoformat(p.created_at) >= dt.timedelta(days=config.grace_days)

    return [p for p in proposals if is_due(p)]


def _groups(due: Iterable[Proposal]) -> list[list[Proposal]]:
    """Returns the proposals by collection and kind: a kind that harms does not keep another from being applied."""
    groups: dict[tuple[str, str], list[Proposal]] = {}
    for p in sorted(due, key=lambda p: (p.scope[0], p.kind, p.proposal_id)):
        groups.setdefault((p.scope[0], p.kind), []).append(p)
    return list(groups.values())


class _Trials:
    """Tries groups of proposals one after the other; each is compared with what was accepted before it."""

    def __init__(self, home: Home, collections: Collection[str], now: dt.datetime, max_cost: float | None):
        self._home, self._collections, self._now, self._max_cost = home, collections, now, max_cost
        self._build = published_build(home)
        self._base: dict[str, GoldenRun | None] = {}
        self.found = AppliedProposals()

    def apply(self, group: Sequence[Proposal]) -> None:
        """Confirms a group, or the parts of it that make nothing worse."""
        if reason := self._cannot_try(group[0].scope[0]):
            self.found.waiting = reason
            return
        ids = [p.proposal_id for p in group]
        self.found.trials += 1
        worse, after = self._try(ids)
        if not worse:
            self._base |= after
            self.found.confirmed += confirm(self._home, ids, by=SETTING)
        elif len(ids) == 1:
            refuse(self._home, ids, self._now.isoformat(timespec="seconds"))
            self.found.refused[ids[0]] = worse
        else:
            half = len(ids) // 2
            self.apply(group[:half])
            self.apply(group[half:])

    def _cannot_try(self, collection: str) -> str:
        """Returns why proposals of a collection are not tried now; empty where they are."""
        if self.found.trials >= MAX_TRIALS:
            return f"{MAX_TRIALS} trial builds were made; the next run continues"
        if collection not in self._collections:
            return f"{collection}: its folder is gone; restore it"
        if load_questions(data_folder(), collection) is None:
            return f"{collection} has no golden questions to try proposals on: palimpsest gate --init"
        base = self._before([collection])[collection]
        if base is None or base.errors or not base.per_query:
            return f"{collection}: its golden questions cannot be judged; palimpsest gate says why"
        return ""

    def _try(self, ids: Sequence[str]) -> tuple[str, Runs]:
        """Returns the first measure that a group makes worse, empty where there is none, and the golden runs."""
        say(f"trial {self.found.trials}: {counted(len(ids), 'proposal')}")
        with trial_home(self._home) as trial:
            confirm(trial, ids, by=SETTING)
            plan = make_plan(trial, None)
            if not plan.changed:
                return "", {}
            stage_build(trial, plan, self._max_cost)
            build = staged(trial)
            if find_violations(trial, build):
                return "invariants", {}
            after = _runs(trial, build, plan.changed)
        return _first_fall(self._before(plan.changed), after), after

    def _before(self, collections: Iterable[str]) -> Runs:
        """Returns the golden runs without the group; those of the published build are made once."""
        missing = [c for c in collections if c not in self._base]
        if missing:
            self._base |= _runs(self._home, self._build, missing)
        return self._base


def _runs(home: Home, build: Build, collections: Collection[str]) -> dict[str, GoldenRun | None]:
    tables, decisions = build.tables(JUDGED_TABLES), read_decisions(home.decisions)
    return {c: run_collection(build, c, tables, decisions) for c in collections if c in build.collections}


def _first_fall(before: Runs, after: Runs) -> str:
    """Returns the first measure that fell, and by how much; empty where none did."""
    for name, run in sorted(after.items()):
        base = before.get(name)
        if run is None or base is None:  # it includes the collection that changed, and is not judged itself
            continue
        if run.errors or base.per_query.keys() - run.per_query.keys():
            return f"{name}: golden questions cannot be judged with it"
        for change in significance(base, run, (*_RECALL, STALE)):
            fall = change["change"] if change["measure"] == STALE else -change["change"]
            if fall > _EPSILON:
                return f"{name}: {change['measure']} {change['a']:.3f} to {change['b']:.3f}"
    return ""
