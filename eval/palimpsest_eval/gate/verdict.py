"""The gate's verdict on a build: for each collection what was found and why, and the answer for the whole home."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal
from xml.etree import ElementTree

from palimpsest.core.files import counted
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.query.request.types import shorten_text
from palimpsest_eval.gate.baseline import SettingChange, named
from palimpsest_eval.golden.golden_run import (
    ABSTENTION,
    BROAD_PRECISION,
    FILLED,
    IRRELEVANT,
    SIGNALS,
    STALE,
    GoldenRun,
    Hit,
)
from palimpsest_eval.metrics import MINIMUM_EFFECT, Comparison

Status = Literal["passed", "failed", "unjudged"]

# Metrics that are measured of every question, in the order they are reported; the first of them say what is found.
GATED = ("R@5", "nDCG@10", "packed_recall")
FOUND = ("R@5", "packed_recall")


@dataclass(frozen=True)
class Row:
    """A figure that the gate compares question by question.

    Attributes:
        name: of the figure.
        effect: the smallest change of its mean that closes the gate.
        is_cost: whether less of it is better.
        meaning: what a change for the worse means, where the name does not say it.
    """

    name: str
    effect: float = MINIMUM_EFFECT
    is_cost: bool = False
    meaning: str = ""

    def change(self, c: Comparison) -> str:
        """Returns the change as one line."""
        verb = "fell" if c.difference < 0 else "rose"
        line = f"{self.name} {verb} from {c.old:.3f} to {c.new:.3f} ({c.difference:+.3f}, p {c.p:.4f})"
        return f"{line}: {self.meaning}" if c.lost and self.meaning else line


ROWS = (
    *(Row(name) for name in GATED),
    Row(ABSTENTION),
    Row(BROAD_PRECISION),
    Row(IRRELEVANT, is_cost=True),
    Row(STALE, effect=0.01, is_cost=True, meaning="outdated memories are among the results"),
    *(Row(name, meaning="a part of the ranking no longer scores") for name in SIGNALS),
    Row(FILLED, meaning="fewer results come than did"),
)
"""All that the gate compares with the baseline, by one paired test."""


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
        metrics: of each of `ROWS` the baseline's value, the run's and how likely the change is by chance.
        compared: of each measure the baseline's mean and the run's on the questions in both, and p95_ms.
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
    json_hidden = ("run", "types", "types_before", "compared")

    collection: str
    status: Status
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    metrics: Mapping[str, Comparison] = field(default_factory=dict)
    compared: Mapping[str, tuple[float, float]] = field(default_factory=dict)
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
            STALE: {"old": stale.old, "new": stale.new} if (stale := self.metrics.get(STALE)) else None,
            "by_type": types,
            "unanswerable": {"questions": len(self.unanswerable), "answered": sum(self.unanswerable.values())},
        }

    @property
    def lagging(self) -> list[str]:
        """The rows that are better than the baseline by more than the smallest effect: a fall back would pass."""
        better = [(row, c) for row in ROWS if (c := self.metrics.get(row.name))]
        return [row.change(c) for row, c in better if (-1 if row.is_cost else 1) * c.difference > row.effect]

    @property
    def outcome(self) -> list[str]:
        """What closed the gate, or why the collection could not be judged."""
        return list(self.warnings if self.status == "unjudged" else self.reasons)

    def markdown(self) -> str:
        """Returns the verdict on this collection alone, for a pull request."""
        return GateVerdict(self.status, (self,)).markdown()


MAX_SUMMARY = 1900  # bytes: with the command's own words a closed gate says at most 2 KB


@dataclass(frozen=True)
class GateVerdict(JsonRecord):
    """The gate's answer for a home: failed if any collection failed, unjudged if any could not be judged.

    `report` is the file with all figures and questions; empty where there is none.
    """

    status: Status
    collections: tuple[CollectionVerdict, ...]
    report: str = ""

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
        """Returns what a manifest has: status, reasons, warnings, summary, metrics and settings_changed.

        `embedders` is there too where the build has another embedder than the published one: the figures of both.
        """
        metrics: dict[str, float] = {}
        for part in ("means", "quality", "percentiles_ms"):
            metrics |= {f"{v.collection}/{m}": value for v in self.collections for m, value in getattr(v, part).items()}
        return {
            "status": self.status,
            "reasons": [f"{v.collection}: {reason}" for v in self.collections for reason in v.reasons],
            "warnings": [f"{v.collection}: {w}" for v in self.collections for w in v.warnings],
            "summary": self.summary(),
            "metrics": metrics,
            "settings_changed": self.settings_changed,
            **({"embedders": embedders} if (embedders := [v.embedder for v in self.collections if v.embedder]) else {}),
        }

    def summary(self, max_bytes: int = MAX_SUMMARY) -> list[str]:
        """Returns the answer, then a line for each collection that closed the gate or was not judged, with every row.

        Where the lines have more than `max_bytes`, they have fewer words each, and at last only names.
        """
        return summary_lines(self, max_bytes)

    def text(self) -> str:
        """Returns the answer, the rows compared and what else matters, for a terminal."""
        return verdict_text(self)

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
        """Returns the verdict for a pull request: at most 8 KB, with details folded."""
        return verdict_markdown(self)

    def junit(self) -> str:
        """Returns the verdict as JUnit's XML: a suite for each collection, a case for each row."""
        return verdict_junit(self)

    def annotations(self) -> list[str]:
        """Returns a GitHub annotation for each collection that closed the gate, or whose baseline lies behind."""
        return verdict_annotations(self)


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


# The verdict in a few lines: what a terminal, a log and an alert show first.

_ROW = re.compile(r"^(.{1,70}?)(?= fell | rose |: | \(|, |; |$)")


def summary_lines(verdict: GateVerdict, max_bytes: int) -> list[str]:
    """Returns the lines of `GateVerdict.summary`."""
    counts = Counter(v.status for v in verdict.collections)
    what = ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) or "no collection"
    head = f"gate {verdict.status}: {counted(len(verdict.collections), 'collection')}, {what}"
    shown = [v for v in verdict.collections if v.outcome and v.status != "passed"]
    for words in (_whole, _first_words, _rows):
        lines = [head, *(f"{v.collection}: {words(v)}" for v in shown)]
        if len("\n".join(lines).encode()) <= max_bytes:
            return lines
    names = ", ".join(v.collection for v in shown)
    return [head, shorten_text(names, max(0, max_bytes - len(head.encode())) // 4)]


def _grouped(verdict: CollectionVerdict, shorten: Callable[[str], str]) -> str:
    """Returns the first reason of each row, and how many more the row has."""
    rows: dict[str, list[str]] = {}
    for reason in verdict.outcome:
        rows.setdefault(_row_of(reason), []).append(reason)
    more = {row: f" (and {len(of) - 1} more)" if len(of) > 1 else "" for row, of in rows.items()}
    return "; ".join(shorten(of[0]) + more[row] for row, of in rows.items())


def _whole(verdict: CollectionVerdict) -> str:
    worse = len(verdict.broken)
    return _grouped(verdict, lambda r: shorten_text(r, 240)) + (
        f"; {counted(worse, 'question')} got worse" if worse else ""
    )


def _first_words(verdict: CollectionVerdict) -> str:
    return _grouped(verdict, lambda r: shorten_text(r, 60))


def _rows(verdict: CollectionVerdict) -> str:
    return ", ".join(dict.fromkeys(map(_row_of, verdict.outcome)))


def _row_of(reason: str) -> str:
    """Returns what a reason is about: its first words."""
    found = _ROW.match(reason)
    return found[1] if found else shorten_text(reason, 60)


_MAX_WARNINGS, _MAX_TERMINAL = 3, 200


def verdict_text(verdict: GateVerdict) -> str:
    """Returns summary, a table of the gated metrics and of what changed, the first warnings, and where the rest is."""
    lines = verdict.summary()
    table = [
        (v.collection, name, f"{c.old:.3f} -> {c.new:.3f}", f"{c.difference:+.3f}", f"p {c.p:.4f}", _mark(v, name))
        for v in verdict.collections
        for name, c in v.metrics.items()
        if name in GATED or c.lost or _mark(v, name)
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines += ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
    for v in verdict.collections:
        warnings = v.warnings if v.status != "unjudged" else ()
        lines += [f"{v.collection}: {shorten_text(w, _MAX_TERMINAL)}" for w in warnings[:_MAX_WARNINGS]]
        if (more := len(warnings) - _MAX_WARNINGS) > 0:
            lines.append(f"{v.collection}: and {counted(more, 'warning')} more")
        if v.broken:
            worse = named([b.question_id for b in v.broken], _MAX_WARNINGS)
            lines.append(f"{v.collection}: {counted(len(v.broken), 'question')} got worse: {worse}")
    return "\n".join([*lines, *([f"report: {verdict.report}"] if verdict.report else [])])


def _mark(verdict: CollectionVerdict, row: str) -> str:
    if verdict.metrics[row].lost:
        return "closed the gate"
    return "better: accept it" if any(line.startswith(f"{row} ") for line in verdict.lagging) else ""


# The verdict as markdown, for a pull request.

MAX_MARKDOWN = 8000  # bytes
_MARK = {"passed": "✅", "failed": "❌", "unjudged": "⚠️"}


def verdict_markdown(verdict: GateVerdict) -> str:
    """Returns headline, what closed the gate, and folded details as far as they fit; words of sources are escaped."""
    summary = verdict.summary(MAX_MARKDOWN // 4)
    names = ", ".join(_plain(v.collection) for v in verdict.collections)
    lines = [f"## {_MARK[verdict.status]} Gate {verdict.status}: {_plain(shorten_text(names, 120))}", ""]
    lines += [f"- **{_plain(line)}**" for line in summary[1:]]
    end = f"\nFull report: {_report(verdict.report)}\n" if verdict.report else "\n"
    text = "\n".join(lines) + "\n"
    closed = [v for v in verdict.collections if v.status == "failed"]
    others = [v for v in verdict.collections if v.status != "failed"]
    wanted = [block(v) for v in closed for block in (_figures, _broken, _circumstances)]
    wanted += [block(v) for block in (_circumstances, _figures, _broken) for v in others]
    wanted += [_types(v) for v in (*closed, *others)]
    for block in wanted:
        text += block if len((text + block + end).encode()) <= MAX_MARKDOWN else ""
    return text + end


def _report(path: str) -> str:
    """Returns where the report is: on GitHub also the run whose artifact it is."""
    place = [os.environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    run = f", an artifact of [this run]({place[0]}/{place[1]}/actions/runs/{place[2]})" if all(place) else ""
    return f"`{_code(path)}`{run}"


def _folded(title: str, lines: Sequence[str], is_open: bool = False) -> str:
    return "\n".join(
        ["", f"<details{' open' if is_open else ''}><summary>{title}</summary>", "", *lines, "", "</details>", ""]
    )


def _figures(verdict: CollectionVerdict) -> str:
    if not verdict.metrics:
        return ""
    lines = ["| row | baseline | now | change | p (loss) | smallest loss seen |", "|---|---|---|---|---|---|"]
    for name, c in verdict.metrics.items():
        smallest = "none" if c.smallest_loss is None else f"{c.smallest_loss:.3f}"
        lines.append(f"| {name} | {c.old:.3f} | {c.new:.3f} | {c.difference:+.3f} | {c.p:.4f} | {smallest} |")
    return _folded(f"{_plain(verdict.collection)}: {verdict.status}, figures", lines, verdict.status == "failed")


def _broken(verdict: CollectionVerdict) -> str:
    """Returns the questions that got worse, with their results as far as they fit into a share of the whole."""
    count = len(verdict.broken)
    if not count:
        return ""
    title = f"{_plain(verdict.collection)}: {counted(count, 'question')} got worse"
    free = MAX_MARKDOWN // 3 if verdict.status == "failed" else MAX_MARKDOWN // 12
    for shown, results in ((20, True), (5, True), (2, True), (5, False), (1, False)):
        lines = [line for b in verdict.broken[:shown] for line in _question(b, verdict.texts, results)]
        lines += [f"- and {count - shown} more"] if count > shown else []
        if len((block := _folded(title, lines)).encode()) <= free:
            return block
    return ""


def _question(b: BrokenQuestion, texts: Mapping[str, str], results: bool) -> list[str]:
    moved = ", ".join(f"{m} {b.old[m]:.2f} → {b.new[m]:.2f}" for m in b.old if b.old[m] != b.new[m])
    lines = [f"- `{_code(b.question_id)}` {_plain(b.question)}: {moved}"]
    if not results:
        return lines
    old, new = (_hits("", hits, texts) for hits in (b.old_results, b.new_results))
    if old == new:  # what changed is below the first five, or in the context
        return [*lines, *(_hits("the first results are the same", b.new_results, texts) if b.new_results else ())]
    return [*lines, *_hits("before", b.old_results, texts), *_hits("now", b.new_results, texts)]


def _circumstances(verdict: CollectionVerdict) -> str:
    """Returns warnings, the baseline, what changed since it, latency and the figures that are not of the ranking."""
    lines = [f"- {_plain(shorten_text(w, _MAX_TERMINAL))}" for w in verdict.warnings]
    if verdict.against:
        lines.append(f"- {_against(verdict)}")
    if verdict.code_changed:
        lines.append(f"- Code changed since the baseline: {_plain(', '.join(verdict.code_changed))}.")
    if verdict.latency_ms:
        percentiles = ", ".join(f"{name} {value:.1f} ms" for name, value in verdict.latency_ms.items())
        lines.append(f"- {counted(verdict.queries, 'question')} judged; latency {percentiles}.")
    if verdict.quality:
        lines.append(f"- Besides the ranking: {', '.join(_quality(verdict))}.")
    return _folded(f"{_plain(verdict.collection)}: circumstances", lines) if lines else ""


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


def _types(verdict: CollectionVerdict) -> str:
    """Returns a row for each type of question; `was → is` where the baseline knows it."""
    if not verdict.types:
        return ""
    names = list(next(iter(verdict.types.values())))[1:]
    lines = [f"| type | questions | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    for kind, now in verdict.types.items():
        before = verdict.types_before.get(kind, {})
        cells = (f"{before[m]:.3f} → {now[m]:.3f}" if m in before else f"{now[m]:.3f}" for m in names)
        lines.append(f"| {_plain(kind)} | {now['queries']:.0f} | {' | '.join(cells)} |")
    return _folded(f"{_plain(verdict.collection)}: by type of question", lines)


def _against(verdict: CollectionVerdict) -> str:
    a = {k: _plain(v) for k, v in verdict.against.items()}
    return (
        f"Baseline: build {a['build_id'] or '?'} at commit {a['commit'] or '?'}, accepted by"
        f" {a['accepted_by'] or 'unknown'} on {a['accepted_at'] or 'an unknown day'}: {a['why'] or 'no reason given'}"
    )


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


# The verdict for machines: JUnit's XML, which CI servers show as tests, and annotations of GitHub.


def verdict_junit(verdict: GateVerdict) -> str:
    """Returns a suite for each collection: a case for each row compared, and one for all that is not of a row."""
    suites = ElementTree.Element("testsuites", name="palimpsest gate")
    for v in verdict.collections:
        of_rows = {row.name: row.change(c) for row in ROWS if (c := v.metrics.get(row.name)) and c.lost}
        others = [r for r in v.outcome if r not in of_rows.values()]
        failures = len(of_rows) + bool(others)
        suite = ElementTree.SubElement(
            suites, "testsuite", name=v.collection, tests=str(len(v.metrics) + 1), failures=str(failures)
        )
        for name, failed in (("rules", others), *((m, [of_rows[m]] if m in of_rows else []) for m in v.metrics)):
            case = ElementTree.SubElement(suite, "testcase", classname=f"gate.{v.collection}", name=name)
            if failed:
                failure = ElementTree.SubElement(case, "failure", message=shorten_text(failed[0], _MAX_TERMINAL))
                failure.text = "\n".join(shorten_text(r, 10 * _MAX_TERMINAL) for r in failed)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def verdict_annotations(verdict: GateVerdict) -> list[str]:
    """Returns workflow commands: an error for what closed the gate, a warning where a baseline lies behind."""
    lines = []
    for v in verdict.collections:
        title = f"title=Gate {v.status}%3A {_data(v.collection).replace(',', '%2C').replace(':', '%3A')}"
        if v.status != "passed":
            lines.append(f"::error {title}::{_data(_whole(v))}")
        elif v.lagging:
            lines.append(f"::warning {title}::{_data('the baseline lies behind: ' + '; '.join(v.lagging))}")
    return lines


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
