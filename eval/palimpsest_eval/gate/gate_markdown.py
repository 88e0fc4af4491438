"""The gate's verdict as markdown, for a pull request."""

from collections.abc import Mapping, Sequence

from palimpsest_eval.gate.verdict import CollectionVerdict
from palimpsest_eval.golden.golden_run import Hit

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
        lines += [f"{verdict.queries} questions judged; latency {percentiles}.", ""]
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
