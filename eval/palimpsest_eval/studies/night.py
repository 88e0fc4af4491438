"""What a night of new turns costs a large conversation collection, and how many of its months it touches.

    python -m palimpsest_eval.studies.night FOLDER [--turns 1500 6000] [--months 24] [--new 20]

FOLDER is a suite, whose texts become turns, spread evenly over months, a file each. After a full build, turns are added
to the last file, and it is built again. Printed for each size: seconds by stage of both builds, the months in which any
memory is new, gone or of another version, sources read, and bytes of tables written.
"""

import argparse
import datetime as dt
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.build.summary import stage_seconds
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest_eval.suites.suite import CORPUS_FILE

COLLECTION = "talks"
_SESSION_TURNS = 20
_FIRST_MONTH = 2024 * 12  # January 2024


@dataclass(frozen=True)
class Night:
    """A night in a collection of `turns` turns.

    Attributes:
        turns: before the night.
        months: files of turns.
        changed_months: months in which a memory or a version changed.
        sources_read: files.
        embeddings: texts embedded.
        full_s, night_s: seconds of the stages of each build.
        full_by_stage_s, night_by_stage_s: the same for each stage.
        written_bytes: tables that the night wrote, each whole; those that did not change are linked.
    """

    turns: int
    months: int
    changed_months: int
    sources_read: int
    embeddings: int
    full_s: float
    night_s: float
    full_by_stage_s: dict[str, float]
    night_by_stage_s: dict[str, float]
    written_bytes: int


def measure(texts: Sequence[str], months: int, added: Sequence[str], folder: Path) -> Night:
    """Builds turns of some months, adds turns to the last one, and builds again.

    Args:
        texts: of the turns.
        months: over which they are spread.
        added: texts of the night.
        folder: where corpus and home are written.
    """
    corpus, home = folder / "corpus" / COLLECTION, Home(folder / "home")
    corpus.mkdir(parents=True)
    settings = f"name: {COLLECTION}\ndescription: talks of {months} months\nunit: turn\nuser_id: ana\n"
    (corpus / "collection.yaml").write_text(settings, encoding="utf-8")
    size = -(-len(texts) // months)
    for month in range(months):
        _append(corpus, month, 0, texts[month * size : (month + 1) * size])
    full = _build(home, corpus.parent)
    log = IngestLog(home.log / COLLECTION)
    logged = log.versions().height
    _append(corpus, months - 1, size, added)
    night = _build(home, corpus.parent)
    records = night.manifest.stages[COLLECTION]
    full_s, night_s = (_stage_seconds(build) for build in (full, night))
    return Night(
        turns=len(texts),
        months=months,
        changed_months=len(_rows(full).join(_rows(night), on=["month", "rows"], how="anti")),
        sources_read=log.versions().height - logged,
        embeddings=sum(record.work.embeddings for record in records.values()),
        full_s=round(sum(full_s.values()), 2),
        night_s=round(sum(night_s.values()), 2),
        full_by_stage_s=full_s,
        night_by_stage_s=night_s,
        written_bytes=sum(s.st_size for p in night.path.rglob("*.parquet") if (s := p.stat()).st_nlink == 1),
    )


def _append(corpus: Path, month: int, first: int, texts: Sequence[str]) -> None:
    year, number = divmod(_FIRST_MONTH + month, 12)
    start = dt.datetime(year, number + 1, 1, tzinfo=dt.UTC)
    with (corpus / f"{year}-{number + 1:02d}.jsonl").open("a", encoding="utf-8") as file:
        for n, text in enumerate(texts, first):
            session = f"{year}-{number + 1:02d}-{n // _SESSION_TURNS:04d}"
            when = (start + dt.timedelta(minutes=n)).isoformat()
            file.write(json.dumps({"session_id": session, "speaker": "Ana", "text": text, "timestamp": when}) + "\n")


def _build(home: Home, corpus: Path) -> Build:
    return run_without_dagster(home, make_plan(home, [corpus]))


def _stage_seconds(build: Build) -> dict[str, float]:
    seconds = stage_seconds(build.manifest)
    return {stage: round(s, 2) for stage, s in seconds.items() if stage != "load_model"}


def _rows(build: Build) -> pl.DataFrame:
    """Returns (month, hash of the memories and their versions) of a build."""
    versions = build.table(COLLECTION, "versions").select("memory_id", "is_latest", "superseded_by")
    memories = build.table(COLLECTION, "memories").join(versions, on="memory_id").sort("memory_id")
    keys = pl.concat_str("memory_id", "is_latest", pl.col("superseded_by").fill_null(""), separator=" ")
    return memories.group_by(month=pl.col("observed_at").dt.strftime("%Y-%m")).agg(rows=keys.str.join("\n"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--turns", type=int, nargs="+", default=[1500, 6000])
    parser.add_argument("--months", type=int, default=24)
    parser.add_argument("--new", type=int, default=20, help="turns of the night")
    options = parser.parse_args(arguments)
    rows = (json.loads(line) for line in (options.folder / CORPUS_FILE).read_text(encoding="utf-8").splitlines())
    texts = [text for row in rows if (text := row["text"].strip())]
    for turns in options.turns:
        with tempfile.TemporaryDirectory(prefix="palimpsest-night-") as scratch:
            added = texts[turns : turns + options.new]
            night = measure(texts[:turns], options.months, added, Path(scratch))
        sys.stdout.write(json.dumps(asdict(night)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
