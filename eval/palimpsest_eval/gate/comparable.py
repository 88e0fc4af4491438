"""What differs between a run and its baseline apart from the figures: questions, drafts, model and settings."""

from collections.abc import Sequence

from palimpsest.core.counted import counted
from palimpsest_eval.gate.baseline import ACCEPT, Baseline
from palimpsest_eval.gate.build_settings import SettingChange
from palimpsest_eval.golden.golden_run import GoldenRun

_MAX_NAMED = 20


def questions_gone(run: GoldenRun, baseline: Baseline) -> list[str]:
    """Returns a reason for the questions of the baseline that are not judged any more: their loss cannot be seen.

    What people deleted or edited is no reason: see `retracted_evidence`.
    """
    known = {*run.questions, *run.per_query, *run.unanswerable, *run.retracted}
    missing = sorted(baseline.question_ids - known)
    unjudged = (
        sorted((baseline.per_query.keys() & known) - run.per_query.keys() - {*run.retracted}) if run.per_query else []
    )
    reasons = []
    if missing:
        reasons.append(
            f"{counted(len(missing), 'question')} of the baseline not in the golden set: {named(missing)}; {_FIX}"
        )
    if unjudged:
        lost = f"{counted(len(unjudged), 'question')} of the baseline without evidence now: {named(unjudged)}"
        reasons.append(f"{lost}; {_FIX}")
    return reasons


_FIX = f"restore them, or {ACCEPT}"


def differences(run: GoldenRun, baseline: Baseline, settings: Sequence[SettingChange]) -> list[str]:
    """Returns a warning for each thing that makes the run hard to compare with the baseline, settings first."""
    shared = run.per_query.keys() & baseline.per_query.keys()
    added, removed = len(run.per_query) - len(shared), len(baseline.per_query.keys() - run.retracted) - len(shared)
    found = []
    if settings:
        found.append(f"settings changed: {'; '.join(c.text(run.collection) for c in settings)}")
    if added or removed:
        found.append(
            f"golden set differs from the baseline's: {added} new, {removed} gone; compared {len(shared)} in both;"
            f" {ACCEPT}"
        )
    elif baseline.golden_hash != run.golden_hash:
        found.append(f"golden questions were edited since the baseline under the same ids; {ACCEPT}")
    if baseline.model != run.model and all(c.name != "embedder" for c in settings):
        found.append(f"the baseline is of model {baseline.model or 'unknown'}, this run of {run.model or 'unknown'}")
    if dict(baseline.settings) != dict(run.settings):
        found.append(f"the search settings differ: baseline {dict(baseline.settings)}, now {dict(run.settings)}")
    return found


def drafts_left(run: GoldenRun) -> list[str]:
    """Returns a warning for the questions that are as `gate --init` wrote them: they ask in the source's own words."""
    if not run.drafts:
        return []
    left = f"{counted(len(run.drafts), 'draft')} of `gate --init` not edited: {named(run.drafts)}"
    return [f'{left}; write each as a user would ask, then remove "draft"']


def questions_retracted(run: GoldenRun) -> list[str]:
    """Returns a warning for the questions whose evidence was deleted or edited: they are not judged."""
    if not run.retracted:
        return []
    unjudged = f"{counted(len(run.retracted), 'question')} not judged, people deleted or edited what they need"
    fix = f"correct them in data/golden/{run.collection}.jsonl, then {ACCEPT}"
    return [f"{unjudged}: {named(run.retracted)}; remove or {fix}"]


def named(ids: Sequence[str]) -> str:
    """Returns the first ids, and how many more there are."""
    more = len(ids) - _MAX_NAMED
    return ", ".join(ids[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
