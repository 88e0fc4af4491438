"""The committed baseline of a collection: the run that later builds must not fall behind."""

import getpass
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted, read_json_object, write_json
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.memories.vector_space import MINILM
from palimpsest.query.request.strategies import NAMED, STRATEGIES, weights_for
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.home import data_folder
from palimpsest.store.manifest import BuildManifest
from palimpsest_eval.golden.golden_run import DIGITS, GoldenRun, Hit
from palimpsest_eval.golden.questions import FOLLOW_UPS, golden_path, load_questions

# The settings that a build was made with, one flat mapping a collection, and what differs between two of them.

_CODE = "code."
_NOT_SETTINGS = ("name", "description", "overdue_hours")
_UNSET = "not set"


@dataclass(frozen=True)
class SettingChange:
    """A setting whose value differs. `name` is dotted, such as `weights.words`; None means that it is not set."""

    name: str
    old: JsonValue
    new: JsonValue

    def text(self, collection: str) -> str:
        """Returns `collection.name old -> new`."""
        return f"{collection}.{self.name} {_format_value(self.old)} -> {_format_value(self.new)}"


def build_settings(manifest: BuildManifest, collection: str) -> dict[str, JsonValue]:
    """Returns the settings of one collection of a build: dotted names, values as they took effect.

    Contains collection.yaml (defaults included), the strategy that `auto` resolves to, its weights, `embedder`,
    `labeler` and `code.<part>`, a hash of the code of each part. A part that the manifest of an older build lacks is
    left out.

    Args:
        manifest: the build's manifest.
        collection: name of the collection.
    """
    settings = manifest.settings
    config = {k: v for k, v in manifest.configs.get(collection, {}).items() if k not in _NOT_SETTINGS}
    weights = settings.get("weights", {}).get(collection, {})
    given = cast(Mapping[str, float], config.pop("weights", None) or weights)
    found = _flatten(config)
    if strategy := settings.get("strategies", {}).get(collection):
        found["strategy"] = strategy
        embedder = str(settings.get("spaces", {}).get(collection, {}).get("embedder", MINILM))
        defaults = weights_for(STRATEGIES[strategy], embedder) if strategy in STRATEGIES else None
        for name in NAMED:
            value = given.get(name)
            found[f"weights.{name}"] = getattr(defaults, name, None) if value is None else value
    if embedder := embedder_of(manifest, collection):
        found["embedder"] = embedder
    if labeler := manifest.labeler:
        found["labeler"] = labeler
    return found | {f"{_CODE}{part}": key for part, key in manifest.code.items()}


def embedder_of(manifest: BuildManifest, collection: str) -> str:
    """Returns the name of a collection's vector space; older builds know only that of all collections."""
    space = manifest.settings.get("spaces", {}).get(collection, {})
    return str(space.get("name", manifest.settings.get("model_id", "")))


def changed_settings(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> tuple[SettingChange, ...]:
    """Returns the settings that differ, by name, code aside; nothing where the settings of either side are unknown.

    A setting that one side does not know, because another version of Palimpsest made it, differs only where the other
    side's value is not the default.
    """
    if not old or not new:
        return ()
    defaults = _flatten(CollectionConfig(name="x", description="x").model_dump())
    changes = []
    for name in sorted(old.keys() | new.keys()):
        before, after = (side.get(name, defaults.get(name)) for side in (old, new))
        if not name.startswith(_CODE) and before != after:
            changes.append(SettingChange(name, before, after))
    return tuple(changes)


def changed_code(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Returns the parts of Palimpsest whose code differs, by name; parts that one side does not know are left out."""
    shared = sorted(k for k in old.keys() & new.keys() if k.startswith(_CODE))
    return tuple(k.removeprefix(_CODE) for k in shared if old[k] != new[k])


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, JsonValue]:
    flat: dict[str, JsonValue] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            flat[f"{prefix}{name}"] = ", ".join(map(str, value))
        else:
            flat[f"{prefix}{name}"] = None if isinstance(value, Mapping) else value
    return flat


def _format_value(value: JsonValue) -> str:
    if value is None or value == "":
        return _UNSET
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


FORMAT = 1
ACCEPT = "`palimpsest baseline accept --why TEXT`"


@dataclass(frozen=True)
class Baseline:
    """Per-query values of an accepted run, and who accepted it, when and why.

    `precision` has the share of the top five that is relevant for each question with five or more pieces of evidence.
    `build_settings` is what its build was made with, `caught` which unanswerable questions could be turned away. Each
    is empty in a baseline accepted before it was kept.
    """

    collection: str
    per_query: Mapping[str, Mapping[str, float]]
    results: Mapping[str, list[Hit]] = field(default_factory=dict)
    golden_hash: str = ""
    model: str = ""
    commit: str = ""
    build_id: str = ""
    precision: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    build_settings: Mapping[str, JsonValue] = field(default_factory=dict)
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    caught: Mapping[str, float] = field(default_factory=dict)
    accepted_by: str = ""
    accepted_at: str = ""
    why: str = ""

    @property
    def question_ids(self) -> set[str]:
        """Ids of all questions of the run; those without an answer have results only."""
        return {*self.per_query, *self.results}

    @property
    def origin(self) -> dict[str, str]:
        """Which build it is of, and who accepted it, when and why."""
        return {name: getattr(self, name) for name in ("build_id", "commit", "accepted_by", "accepted_at", "why")}

    def to_json(self) -> JsonObject:
        """Returns the baseline as its file has it: JSON values, each result as one line."""
        results = {q: [hit.to_line() for hit in hits] for q, hits in self.results.items()}
        return {"format": FORMAT, **asdict(self), "results": results}


def baseline_path(data: Path, collection: str) -> Path:
    """Returns the path of a collection's baseline below the project's data folder."""
    return data / "baselines" / f"{collection}.json"


def load_baseline(path: Path) -> Baseline | None:
    """Reads `data/baselines/<collection>.json`; None where there is no such file.

    Raises:
        PalimpsestError: the file is not a baseline.
    """
    fix = f"restore it or run `palimpsest baseline accept --why TEXT` ({path})"
    if path.is_dir():
        raise PalimpsestError(f"baseline {path}: a folder; name a file")
    try:
        raw: Any = read_json_object(path, fix)
        if raw is None:
            return None
        if raw.pop("format", None) != FORMAT:
            raise PalimpsestError(f"baseline: format is not {FORMAT}; {fix}")
        if missing := [name for name in ("collection", "per_query", "results") if name not in raw]:
            raise PalimpsestError(f"baseline: {missing[0]} is missing; {fix}")
        raw["results"] = {q: [Hit.from_line(line) for line in hits] for q, hits in raw["results"].items()}
        raw["per_query"] = {q: {m: float(v) for m, v in values.items()} for q, values in raw["per_query"].items()}
        return Baseline(**raw)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PalimpsestError(f"baseline: a field is not what `baseline accept` writes; {fix}") from None


def accept_baseline(
    run: GoldenRun, path: Path, why: str, *, who: str | None = None, when: datetime | None = None
) -> Baseline:
    """Writes a run as the new baseline, atomically.

    Args:
        run: the run to accept.
        path: `data/baselines/<collection>.json`.
        why: the reason, for those who read the history.
        who: else git's user, the environment's user, or "unknown".
        when: else now, in UTC.

    Raises:
        PalimpsestError: no reason is given, or the run may not be a baseline: it has errors or leaks, answered
            nothing, or a value is missing or not a number.
    """
    if not why.strip():
        raise PalimpsestError("baseline accept: --why is empty; give the reason for the new baseline")
    if wrong := [*run.errors, *run.leaks]:
        raise PalimpsestError(f"baseline accept: {run.collection} cannot be accepted: {wrong[0]}")
    if not run.answered:
        raise PalimpsestError(f"baseline accept: {run.collection}: no judged query was answered; nothing to accept")
    baseline = Baseline(
        collection=run.collection,
        per_query={q: {m: round(v, DIGITS) for m, v in values.items()} for q, values in run.scores.per_query.items()},
        results={q: list(hits) for q, hits in run.results.items()},
        precision={q: round(v, DIGITS) for q, v in run.precision.items()},
        golden_hash=run.golden_hash,
        model=run.model,
        commit=run.commit,
        build_id=run.build_id,
        settings=dict(run.settings),
        build_settings=dict(run.build_settings),
        latency_ms={k: round(v, 3) for k, v in run.latency_ms.items()},
        caught=run.caught,
        accepted_by=who or current_user(),
        accepted_at=(when or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        why=why.strip(),
    )
    write_json(path, baseline.to_json())
    return baseline


def current_user() -> str:
    """Returns git's user.name, else the environment's user, else "unknown"."""
    if name := _git("config", "user.name"):
        return name
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def current_commit() -> str:
    """Returns the commit that is checked out, with `+` where files differ from it; "unknown" outside git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603, S607
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def golden_problem(data: Path, collection: str) -> PalimpsestError | None:
    """Returns why a collection's golden set or baseline cannot be read; None where it can, or there is none."""
    try:
        if load_questions(data, collection) is not None:
            load_baseline(baseline_path(data, collection))
    except PalimpsestError as e:
        return e
    return None


def golden_problems() -> dict[str, PalimpsestError]:
    """Returns which collections have a golden set or a baseline that cannot be read, and why: none can be judged."""
    data = data_folder()
    sets = golden_path(data, "*")
    names = {path.stem for folder in (sets.parent, sets.parent / FOLLOW_UPS) for path in folder.glob(sets.name)}
    return {name: why for name in sorted(names) if (why := golden_problem(data, name))}


# What differs between a run and its baseline apart from the figures: questions, drafts, model and settings.

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


def named(ids: Sequence[str], most: int = _MAX_NAMED) -> str:
    """Returns the first ids, and how many more there are."""
    more = len(ids) - most
    return ", ".join(ids[:most]) + (f" and {more} more" if more > 0 else "")
