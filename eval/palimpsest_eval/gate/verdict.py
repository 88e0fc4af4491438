"""The gate's verdict on a build: for each collection what was found and why, and the answer for the whole home."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from palimpsest.core.files import counted
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest_eval.gate.baseline import SettingChange
from palimpsest_eval.golden.golden_run import STALE, GoldenRun, Hit
from palimpsest_eval.metrics import Comparison

Status = Literal["passed", "failed", "unjudged"]

# Metrics whose significant loss closes the gate, in the order they are reported.
GATED = ("R@5", "nDCG@10", "packed_recall")


@dataclass(frozen=True)
class BrokenQuestion:
    """A question that got worse: its metrics and top results in the baseline and now."""

    question_id: str
    question: str
    old: Mapping[str, float]
    new: Mapping[str, float]
    old_results: Sequence[Hit]
    new_results: Sequence[Hit]

    @property
    def loss(self) -> float:
        """The sum of what the gated metrics lost and of what stale@5 gained."""
        return sum((self.new[m] - self.old[m]) if m == STALE else (self.old[m] - self.new[m]) for m in self.old)


@dataclass(frozen=True)
class CollectionVerdict(JsonRecord):
    """The gate's answer for one collection. `unjudged` may be published, with a warning; `failed` may not.

    Attributes:
        collection: name of the collection.
        status: the answer.
        reasons: why it failed, one line each.
        warnings: what does not close the gate, one line each.
        metrics: of each gated metric the baseline's value, the run's and how likely the change is by chance.
        stale: stale@5 of the baseline and of the run.
        means: of each metric over the questions.
        latency_ms: p50, p95, p99 of whole searches.
        broken: the questions that got worse, the largest loss first.
        types: the gated metrics by type of question.
        types_before: the baseline's, on the questions in both.
        against: the baseline: who accepted it, when, why and of which build.
        texts: the first words of the memories that broken questions got and that the build still has, by id.
        settings_changed: what differs from the settings of the baseline's build.
        code_changed: the parts of Palimpsest whose code differs from the baseline's build.
        queries: how many questions were judged.
        unanswerable: for each question without an answer, 1.0 where something was returned.
        quality: fractions that are not of the ranking.
        steps_ms: p50, p95, p99 of each step of the query path.
        embedder: the figures of both embedders where the build has another than the published one.
        run: what was judged, which is saved with the build; no part of the JSON.
    """

    json_names: ClassVar = {"against": "baseline"}
    json_hidden = ("run", "stale", "types", "types_before")

    collection: str
    status: Status
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    metrics: Mapping[str, Comparison] = field(default_factory=dict)
    stale: tuple[float, float] | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    broken: tuple[BrokenQuestion, ...] = ()
    types: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    types_before: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    against: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    settings_changed: tuple[SettingChange, ...] = ()
    code_changed: tuple[str, ...] = ()
    queries: int = 0
    unanswerable: Mapping[str, float] = field(default_factory=dict)
    quality: Mapping[str, float] = field(default_factory=dict)
    steps_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    embedder: str = ""
    run: GoldenRun | None = None

    @property
    def publishable(self) -> bool:
        """Whether readers may see the build."""
        return self.status != "failed"

    @property
    def smallest_loss(self) -> float | None:
        """The smallest loss of R@5 that this comparison could have seen."""
        comparison = self.metrics.get("R@5")
        return comparison.smallest_loss if comparison else None

    @property
    def percentiles_ms(self) -> dict[str, float]:
        """Milliseconds of whole searches as p50_ms, p95_ms and p99_ms."""
        return {f"{name}_ms": value for name, value in self.latency_ms.items()}

    def to_json(self) -> JsonObject:
        """Returns the verdict as JSON values."""
        types = {k: {"new": dict(v), "old": dict(self.types_before.get(k, {}))} for k, v in self.types.items()}
        return super().to_json() | {
            "smallest_loss": self.smallest_loss,
            STALE: None if self.stale is None else {"old": self.stale[0], "new": self.stale[1]},
            "by_type": types,
            "unanswerable": {"questions": len(self.unanswerable), "answered": sum(self.unanswerable.values())},
        }

    def markdown(self) -> str:
        """Returns the verdict for a pull request: reasons, metrics, and the questions that broke."""
        return verdict_markdown(self)


@dataclass(frozen=True)
class GateVerdict(JsonRecord):
    """The gate's answer for a home: failed if any collection failed, unjudged if any could not be judged."""

    status: Status
    collections: tuple[CollectionVerdict, ...]

    @property
    def publishable(self) -> bool:
        """Whether readers may see the build."""
        return self.status != "failed"

    @property
    def settings_changed(self) -> list[str]:
        """What differs from the settings of the baselines' builds, `collection.name old -> new`."""
        return [c.text(v.collection) for v in self.collections for c in v.settings_changed]

    @property
    def exit_code(self) -> int:
        """0 only where every collection was judged and passed."""
        return 0 if self.status == "passed" else 1

    def to_json(self) -> JsonObject:
        """Returns `{"status", "publishable", "collections": [..]}`, as `palimpsest gate --json` prints it."""
        return super().to_json() | {"publishable": self.publishable}

    def to_manifest(self) -> JsonObject:
        """Returns `{"status", "reasons", "warnings", "metrics", "settings_changed"}`, as a manifest has them.

        `embedders` is there too where the build has another embedder than the published one: the figures of both.
        """
        several = len(self.collections) > 1
        metrics: dict[str, float] = {}
        for part in ("means", "quality", "percentiles_ms"):
            metrics |= {f"{v.collection}/{m}": value for v in self.collections for m, value in getattr(v, part).items()}
        return {
            "status": self.status,
            "reasons": [reason for v in self.collections for reason in v.reasons],
            "warnings": [f"{v.collection}: {w}" if several else w for v in self.collections for w in v.warnings],
            "metrics": metrics,
            "settings_changed": self.settings_changed,
            **({"embedders": embedders} if (embedders := [v.embedder for v in self.collections if v.embedder]) else {}),
        }

    def figures(self) -> dict[str, float]:
        """Returns what shows most of the build, over the questions of all collections: recall beside the baseline's."""
        judged = [v for v in self.collections if v.metrics]
        worst_ms = [v.latency_ms["p95"] for v in self.collections if "p95" in v.latency_ms]
        return {
            **({"R@5": _mean(judged, lambda v: v.metrics["R@5"].new)} if judged else {}),
            **({"R@5 of the baseline": _mean(judged, lambda v: v.metrics["R@5"].old)} if judged else {}),
            "questions": sum(v.queries for v in self.collections),
            "worse questions": sum(len(v.broken) for v in self.collections),
            **({"p95_ms": max(worst_ms)} if worst_ms else {}),
        }

    def markdown(self) -> str:
        """Returns one section a collection."""
        return "\n".join(v.markdown() for v in self.collections)


def _mean(verdicts: Sequence[CollectionVerdict], value: Callable[[CollectionVerdict], float]) -> float:
    """Returns the mean of a value of each collection, weighted by its questions."""
    return sum(value(v) * v.queries for v in verdicts) / max(sum(v.queries for v in verdicts), 1)


def combine(verdicts: Iterable[CollectionVerdict]) -> GateVerdict:
    """Joins the verdicts on a home's collections; no collection at all is a failure (invariant 10)."""
    ordered = tuple(sorted(verdicts, key=lambda v: v.collection))
    statuses = {v.status for v in ordered}
    if not ordered or "failed" in statuses:
        return GateVerdict("failed", ordered)
    return GateVerdict("unjudged" if "unjudged" in statuses else "passed", ordered)


# The gate's verdict as markdown, for a pull request.

_MAX_BROKEN = 20
_MARK = {"passed": "✅", "failed": "❌", "unjudged": "⚠️"}


def verdict_markdown(verdict: CollectionVerdict) -> str:
    """Returns headline, reasons, metrics and the first broken questions; the words of sources are escaped."""
    lines = [f"## {_MARK[verdict.status]} Gate {verdict.status}: {_plain(verdict.collection)}", ""]
    lines += [f"- **{_plain(reason)}**" for reason in verdict.reasons]
    lines += [f"- {_plain(warning)}" for warning in verdict.warnings]
    if verdict.reasons or verdict.warnings:
        lines.append("")
    if verdict.means:
        lines += [*_metrics(verdict), ""]
    if verdict.types:
        lines += [*_types(verdict), ""]
    if verdict.against:
        lines += [_against(verdict), ""]
    if verdict.code_changed:
        lines += [f"Code changed since the baseline: {_plain(', '.join(verdict.code_changed))}.", ""]
    if verdict.latency_ms:
        percentiles = ", ".join(f"{name} {value:.1f} ms" for name, value in verdict.latency_ms.items())
        lines += [f"{counted(verdict.queries, 'question')} judged; latency {percentiles}.", ""]
    if verdict.quality:
        lines += [f"Besides the ranking: {', '.join(_quality(verdict))}.", ""]
    if verdict.broken:
        lines += _broken(verdict)
    return "\n".join(lines)


_QUALITY = {
    "broad_P@5": "relevant among the top five of broad questions {:.3f}",
    "current_fact_recall": "changed facts answered as they are now {:.3f}",
    "false_retirement": "still true but retired {:.3f}",
    "duplicate_share": "repeats among the top five {:.3f}",
    "citation_validity": "citations that hold {:.3f}",
    "unanswerable_answered": "unanswerable questions that got results {:.3f}",
    "follow_up_recall": "R@5 of follow-up questions {:.3f}",
    "abstention_recall": "of these, caught where 2 % of the others are lost {:.3f}",
    "leaks": "leaks {:.0f}",
}


def _quality(verdict: CollectionVerdict) -> list[str]:
    return [template.format(verdict.quality[name]) for name, template in _QUALITY.items() if name in verdict.quality]


def _metrics(verdict: CollectionVerdict) -> list[str]:
    lines = ["| metric | baseline | now | change | p (loss) | smallest loss seen |", "|---|---|---|---|---|---|"]
    for name, c in verdict.metrics.items():
        smallest = "none" if c.smallest_loss is None else f"{c.smallest_loss:.3f}"
        lines.append(f"| {name} | {c.old:.3f} | {c.new:.3f} | {c.difference:+.3f} | {c.p:.4f} | {smallest} |")
    if verdict.stale is not None:
        old, new = verdict.stale
        lines.append(f"| stale@5 | {old:.3f} | {new:.3f} | {new - old:+.3f} | | any rise |")
    listed = {*verdict.metrics, *(("stale@5",) if verdict.stale is not None else ())}
    lines += [f"| {name} | | {value:.3f} | | | |" for name, value in verdict.means.items() if name not in listed]
    return lines


def _types(verdict: CollectionVerdict) -> list[str]:
    """Returns a row for each type of question; `was → is` where the baseline knows it."""
    names = list(next(iter(verdict.types.values())))[1:]
    lines = [f"| type | questions | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    for kind, now in verdict.types.items():
        before = verdict.types_before.get(kind, {})
        cells = (f"{before[m]:.3f} → {now[m]:.3f}" if m in before else f"{now[m]:.3f}" for m in names)
        lines.append(f"| {_plain(kind)} | {now['queries']:.0f} | {' | '.join(cells)} |")
    return lines


def _against(verdict: CollectionVerdict) -> str:
    a = {k: _plain(v) for k, v in verdict.against.items()}
    return (
        f"Baseline: build {a['build_id'] or '?'} at commit {a['commit'] or '?'}, accepted by"
        f" {a['accepted_by'] or 'unknown'} on {a['accepted_at'] or 'an unknown day'}: {a['why'] or 'no reason given'}"
    )


def _broken(verdict: CollectionVerdict) -> list[str]:
    count = len(verdict.broken)
    lines = [f"### {count} question{'s' if count > 1 else ''} got worse", ""]
    for b in verdict.broken[:_MAX_BROKEN]:
        moved = ", ".join(f"{m} {b.old[m]:.2f} → {b.new[m]:.2f}" for m in b.old if b.old[m] != b.new[m])
        lines += [f"- `{_code(b.question_id)}` {_plain(b.question)}: {moved}"]
        old, new = (_hits("", results, verdict.texts) for results in (b.old_results, b.new_results))
        if old == new:  # what changed is below the first five, or in the context
            lines += _hits("the first results are the same", b.new_results, verdict.texts) if b.new_results else []
        else:
            lines += [*_hits("before", b.old_results, verdict.texts), *_hits("now", b.new_results, verdict.texts)]
    if count > _MAX_BROKEN:
        lines.append(f"- and {count - _MAX_BROKEN} more")
    return [*lines, ""]


def _hits(when: str, hits: Sequence[Hit], texts: Mapping[str, str]) -> list[str]:
    """Returns the results of a question: a line for each with its words, or one line where none are known."""
    sources = [f"`{_code(h.source)}`{' ✓' if h.relevant else ''}{' (stale)' if h.stale else ''}" for h in hits]
    if not any(h.memory_id in texts for h in hits):
        return [f"  - {when}: {', '.join(sources) or 'nothing'}"]
    words = (f": {_plain(texts[h.memory_id])}" if h.memory_id in texts else "" for h in hits)
    return [f"  - {when}:", *(f"    - {t}{w}" for t, w in zip(sources, words, strict=True))]


def _plain(text: str) -> str:
    """Keeps a source's words from becoming markup: one line, with the characters that mean something escaped."""
    folded = " ".join(text.split())
    escaped = "".join("\\" + c if c in "\\*_|<>[]#" else c for c in folded)
    return escaped.replace("-\\>", "->")  # an arrow means nothing inside a line, and is read in terminals too


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")
