"""What `palimpsest build` tells people: the summary, the rejects, and what a dry run expects."""

import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.build import make_plan, partition
from pipelines.stages import STAGES, embedding_store, run_stage
from pipelines.store.builds import published, staged
from pipelines.store.home import Home

_SHOWN = 20
_PAIRS_A_MEMORY = 3  # the candidates stage keeps at most so many
_TEXTS_PER_S = 250.0  # until a build on this machine has told its own rate


def build_text(done: dict[str, Any]) -> str:
    """Returns the summary of a build for people, from the JSON that `build --json` prints."""
    skipped = [f"  skipped    {uri}: deleted, and still on disk" for uri in done.get("skipped", [])]
    if not done["changed"] and done["published"] and "plan" in done["seconds"]:
        return "\n".join(
            [f"nothing changed: build {done['build_id']} is up to date ({done['wall_s']:.1f} s)", *skipped]
        )
    relations = ", ".join(f"{n} {label}" for label, n in done["relations"].items())
    seconds = sorted(((s, n) for n, s in done["seconds"].items() if s >= 0.005), reverse=True)
    work = ", ".join(f"{n} {what.replace('_', ' ')}" for what, n in done["work"].items())
    state = "published" if done["published"] else "staged, NOT published"
    lines = [
        f"build {done['build_id']} {state} in {done['wall_s']:.1f} s",
        f"  documents  {done['documents']}",
        f"  memories   {done['memories']}, {done['retired']} of them retired",
        f"  relations  {relations}",
        f"  rejects    {done['rejects']}",
        f"  work       {work}",
        f"  seconds    {', '.join(f'{name} {s:.1f}' for s, name in seconds)}",
        f"  gate       {done['gate']['status']}",
        f"  digest     {done['digest']}",
    ]
    lines += changes_lines(done.get("changes"))
    return "\n".join([*lines, *skipped, *(f"  warning: {w}" for w in done["gate"].get("warnings", []))])


def changes_lines(changes: dict[str, Any] | None) -> list[str]:
    """Returns what a build changed since the last one: how many documents in what way, and the first 20 by name."""
    if changes is None:
        return []
    if not changes["counts"]:
        return ["  changes    no document, no memory"]
    told = [f"  changes    {', '.join(f'{n} {change}' for change, n in changes['counts'].items())}"]
    for d in changes["documents"][:_SHOWN]:
        told.append(f"    {d['change']:8} {d['collection']}/{d['uri']}: latest memories +{d['gained']} -{d['lost']}")
    rest = sum(changes["counts"].values()) - len(changes["documents"][:_SHOWN])
    return [*told, *([f"    … and {rest} more"] if rest else [])]


def rejects_text(home: Home) -> str:
    """Returns the sources that could not be read, with their reasons, the first 20."""
    build = staged(home) if staged(home).manifest else published(home)
    assert build is not None
    rows = build.tables(["rejects"])["rejects"]
    lines = [f"rejected: {r['uri']}: {r['reason']}" for r in rows.head(_SHOWN).to_dicts()]
    more = [f"… and {rows.height - _SHOWN} more"] if rows.height > _SHOWN else []
    return "\n".join(lines + more)


def dry_run(home: Home, corpora: list[Path] | None, only: list[str] | None) -> dict[str, Any]:
    """Returns what a build would do: reads and cuts the changed collections in a scratch folder, and embeds nothing.

    `seconds` takes the embedding rate of this home's last build, or 250 texts a second before the first.
    """
    plan = make_plan(home, corpora, only)
    known = embedding_store(home).known()
    rate = _TEXTS_PER_S
    if (current := published(home)) is not None:
        rates = [m["embeddings"]["numbers"]["texts_per_s"] for m in current.manifest["markers"].values()]
        rate = max([r for r in rates if r] or [rate])
    counts = {"files": 0, "chunks": 0, "tokens": 0, "memories": 0, "embeddings": 0, "candidate_pairs": 0, "lm_calls": 0}
    for name in plan.changed:
        with tempfile.TemporaryDirectory(prefix="palimpsest-dry-run-") as folder:
            scratch = Home(Path(folder))
            scratch.create()
            part = partition(scratch, name, plan.collections[name])
            for stage in list(STAGES)[:3]:
                run_stage(part, stage)
            old = current.table(name, "memories")["memory_id"] if current else pl.Series([], dtype=pl.String)
            memories = part.table("memories")
            new = memories.filter(~pl.col("memory_id").is_in(old.to_list()))
            hashes = set(part.table("embed_inputs")["text_hash"])
            counts["files"] += part.table("documents")["uri"].n_unique()
            counts["chunks"] += part.table("chunks").height
            counts["tokens"] += int(part.table("chunks")["token_count"].sum())
            counts["memories"] += new.height
            counts["embeddings"] += len(hashes - known)
            counts["candidate_pairs"] += _PAIRS_A_MEMORY * new.height
    return {
        "changed": list(plan.changed), **counts, "cost": 0.0,
        "seconds": round(counts["embeddings"] / rate + (15 if counts["embeddings"] else 0), 1),
    }  # fmt: skip


def dry_run_text(plan: dict[str, Any]) -> str:
    """Returns a dry run's estimate for people."""
    if not plan["changed"]:
        return "nothing changed: a build would do nothing"
    return (
        f"would build {', '.join(plan['changed'])}: {plan['files']} documents, {plan['chunks']} chunks, "
        f"{plan['tokens']} tokens; {plan['memories']} new memories, {plan['embeddings']} texts to embed, at most "
        f"{plan['candidate_pairs']} candidate pairs, {plan['lm_calls']} LM calls (cost {plan['cost']:.2f}); "
        f"about {plan['seconds']:.0f} s"
    )
