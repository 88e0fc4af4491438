"""The gate's decision as markdown, for a pull request."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palimpsest.eval.gate.verdict import Decision
    from palimpsest.eval.golden.golden_run import Hit

_MARK = {"passed": "✅", "failed": "❌", "unjudged": "⚠️"}


def decision_markdown(decision: "Decision", shown: int) -> str:
    """Returns headline, reasons, metrics and at most `shown` broken questions; the words of sources are escaped."""
    lines = [f"## {_MARK[decision.status]} Gate {decision.status}: {_plain(decision.collection)}", ""]
    lines += [f"- **{_plain(reason)}**" for reason in decision.reasons]
    lines += [f"- {_plain(warning)}" for warning in decision.warnings]
    if decision.reasons or decision.warnings:
        lines.append("")
    if decision.means:
        lines += [*_metrics(decision), ""]
    if decision.types:
        lines += [*_types(decision), ""]
    if decision.against:
        lines += [_against(decision), ""]
    if decision.code_changed:
        lines += [f"Code changed since the baseline: {_plain(', '.join(decision.code_changed))}.", ""]
    if decision.latency_ms:
        told = ", ".join(f"{name} {value:.1f} ms" for name, value in decision.latency_ms.items())
        lines += [f"{decision.queries} questions judged; latency {told}.", ""]
    if decision.quality:
        lines += [f"Beside the ranking: {', '.join(_quality(decision))}.", ""]
    if decision.broken:
        lines += _broken(decision, shown)
    return "\n".join(lines)


_QUALITY = {
    "current_fact_recall": "changed facts told as they are now {:.3f}",
    "false_retirement": "still true but retired {:.3f}",
    "duplicate_share": "repeats among the top five {:.3f}",
    "citation_validity": "citations that hold {:.3f}",
    "unanswerable_answered": "unanswerable questions that got results {:.3f}",
    "leaks": "leaks {:.0f}",
}


def _quality(decision: "Decision") -> list[str]:
    return [told.format(decision.quality[name]) for name, told in _QUALITY.items() if name in decision.quality]


def _metrics(decision: "Decision") -> list[str]:
    lines = ["| metric | baseline | now | change | p (loss) | smallest loss seen |", "|---|---|---|---|---|---|"]
    for name, c in decision.metrics.items():
        smallest = "none" if c.smallest_loss is None else f"{c.smallest_loss:.3f}"
        lines.append(f"| {name} | {c.old:.3f} | {c.new:.3f} | {c.difference:+.3f} | {c.p:.4f} | {smallest} |")
    if decision.stale is not None:
        old, new = decision.stale
        lines.append(f"| stale@5 | {old:.3f} | {new:.3f} | {new - old:+.3f} | | any rise |")
    told = {*decision.metrics, *(("stale@5",) if decision.stale is not None else ())}
    lines += [f"| {name} | | {value:.3f} | | | |" for name, value in decision.means.items() if name not in told]
    return lines


def _types(decision: "Decision") -> list[str]:
    """Returns a row for each type of question; `was → is` where the baseline knows it."""
    names = list(next(iter(decision.types.values())))[1:]
    lines = [f"| type | questions | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    for kind, now in decision.types.items():
        before = decision.types_before.get(kind, {})
        cells = (f"{before[m]:.3f} → {now[m]:.3f}" if m in before else f"{now[m]:.3f}" for m in names)
        lines.append(f"| {_plain(kind)} | {now['queries']:.0f} | {' | '.join(cells)} |")
    return lines


def _against(decision: "Decision") -> str:
    a = {k: _plain(v) for k, v in decision.against.items()}
    return (
        f"Baseline: build {a['build_id'] or '?'} at commit {a['commit'] or '?'}, accepted by"
        f" {a['accepted_by'] or 'unknown'} on {a['accepted_at'] or 'an unknown day'}: {a['why'] or 'no reason given'}"
    )


def _broken(decision: "Decision", shown: int) -> list[str]:
    count = len(decision.broken)
    lines = [f"### {count} question{'s' if count > 1 else ''} got worse", ""]
    for b in decision.broken[:shown]:
        moved = ", ".join(f"{m} {b.old[m]:.2f} → {b.new[m]:.2f}" for m in b.old if b.old[m] != b.new[m])
        lines += [f"- `{_code(b.question_id)}` {_plain(b.question)}: {moved}"]
        lines += [*_hits("before", b.old_results, decision.texts), *_hits("now", b.new_results, decision.texts)]
    if count > shown:
        lines.append(f"- and {count - shown} more")
    return [*lines, ""]


def _hits(when: str, hits: Sequence["Hit"], texts: Mapping[str, str]) -> list[str]:
    """Returns the results of a question: a line for each with its words, or one line where none are known."""
    told = [f"`{_code(h.source)}`{' ✓' if h.relevant else ''}{' (stale)' if h.stale else ''}" for h in hits]
    if not any(h.memory_id in texts for h in hits):
        return [f"  - {when}: {', '.join(told) or 'nothing'}"]
    words = (f": {_plain(texts[h.memory_id])}" if h.memory_id in texts else "" for h in hits)
    return [f"  - {when}:", *(f"    - {t}{w}" for t, w in zip(told, words, strict=True))]


def _plain(text: str) -> str:
    """Keeps a source's words from becoming markup: one line, with the characters that mean something escaped."""
    folded = " ".join(text.split())
    escaped = "".join("\\" + c if c in "\\*_|<>[]#" else c for c in folded)
    return escaped.replace("-\\>", "->")  # an arrow means nothing inside a line, and is read in terminals too


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")
