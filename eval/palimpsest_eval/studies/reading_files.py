"""How well sources are read: the result of each file of a folder, and its words against an expected text.

`python -m palimpsest_eval.studies.reading_files FOLDER` prints a line for each format. An expected text is Markdown by
another tool, in a folder next to the file: F1 is over the words of both, without marks of Markdown, in any order.
"""

import argparse
import html
import json
import re
import statistics
import sys
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from palimpsest.core.errors import Rejected
from palimpsest.sources.workers.pool import read_sources
from palimpsest.store.collection_config import Limits

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TARGET = re.compile(r"\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")
_ESCAPE = re.compile(r"\\(?=[^\w\s])")
_TOKEN = re.compile(r"[^\W_]+")
_EXPECTED_FOLDERS = ("groundtruth", "expected_outputs")


@dataclass(frozen=True, slots=True)
class FileResult:
    """One file: its format, what was read of it or why not, and its F1 where it has an expected text."""

    uri: str
    suffix: str
    documents: int
    chars: int
    reason: str | None
    f1: float | None


@dataclass(frozen=True, slots=True)
class FormatResult:
    """The files of one suffix: read, rejected, those with an expected text, and their median and least F1."""

    format: str
    files: int
    read: int
    rejected: int
    expected: int
    median_f1: float | None
    min_f1: float | None


def words(text: str) -> Counter[str]:
    """Returns the words of a text or of Markdown with their counts: NFKC, lower case, no marks, no link targets."""
    text = _ESCAPE.sub("", _TARGET.sub("]", html.unescape(_COMMENT.sub(" ", text))))
    return Counter(_TOKEN.findall(unicodedata.normalize("NFKC", text).lower()))


def token_f1(found: str, expected: str) -> float:
    """Returns F1 of two bags of words, 1.0 when both are empty."""
    a, b = words(found), words(expected)
    if not a and not b:
        return 1.0
    common = sum((a & b).values())
    return 2 * common / (sum(a.values()) + sum(b.values()))


def expected_text(path: Path) -> str | None:
    """Returns the expected Markdown of a file, from a folder of such texts next to it; None where there is none."""
    for folder in (path.parent.parent / "groundtruth", path.parent / "expected_outputs"):
        for name in (f"{path.name}.md", f"{path.stem}.md"):
            candidate = folder / name
            if candidate.is_file() and (name != f"{path.stem}.md" or path.suffix == ".pdf"):
                return candidate.read_text("utf-8")
    return None


def measure_reading(folder: Path, limits: Limits | None = None) -> list[FileResult]:
    """Reads every file below `folder`, expected texts included, each in a worker; results are sorted by uri."""
    paths = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    results = []
    for uri, outcome in read_sources(((p, u) for u, p in sorted(paths.items())), limits or Limits()):
        path = paths[uri]
        if isinstance(outcome, Rejected):
            results.append(FileResult(uri, path.suffix.lower(), 0, 0, str(outcome), None))
            continue
        text = "\n".join(d.text for d in outcome.documents)
        expected = None if path.parent.name in _EXPECTED_FOLDERS else expected_text(path)
        f1 = None if expected is None else token_f1(text, expected)
        results.append(FileResult(uri, path.suffix.lower(), len(outcome.documents), len(text), None, f1))
    return results


def format_results(results: Iterable[FileResult]) -> list[FormatResult]:
    """Returns the results of each suffix, sorted."""
    by_suffix: dict[str, list[FileResult]] = defaultdict(list)
    for r in results:
        by_suffix[r.suffix or "none"].append(r)
    rows: list[FormatResult] = []
    for suffix, group in sorted(by_suffix.items()):
        f1s = [r.f1 for r in group if r.f1 is not None]
        rows.append(
            FormatResult(
                format=suffix,
                files=len(group),
                read=sum(r.reason is None for r in group),
                rejected=sum(r.reason is not None for r in group),
                expected=len(f1s),
                median_f1=round(statistics.median(f1s), 3) if f1s else None,
                min_f1=round(min(f1s), 3) if f1s else None,
            )
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    """Prints the table, with `--files` also each file, with `--json` one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", action="store_true", help="print each file with its F1 or its reason")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    started = time.perf_counter()
    results = measure_reading(args.folder)
    seconds = time.perf_counter() - started
    out = sys.stdout.write
    if args.files:
        for r in results:
            f1 = "" if r.f1 is None else f"{r.f1:.3f}"
            out(f"{r.suffix:10} {f1:6} {r.chars:8} {r.uri}  {r.reason or ''}\n")
    rows = [asdict(row) for row in format_results(results)]
    out("| format | files | read | rejected | with expected text | median F1 | least F1 |\n")
    out("|---|---|---|---|---|---|---|\n")
    for row in rows:
        out("| " + " | ".join("" if v is None else str(v) for v in row.values()) + " |\n")
    read = sum(r.reason is None for r in results)
    out(f"{len(results)} files, {read} read, {len(results) - read} rejected, {seconds:.1f} s\n")
    if args.json:
        out(json.dumps({"files": len(results), "read": read, "seconds": round(seconds, 2), "formats": rows}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
