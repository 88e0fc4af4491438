"""What consolidation finds and would prune: `python -m palimpsest_eval.studies.consolidation planted --half blind`.

- `planted`: contradictions planted among pairs that are none, twenty pairs a user, with dates and without. Thresholds
  were chosen on the half `tuned`; `blind` and `templates` were not looked at. Prints the share of each kind that is
  proposed, or that the build ordered by an UPDATE, and the share of other pairs that is proposed.
- `prune --home HOME`: the share of the memories that golden questions of a built home need that would be proposed for
  pruning, in the worst case: all are old, and none was ever read.
- `scale --memories 20000`: seconds and memory of one run over everything.
"""

import argparse
import datetime as dt
import json
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.find_proposals import Consolidation, find_proposals
from palimpsest.consolidation.known_proposals import published_build
from palimpsest.consolidation.pruning import PruneSettings, Pruning, Reads
from palimpsest.consolidation.scope_memories import TABLES, Window, scopes_of
from palimpsest.store.collection_config import ConsolidationConfig
from palimpsest.store.home import Home, data_folder
from palimpsest.store.tables import empty
from palimpsest_eval.bench.synthetic import synthetic_build
from palimpsest_eval.golden.build_tables import JUDGED_TABLES, collection_tables
from palimpsest_eval.golden.questions import GoldenSet, load_questions
from palimpsest_eval.golden.resolve import resolve
from palimpsest_eval.studies.planted_conflicts import Half, Planted, planted_pairs

_PER_USER = 20
_FIRST_DAY = dt.date(2025, 1, 1)


def measure_planted(half: Half, *, dated: bool) -> dict[str, object]:
    """Builds the pairs of a half in a throw-away home, consolidates it, and returns the shares by kind."""
    pairs = planted_pairs(half)
    with tempfile.TemporaryDirectory() as folder:
        home, corpus = Home(Path(folder, "home")), Path(folder, "corpus")
        _write(corpus, pairs, dated)
        run_without_dagster(home, make_plan(home, [corpus]))
        found = consolidate(home, everything=True).proposals
        tables = published_build(home).tables(["memories", "versions"])
    memories = tables["memories"].join(tables["versions"].select("memory_id", "superseded_by"), on="memory_id")
    ids = {(r["document_id"], r["text"]): r["memory_id"] for r in memories.iter_rows(named=True)}
    by_text: dict[str, set[str]] = {}
    for (_, text), memory_id in ids.items():
        by_text.setdefault(text.strip(), set()).add(memory_id)
    superseded = dict(memories.select("memory_id", "superseded_by").iter_rows())
    named = [set(p.memory_ids) for p in found if p.kind == "contradiction"]
    counts: dict[str, Counter[str]] = {}
    for pair in pairs:
        a, b = (by_text.get(" ".join(t.split()), by_text.get(t.strip(), set())) for t in (pair.older, pair.newer))
        count = counts.setdefault(pair.conflict, Counter())
        is_proposed = any(n & a and n & b for n in named)
        is_ordered = any(superseded.get(i) in b for i in a)
        count.update(pairs=1, proposed=is_proposed, ordered=is_ordered, either=is_proposed or is_ordered)
    shares = {k: {n: round(c[n] / c["pairs"], 3) for n in ("proposed", "ordered", "either")} for k, c in counts.items()}
    planted = [c for k, c in counts.items() if k != "none"]
    total = sum(c["pairs"] for c in planted)
    return {
        "half": half,
        "dated": dated,
        "planted": total,
        "pairs": {k: c["pairs"] for k, c in counts.items()},
        "found": round(sum(c["either"] for c in planted) / total, 3),
        "proposed": round(sum(c["proposed"] for c in planted) / total, 3),
        "shares": shares,
        "proposals": Counter(p.kind for p in found),
    }


def _write(corpus: Path, pairs: Sequence[Planted], dated: bool) -> None:
    """Writes twenty pairs a user, each text a document of its own; later texts a month later."""
    folder = corpus / "planted"
    folder.mkdir(parents=True)
    settings = "name: planted\ndescription: planted contradictions\nunit: turn\n"
    (folder / "collection.yaml").write_text(settings, encoding="utf-8")
    rows = []
    for n, pair in enumerate(pairs):
        for side, text in enumerate((pair.older, pair.newer)):
            row = {"session_id": f"p{n}-{side}", "user_id": f"u{n // _PER_USER}", "speaker": "Robin", "text": text}
            if dated:
                row["timestamp"] = f"{_FIRST_DAY + dt.timedelta(days=30 * side + n % 25)}T10:00:00Z"
            rows.append(json.dumps(row))
    (folder / "turns.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


def measure_pruning(home: Home) -> dict[str, object]:
    """Returns the share of the memories that golden questions need that would be proposed for pruning."""
    build = published_build(home)
    tables, judged = build.tables(TABLES), build.tables(JUDGED_TABLES)
    now = dt.datetime.now(dt.UTC) + dt.timedelta(days=3_650)
    windows = {name: Window(True, now, 0) for name in build.collections}
    settings = PruneSettings(now, ConsolidationConfig().unread_days, ConsolidationConfig().replaced_days)
    scopes = list(scopes_of(tables, windows))
    proposals = [p for s in scopes for p in Pruning(s, Reads({}, 0), settings).proposals()]
    proposed = {p.drop for p in proposals}
    latest = {m.memory_id for s in scopes for m in s.latest}
    needed: set[str] = set()
    for name in build.collections:
        if questions := load_questions(data_folder(), name):
            user = build.manifest.default_user(name)
            golden = GoldenSet(name, tuple(questions), user)
            for question in resolve(golden, collection_tables(judged, name)):
                needed |= {i for need in question.needs for i in need}
    facts = needed & latest
    return {
        "memories": tables["memories"].height,
        "latest": len(latest),
        "true_facts": len(facts),
        "true_facts_proposed": round(len(facts & proposed) / max(1, len(facts)), 4),
        "proposed": Counter(p.why for p in proposals),
        "latest_proposed": round(len(latest & proposed) / len(latest), 4),
    }


def measure_scale(memories: int) -> dict[str, object]:
    """Returns seconds and peak memory of finding all proposals in synthetic memories."""
    made = synthetic_build(memories, 50, "turns", 1)
    tables = {name: made.tables.get(name, empty(name)) for name in (*TABLES, "embed_inputs")}
    row = {i: n for n, i in enumerate(tables["embed_inputs"]["memory_id"])}

    def vectors(ids: Sequence[str]) -> np.ndarray:
        return made.vectors[[row[i] for i in ids]]

    names = tables["memories"]["collection"].unique().to_list()
    now = dt.datetime.now(dt.UTC)
    work = Consolidation(tables, dict.fromkeys(names, ConsolidationConfig()), vectors, Reads({}, None), now, True)
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started, started_cpu = time.perf_counter(), time.process_time()
    found = find_proposals(work).proposals
    return {
        "memories": tables["memories"].height,
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(time.process_time() - started_cpu, 1),
        "before_mib": round(before_mib),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "proposals": Counter(p.kind for p in found),
    }


def main() -> None:
    """Runs one measurement and prints it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["planted", "prune", "scale"])
    parser.add_argument("--half", choices=["tuned", "blind", "templates"], default="blind")
    parser.add_argument("--home", type=Path, default=Path("data/home"))
    parser.add_argument("--memories", type=int, default=20_000)
    given = parser.parse_args()
    if given.what == "planted":
        results = [measure_planted(given.half, dated=dated) for dated in (True, False)]
    else:
        results = [measure_pruning(Home(given.home)) if given.what == "prune" else measure_scale(given.memories)]
    for result in results:
        print(json.dumps(result, sort_keys=True))  # noqa: T201 (a study prints its figures)


if __name__ == "__main__":
    main()
