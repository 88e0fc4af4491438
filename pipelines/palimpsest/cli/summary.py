"""What `palimpsest build` prints for people: the summary, the rejects, and a dry run."""

from collections.abc import Mapping

from palimpsest.core.files import counted
from palimpsest.memories.languages import languages_line
from palimpsest.pipeline.estimate import DryRun
from palimpsest.pipeline.summary import BuildSummary
from palimpsest.store.builds import published, staged
from palimpsest.store.home import Home
from palimpsest.store.manifest import ChangesRecord

_SHOWN = 20


def build_text(done: BuildSummary) -> str:
    """Returns the summary of a build for people."""
    if not done.changed and done.published and "plan" in done.seconds:
        writes = done.work.get("graph_writes", 0)
        loaded = f"; {counted(writes, 'write')} to Neo4j" if writes else ""
        return "\n".join(
            [f"nothing changed: build {done.build_id} is up to date{loaded} ({done.wall_s:.1f} s)", *done.warnings]
        )
    relations = ", ".join(f"{n} {label}" for label, n in done.relations.items())
    seconds = sorted(((s, n) for n, s in done.seconds.items() if s >= 0.005), reverse=True)
    work = ", ".join(f"{n} {what.replace('_', ' ')}" for what, n in done.work.items())
    state = "published" if done.published else "staged, NOT published"
    lines = [
        f"build {done.build_id} {state} in {done.wall_s:.1f} s",
        f"  documents  {done.documents}",
        f"  memories   {done.memories}, {done.retired} of them retired{_undated(done.undated)}",
        *_language_lines(done),
        *_hidden_line(done.boilerplate),
        f"  relations  {relations}",
        f"  rejects    {done.rejects}",
        *_privacy_lines(done),
        f"  work       {work}",
        f"  seconds    {', '.join(f'{name} {s:.1f}' for s, name in seconds)}",
        f"  gate       {done.gate['status']}",
        *(f"  embedder   {line}" for line in done.gate.get("embedders", [])),
        f"  digest     {done.digest}",
    ]
    if done.past_retention:
        lines.append(f"  left out   {done.past_retention} past their retention")
    if done.expired:
        lines.append(f"  deleted    {counted(done.expired, 'memory')} past their retention or of denied users")
    lines += changes_lines(done.changes)
    return "\n".join([*lines, *(f"  warning: {w}" for w in done.gate.get("warnings", [])), *done.warnings])


def _hidden_line(boilerplate: Mapping[str, int]) -> list[str]:
    hidden = ", ".join(f"{n} of {name}" for name, n in boilerplate.items())
    return [f"  hidden     {hidden}: they recur (palimpsest collection boilerplate NAME lists them)"] if hidden else []


def _undated(count: int | None) -> str:
    return f", {count} without a date (docs/sources.md lists what dates a source)" if count else ""


def _language_lines(done: BuildSummary) -> list[str]:
    """Returns a line for each collection of which English rules read only a part."""
    note = "relations, facts and names are read in English only (docs/languages.md)"
    return [f"  languages  {name}: {languages_line(n)}; {note}" for name, n in sorted(done.languages.items())]


def changes_lines(changes: ChangesRecord | None) -> list[str]:
    """Returns what a build changed since the last one: documents by kind of change, and the first 20 by name."""
    if changes is None:
        return []
    if not changes["counts"]:
        return ["  changes    no document, no memory"]
    lines = [f"  changes    {', '.join(f'{n} {change}' for change, n in changes['counts'].items())}"]
    for d in changes["documents"][:_SHOWN]:
        lines.append(f"    {d['change']:8} {d['collection']}/{d['uri']}: latest memories +{d['gained']} -{d['lost']}")
    rest = sum(changes["counts"].values()) - len(changes["documents"][:_SHOWN])
    return [*lines, *([f"    … and {rest} more"] if rest else [])]


_REASONS = {
    "tool": "tool turns",
    "opted_out": "opted out",
    "denied_user": "of denied users",
    "image": "images",
    "audio": "recordings",
    "file": "files without text",
    "reasoning": "parts of reasoning",
    "hidden": "hidden messages",
    "instruction": "instructions",
    "other_branch": "messages of other branches",
    "other": "parts of unknown types",
    "notice": "notices",
    "sticker": "stickers",
    "media": "omitted media",
    "empty": "messages without words",
}


def _privacy_lines(done: BuildSummary) -> list[str]:
    """Returns what was redacted and what is not stored; nothing where neither happened."""
    left = ", ".join(f"{n} {_REASONS.get(why, why)}" for why, n in (done.not_stored or {}).items())
    lines = [f"  redacted   {done.redactions} secrets"] if done.redactions else []
    return lines + ([f"  left out   {left}"] if left else [])


def redactions_text(home: Home) -> str:
    """Returns where secrets were redacted in a build, never the secrets: the first 20, and where the rest is."""
    build = staged(home) if staged(home).is_finished else published(home)
    assert build is not None
    lines = []
    for name in build.collections:
        for r in build.table(name, "redactions").to_dicts():
            place = f" line {r['line']}" if r["line"] else ""
            lines.append(f"redacted: {name}/{r['uri']}{place}: {r['kind']} in {r['field']}")
    where = "'" + str(build.path / "*" / "redactions.parquet").replace("'", "''") + "'"
    more = [f"… and {len(lines) - _SHOWN} more; all are in: SELECT * FROM {where}"] if len(lines) > _SHOWN else []
    return "\n".join([*lines[:_SHOWN], *more])


def dry_run_text(plan: DryRun) -> str:
    """Returns a dry run's estimate for people."""
    if not plan.changed:
        return "nothing changed: a build would do nothing"
    counts = plan.counts
    return (
        f"would build {', '.join(plan.changed)}: {counted(counts['files'], 'file')}, "
        f"{counted(counts['chunks'], 'chunk')}, {counted(counts['tokens'], 'token')}; "
        f"{counted(counts['memories'], 'new memory')}, {counted(counts['embeddings'], 'text')} to embed, about "
        f"{counts['candidate_pairs']} candidate pairs, {counts['lm_calls']} LM calls (cost {plan.cost:.2f}); "
        f"about {plan.seconds:.0f} s; {counted(counts['removed_sources'], 'source', 'is')} gone, "
        f"{counted(counts['removed_memories'], 'memory')} would be retired, {counts['deleted_memories']} deleted"
    )
