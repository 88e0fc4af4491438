"""The numbers of each published build, kept in the home after the build itself is gone.

`<home>/health/history.jsonl` has a line of JSON a build: its number, its time, numbers and seconds by stage. No name of
a collection or user and no text is in it, so that a delete has nothing to remove.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from palimpsest.build.summary import build_summary
from palimpsest.core.files import write_bytes
from palimpsest.store.builds import Build, kept
from palimpsest.store.home import Home

MAX_BUILDS = 1000


@dataclass(frozen=True)
class BuildNumbers:
    """What a build was.

    Attributes:
        numbers: by name, as `HomeHealth.numbers` has them; of a build that was never recorded, those of its manifest.
        seconds: wall time by stage.
    """

    build_id: str
    created_at: str
    numbers: Mapping[str, float]
    seconds: Mapping[str, float]


def numbers_of(home: Home, build: Build) -> BuildNumbers:
    """Returns what the manifest of a finished build says."""
    manifest, summary = build.manifest, build_summary(home, build)
    records = [record for stages in manifest.stages.values() for record in stages.values()]
    numbers = {
        "documents": manifest.documents,
        "memories": manifest.memories,
        "latest": manifest.memories - manifest.retired,
        "retired": manifest.retired,
        "rejects": manifest.rejects,
        "latest_share": _share(manifest.memories - manifest.retired, manifest.memories),
        "embeddings": summary.work.get("embeddings", 0),
        "lm_calls": summary.work.get("lm_calls", 0),
        "cost": round(sum(r.numbers.get("cost", 0.0) for r in records if r.cache_status == "done"), 6),
        "seconds": round(sum(summary.seconds.values()), 3),
    }
    return BuildNumbers(build.build_id, manifest.created_at, numbers, dict(summary.seconds))


def read_history(home: Home) -> list[BuildNumbers]:
    """Returns the builds that were published, oldest first: those recorded, and what manifests say of the others."""
    found = {row.build_id: row for row in _recorded(home)}
    current = {b.build_id: b for b in kept(home) if b.is_finished}
    missing = {i: numbers_of(home, b) for i, b in current.items() if i not in found}
    return [row for _, row in sorted((found | missing).items())]


def record(home: Home, row: BuildNumbers) -> None:
    """Writes the numbers of a build, over those recorded for it before; of the oldest builds none are kept."""
    rows = {r.build_id: r for r in _recorded(home)} | {row.build_id: row}
    lines = [json.dumps(asdict(r), sort_keys=True) for _, r in sorted(rows.items())][-MAX_BUILDS:]
    path = home.path / "health" / "history.jsonl"
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
    path.chmod(0o600)


def _recorded(home: Home) -> list[BuildNumbers]:
    path = home.path / "health" / "history.jsonl"
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row: Any = json.loads(line)
            rows.append(BuildNumbers(row["build_id"], row["created_at"], dict(row["numbers"]), dict(row["seconds"])))
        except (ValueError, TypeError, KeyError):
            continue  # a damaged line costs one build of the history
    return rows


def _share(part: int, total: int) -> float:
    return round(part / total, 6) if total else 0.0
