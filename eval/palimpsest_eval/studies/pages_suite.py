"""Makes a suite of long pages from questions with spans: `python -m palimpsest_eval.studies.pages_suite FOLDER OUT`.

FOLDER has texts (`*.md`) and `questions_df.csv`, as `chunking_eval` has them: `question`, `corpus_id` and `references`,
a JSON list of `start_index` and `end_index` in the text. A page is a row of OUT, and the part of a reference that is on
it evidence, so that `palimpsest suite OUT` counts after packing what answers, and not whole pages.
"""

import argparse
import csv
import json
import sys
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

from palimpsest.text.tokenizer import tokenizer

_BREAKS = ("\n\n", "\n", ". ", " ")  # where a page ends, the first that there is in its second half


def page_spans(text: str, tokens: int) -> list[tuple[int, int]]:
    """Returns the spans of pages of at most so many tokens, white space trimmed."""
    starts = [a for a, _ in tokenizer().encode(text, add_special_tokens=False).offsets]
    cuts = [0]
    while (first := bisect_left(starts, cuts[-1])) + tokens < len(starts):
        stop = starts[first + tokens]
        least = cuts[-1] + (stop - cuts[-1]) // 2
        found = ((text.rfind(mark, least, stop), mark) for mark in _BREAKS)
        cuts.append(next((at + len(mark) for at, mark in found if at > 0), stop))
    trimmed = (_trim(text, a, b) for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True))
    return [(a, b) for a, b in trimmed if a < b]


def write_suite(folder: Path, out: Path, tokens: int) -> tuple[int, int]:
    """Writes the suite; returns how many pages and questions it has."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    pages = {
        name: [(f"{name}-{i:03}", a, b) for i, (a, b) in enumerate(page_spans(text, tokens))]
        for name, text in texts.items()
    }
    out.mkdir(parents=True, exist_ok=True)
    rows = [{"_id": i, "title": "", "text": texts[n][a:b]} for n, spans in pages.items() for i, a, b in spans]
    queries, qrels, evidence = [], list[str](), list[str]()
    with (folder / "questions_df.csv").open(encoding="utf-8", newline="") as file:
        for number, question in enumerate(csv.DictReader(file)):
            name, query_id = question["corpus_id"], f"q{number:03}"
            found = _evidence(texts[name], pages[name], question)
            if not found:
                continue
            queries.append({"_id": query_id, "text": question["question"], "type": name})
            qrels += [f"{query_id}\t{row}\t1" for row in dict.fromkeys(row for row, _, _ in found)]
            evidence += [f"{query_id}\t{row}\t{a}\t{b}" for row, a, b in found]
    for file_name, lines in (
        ("corpus.jsonl", map(json.dumps, rows)),
        ("queries.jsonl", map(json.dumps, queries)),
        ("qrels.tsv", ["query-id\tcorpus-id\tscore", *qrels]),
        ("evidence.tsv", ["query-id\tcorpus-id\tstart\tend", *evidence]),
    ):
        (out / file_name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(rows), len(queries)


def _evidence(text: str, pages: list[tuple[str, int, int]], question: Mapping[str, str]) -> list[tuple[str, int, int]]:
    """Returns (row, start, end) of the references of a question in the pages that they are on."""
    found = []
    for reference in json.loads(question["references"]):
        start, end = _trim(text, reference["start_index"], reference["end_index"])
        inside = ((row, max(start, a) - a, min(end, b) - a) for row, a, b in pages)
        found += [(row, a, b) for row, a, b in inside if a < b]
    return found


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def main() -> None:
    """Writes the suite and prints its size."""
    parser = argparse.ArgumentParser(description="makes a suite of long pages from questions with spans")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokens", type=int, default=1500, help="of a page, at most")
    args = parser.parse_args()
    pages, questions = write_suite(args.folder, args.out, args.tokens)
    sys.stdout.write(f"{args.out}: {pages} pages, {questions} questions\n")


if __name__ == "__main__":
    main()
