"""Documents that supersede each other: whether a build retires those that were replaced, and no others.

`python -m palimpsest_eval.studies.superseding FOLDER` writes the rows of FOLDER/corpus.jsonl as files, one a document,
with FOLDER/relations.jsonl (older, newer, label) as the collection's document relations, builds them and compares.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl
import yaml

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.store.builds import Build
from palimpsest.store.home import Home

COLLECTION = "documents"


@dataclass(frozen=True, slots=True)
class SupersedingResult:
    """What became of the documents; all of the last three are 0 where versions are right.

    `still_latest` were replaced and have a latest memory; `wrongly_retired` were not and have none;
    `memories_retired` are memories that are not latest in documents that nothing replaced.
    """

    documents: int
    memories: int
    relations: int
    replaced: int
    rejects: int
    still_latest: int
    wrongly_retired: int
    memories_retired: int
    seconds: float


def write_corpus(folder: Path, corpus: Path) -> set[str]:
    """Writes one file a row below `<corpus>/documents`, `.md` where it has front matter; returns the replaced ids.

    A number in a file's name is that of the row's id, so that front matter which names numbers finds its documents.
    """
    out = corpus / COLLECTION
    out.mkdir(parents=True)
    config = {"name": COLLECTION, "description": f"Documents of {folder.name}", "document_relations": "relations.jsonl"}
    (out / "collection.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        name = re.sub(r"[^\w.-]", "-", row["_id"])
        suffix = "md" if row["text"].startswith("---\n") else "rst"
        (out / f"{name}.{suffix}").write_text(row["text"], encoding="utf-8")
    stated = (folder / "relations.jsonl").read_text(encoding="utf-8")
    (out / "relations.jsonl").write_text(stated, encoding="utf-8")
    rows = [json.loads(line) for line in stated.splitlines()]
    return {row["older"] for row in rows if row["label"] == "UPDATE"}


def superseding_result(build: Build, replaced: set[str], seconds: float) -> SupersedingResult:
    """Returns what became of each document of the build, a document's id being its file name without suffix."""
    tables = build.tables(["documents", "memories", "versions", "document_relations", "rejects"])
    documents = tables["documents"].filter("is_current")
    memories = (
        tables["memories"]
        .join(tables["versions"].select("memory_id", "is_latest"), on="memory_id")
        .join(documents.select("document_id", "uri"), on="document_id")
        .with_columns(replaced=pl.col("uri").str.replace(r"\.\w+$", "").is_in(sorted(replaced)))
    )
    by_document = memories.group_by("uri", "replaced").agg(pl.col("is_latest").any())
    return SupersedingResult(
        documents.height,
        memories.height,
        tables["document_relations"].height,
        by_document.filter("replaced").height,
        tables["rejects"].height,
        by_document.filter("replaced", "is_latest").height,
        by_document.filter(~pl.col("replaced"), ~pl.col("is_latest")).height,
        memories.filter(~pl.col("replaced"), ~pl.col("is_latest")).height,
        round(seconds, 1),
    )


def measure_superseding(folder: Path) -> SupersedingResult:
    """Builds the documents of a folder in a throw-away home and returns what became of them."""
    with tempfile.TemporaryDirectory(prefix="palimpsest-superseding-") as scratch:
        replaced = write_corpus(folder, Path(scratch) / "corpus")
        home = Home(Path(scratch) / "home")
        started = time.perf_counter()
        home.create()
        build = run_without_dagster(home, make_plan(home, [Path(scratch) / "corpus"]))
        return superseding_result(build, replaced, time.perf_counter() - started)


def main(argv: list[str] | None = None) -> int:
    """Prints what became of the documents of each folder; 1 where a version is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    wrong = 0
    for folder in parser.parse_args(argv).folders:
        done = measure_superseding(folder)
        wrong += done.still_latest + done.wrongly_retired
        sys.stdout.write(json.dumps({"suite": folder.name} | asdict(done)) + "\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
