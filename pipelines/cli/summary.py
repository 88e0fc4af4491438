"""What `palimpsest build` tells people: the summary, the rejects, and what a dry run expects."""

import datetime as dt
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.build.partition import Partition
from palimpsest.build.plan import make_plan, partition
from palimpsest.build.stages import STAGES, embedded_texts, run_stage
from palimpsest.memories.vector_store import embedding_store
from palimpsest.relations.classify.choose_labeler import expected_calls
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog

_SHOWN = 20


def build_text(done: dict[str, Any]) -> str:
    """Returns the summary of a build for people, from the JSON that `build --json` prints."""
    skipped = [f"  skipped    {uri}: deleted, and still on disk" for uri in done.get("skipped", [])]
    if not done["changed"] and done["published"] and "plan" in done["seconds"]:
        writes = done["work"].get("graph_writes", 0)
        loaded = f"; {writes} writes to Neo4j" if writes else ""
        return "\n".join(
            [f"nothing changed: build {done['build_id']} is up to date{loaded} ({done['wall_s']:.1f} s)", *skipped]
        )
    relations = ", ".join(f"{n} {label}" for label, n in done["relations"].items())
    seconds = sorted(((s, n) for n, s in done["seconds"].items() if s >= 0.005), reverse=True)
    work = ", ".join(f"{n} {what.replace('_', ' ')}" for what, n in done["work"].items())
    state = "published" if done["published"] else "staged, NOT published"
    lines = [
        f"build {done['build_id']} {state} in {done['wall_s']:.1f} s",
        f"  documents  {done['documents']}",
        f"  memories   {done['memories']}, {done['retired']} of them retired{_undated(done.get('undated'))}",
        f"  relations  {relations}",
        f"  rejects    {done['rejects']}",
        *_privacy_lines(done),
        f"  work       {work}",
        f"  seconds    {', '.join(f'{name} {s:.1f}' for s, name in seconds)}",
        f"  gate       {done['gate']['status']}",
        f"  digest     {done['digest']}",
    ]
    if done.get("past_retention"):
        lines.append(f"  left out   {done['past_retention']} past their retention")
    if done.get("expired"):
        lines.append(f"  deleted    {done['expired']} memories past their retention or of denied users")
    lines += changes_lines(done.get("changes"))
    return "\n".join([*lines, *skipped, *(f"  warning: {w}" for w in done["gate"].get("warnings", []))])


def _undated(count: int | None) -> str:
    return f", {count} without a date (docs/sources.md says what dates a source)" if count else ""


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


_REASONS = {"tool": "tool turns", "opted_out": "opted out", "denied_user": "of denied users"}


def _privacy_lines(done: dict[str, Any]) -> list[str]:
    """Returns what was redacted and what is not stored; nothing where neither happened."""
    left = ", ".join(f"{n} {_REASONS.get(why, why)}" for why, n in (done.get("not_stored") or {}).items())
    lines = [f"  redacted   {done['redactions']} secrets"] if done.get("redactions") else []
    return lines + ([f"  left out   {left}"] if left else [])


def rejects_text(home: Home) -> str:
    """Returns the sources that could not be read, with their reasons, the first 20."""
    build = staged(home) if staged(home).manifest else published(home)
    assert build is not None
    lines = [
        f"rejected: {name}/{r['uri']}: {r['reason']}"
        for name in build.collections
        for r in build.table(name, "rejects").to_dicts()
    ]
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join([*lines[:_SHOWN], *more])


def dry_run(home: Home, corpora: list[Path] | None, only: list[str] | None) -> dict[str, Any]:
    """Returns what a build would do: reads and cuts the changed collections in a scratch folder, and embeds nothing.

    Files, chunks, tokens, memories and texts to embed are counted. Candidate pairs and seconds are estimates: from the
    rates of this home's published build, before the first from those of the demo corpus on two cores.
    """
    plan = make_plan(home, corpora, only)
    current = published(home)
    known = embedding_store(home).known()
    counts = {"files": 0, "chunks": 0, "tokens": 0, "memories": 0, "embeddings": 0, "candidate_pairs": 0, "lm_calls": 0}
    counts |= {"removed_sources": 0, "removed_memories": 0, "deleted_memories": 0}
    started = time.perf_counter()
    for name in plan.changed:
        with tempfile.TemporaryDirectory(prefix="palimpsest-dry-run-") as folder:
            scratch = Home(Path(folder))
            scratch.create()
            part = partition(scratch, name, plan.collections[name])
            for stage in list(STAGES)[:3]:
                run_stage(part, stage)
            had = current is not None and name in current.collections
            old = current.table(name, "memories")["memory_id"] if current and had else pl.Series([], dtype=pl.String)
            memories = part.table("memories")
            counts["files"] += part.table("documents")["uri"].n_unique()
            counts["chunks"] += part.table("chunks").height
            counts["tokens"] += int(part.table("chunks")["token_count"].sum())
            if current and had:
                _count_removals(counts, home, current, part)
            counts["memories"] += memories.filter(~pl.col("memory_id").is_in(old.to_list())).height
            texts = embedded_texts(part.table("embed_inputs"), part.table("context_inputs"))
            counts["embeddings"] += len(set(texts["text_hash"]) - known)
    reading = time.perf_counter() - started
    rates = _Rates.of(current)
    counts["candidate_pairs"] = round(counts["memories"] * rates.pairs_a_memory)
    last = staged(home) if staged(home).manifest else current  # a build that the gate held back has paid, too
    standing = [last.table(n, "relations") for n in plan.changed if n in last.collections] if last else []
    counts["lm_calls"], cost = expected_calls(
        home, counts["candidate_pairs"], pl.concat(standing) if standing else None
    )
    embedding = counts["embeddings"] / rates.texts_per_s + (rates.load_s if counts["embeddings"] else 0.0)
    rest = rates.fixed_s + counts["memories"] * rates.rest_s_a_memory
    seconds = round(reading + embedding + rest, 1) if plan.changed else 0.0
    return {"changed": list(plan.changed), **counts, "cost": round(cost, 4), "seconds": seconds}


def _count_removals(counts: dict[str, int], home: Home, current: Build, part: Partition) -> None:
    """Adds what a build would retire or delete of a collection: sources that are gone, and latest memories."""
    held = set(IngestLog(home.log / part.name).current()["uri"])
    counts["removed_sources"] += len(held - set(IngestLog(part.home.log / part.name).current()["uri"]))
    latest = current.table(part.name, "versions").filter("is_latest").select("memory_id")
    old = current.table(part.name, "memories").join(latest, on="memory_id", how="semi")
    lost = old.join(part.table("memories"), on="memory_id", how="anti")
    now = dt.datetime.now(dt.UTC)
    deleted = lost if part.config.on_removed == "delete" else lost.filter(pl.col("retention_until") <= now)
    counts["deleted_memories"] += deleted.height
    counts["removed_memories"] += lost.height - deleted.height


@dataclass(frozen=True, slots=True)
class _Rates:
    """What the last build tells of the next; the defaults are those of the demo corpus."""

    texts_per_s: float = 350.0
    load_s: float = 6.0
    pairs_a_memory: float = 1.2
    rest_s_a_memory: float = 0.001
    fixed_s: float = 8.0

    @staticmethod
    def of(build: Build | None) -> "_Rates":
        if build is None:
            return _Rates()
        m, default = build.manifest, _Rates()
        markers = m["markers"].values()
        embedded = [s["embeddings"].get("numbers", {}) for s in markers if "embeddings" in s]
        rates = [r for e in embedded if (r := e.get("texts_per_s"))]
        loads = [r for e in embedded if (r := e.get("load_model_s"))]
        after = sum(s.get(name, {}).get("seconds", 0.0) for s in markers for name in list(STAGES)[4:])
        pairs = sum(m["relations"].values())
        memories = max(m["memories"], 1)
        return _Rates(
            max(rates, default=default.texts_per_s),
            max(loads, default=default.load_s),
            pairs / memories,
            after / memories,
            m["index"]["seconds"] + sum(m.get("tail_seconds", {}).values()),
        )


def dry_run_text(plan: dict[str, Any]) -> str:
    """Returns a dry run's estimate for people."""
    if not plan["changed"]:
        return "nothing changed: a build would do nothing"
    return (
        f"would build {', '.join(plan['changed'])}: {plan['files']} files, {plan['chunks']} chunks, "
        f"{plan['tokens']} tokens; {plan['memories']} new memories, {plan['embeddings']} texts to embed, about "
        f"{plan['candidate_pairs']} candidate pairs, {plan['lm_calls']} LM calls (cost {plan['cost']:.2f}); "
        f"about {plan['seconds']:.0f} s; {plan['removed_sources']} sources are gone, "
        f"{plan['removed_memories']} memories would be retired, {plan['deleted_memories']} deleted"
    )
