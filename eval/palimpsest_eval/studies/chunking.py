"""How well chunks serve retrieval: token recall, precision and IoU of what is retrieved against annotated spans.

`python -m palimpsest_eval.studies.chunking FOLDER` measures our chunker, fixed-size chunks and two libraries on texts
with questions whose answers are marked as spans (`questions_df.csv`: question, references, corpus_id;
`<corpus_id>.md`). All chunks of all texts are one pool; a chunk's score is the cosine of the question and its best
window, as in the product; the first five count. Measures: Smith and Troynikov, Evaluating Chunking Strategies for
Retrieval (Chroma, 2024); a token that two retrieved chunks share counts twice as retrieved and once as found.
"""

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palimpsest.chunks.cut import chunk_documents
from palimpsest.chunks.packing import ChunkSizes
from palimpsest.memories.embed import load_embedder
from palimpsest.memories.windows import window_texts
from palimpsest.sources.extracted import ExtractedDocument
from palimpsest.sources.readers.read_source import read_source
from palimpsest.store.collection_config import Limits
from palimpsest.text.tokenizer import tokenizer

Span = tuple[int, int]
Chunker = Callable[[ExtractedDocument], list[Span]]

_TOP = 5


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    """A question and the spans of one text that answer it."""

    text: str
    corpus: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ChunkScore:
    """Means over the questions, as fractions; `tokens` is the mean size of a chunk."""

    name: str
    chunks: int
    tokens: float
    recall: float
    precision: float
    iou: float
    recall_per_question: tuple[float, ...]


def load_questions(folder: Path) -> tuple[list[SpanQuestion], dict[str, ExtractedDocument]]:
    """Returns the questions and the texts by corpus id."""
    with (folder / "questions_df.csv").open(encoding="utf-8", newline="") as file:
        questions = [
            SpanQuestion(
                r["question"],
                r["corpus_id"],
                tuple((x["start_index"], x["end_index"]) for x in json.loads(r["references"])),
            )
            for r in csv.DictReader(file)
        ]
    names = sorted({q.corpus for q in questions})
    return questions, {n: read_source(folder / f"{n}.md", f"{n}.md", Limits()).documents[0] for n in names}


def own_chunker(sizes: ChunkSizes) -> Chunker:
    """Returns our chunker with the given sizes."""
    return lambda d: [(c.char_start, c.char_end) for c in chunk_documents([d], "chunk", sizes=sizes)[0]]


def fixed_size_chunker(tokens: int, overlap: int) -> Chunker:
    """Returns a chunker that cuts every `tokens` tokens, whatever the text."""

    def chunk(document: ExtractedDocument) -> list[Span]:
        offsets = tokenizer().encode(document.text, add_special_tokens=False).offsets
        starts = range(0, max(len(offsets) - overlap, 1), tokens - overlap)
        return [(offsets[i][0], offsets[min(i + tokens, len(offsets)) - 1][1]) for i in starts]

    return chunk


def by_semantic_text_splitter(tokens: int, overlap: int) -> Chunker:
    """Returns the Markdown splitter of semantic-text-splitter, sizes by the embedder's tokenizer."""
    from semantic_text_splitter import MarkdownSplitter

    def chunk(document: ExtractedDocument) -> list[Span]:
        splitter = MarkdownSplitter.from_huggingface_tokenizer(tokenizer(), tokens, overlap=overlap)
        return [(at, at + len(text)) for at, text in splitter.chunk_indices(document.text)]

    return chunk


def by_langchain(tokens: int, overlap: int) -> Chunker:
    """Returns the recursive splitter of langchain-text-splitters, sizes by the embedder's tokenizer."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    def chunk(document: ExtractedDocument) -> list[Span]:
        splitter = RecursiveCharacterTextSplitter(
            chunk_size=tokens,
            chunk_overlap=overlap,
            length_function=lambda t: len(tokenizer().encode(t, add_special_tokens=False)),
            separators=["\n\n", "\n", ".", "?", "!", " ", ""],
        )
        spans, at = list[Span](), -1
        for text in splitter.split_text(document.text):  # its own start_index is wrong where sizes are in tokens
            at = document.text.index(text, at + 1)
            spans.append((at, at + len(text)))
        return spans

    return chunk


class ChunkScorer:
    """Scores chunkers on texts, their tokens and the vectors of the questions."""

    def __init__(self, questions: list[SpanQuestion], documents: dict[str, ExtractedDocument]) -> None:
        self._questions, self._documents = questions, documents
        self._starts = {
            name: np.array([a for a, _ in tokenizer().encode(d.text, add_special_tokens=False).offsets])
            for name, d in documents.items()
        }
        self._embedder = load_embedder()
        self._queries = self._embedder.encode([q.text for q in questions])

    def score(self, name: str, chunker: Chunker, top: int = _TOP) -> ChunkScore:
        """Returns the measures of one chunker; ties are broken by the order of the chunks."""
        chunks = [(n, span) for n, d in self._documents.items() for span in chunker(d)]
        texts = [self._documents[n].text[a:b] for n, (a, b) in chunks]
        windows = window_texts([""] * len(texts), texts)
        vectors = self._embedder.encode([w for ws in windows for w in ws])
        starts = np.cumsum([0, *(len(ws) for ws in windows[:-1])])
        scores = np.maximum.reduceat(self._queries @ vectors.T, starts, axis=1).round(6)
        ranges = [self._tokens(n, span) for n, span in chunks]
        measures = []
        for row, question in zip(scores, self._questions, strict=True):
            wanted = _union(self._tokens(question.corpus, s) for s in question.spans)
            found = [(chunks[i][0], ranges[i]) for i in np.argsort(-row, kind="stable")[:top]]
            hit = wanted & _union(r for n, r in found if n == question.corpus)
            retrieved = sum(b - a for _, (a, b) in found)
            measures.append(
                (
                    len(hit) / len(wanted),
                    len(hit) / max(retrieved, 1),
                    len(hit) / (len(wanted) + retrieved - len(hit)),
                )
            )
        recall, precision, iou = (float(m) for m in np.mean(measures, axis=0))
        size = float(np.mean([b - a for a, b in ranges]))
        return ChunkScore(name, len(chunks), size, recall, precision, iou, tuple(m[0] for m in measures))

    def _tokens(self, name: str, span: Span) -> Span:
        a, b = np.searchsorted(self._starts[name], span)
        return int(a), int(b)


def _union(ranges: Iterable[Span]) -> set[int]:
    return {i for a, b in ranges for i in range(a, b)}


def format_row(score: ChunkScore) -> str:
    """Returns a line of the Markdown table."""
    measures = " | ".join(f"{100 * v:.2f}" for v in (score.recall, score.precision, score.iou))
    return f"| {score.name} | {score.chunks} | {score.tokens:.0f} | {measures} |"


HEADER = "| chunker | chunks | tokens | recall | precision | IoU |\n|---|---|---|---|---|---|"


def chunkers(sizes: Iterable[ChunkSizes] = ()) -> dict[str, Chunker]:
    """Returns the chunkers of the README's table: ours by default and at other sizes, fixed ones, two libraries."""
    default = ChunkSizes()
    out = {"ours": own_chunker(default)}
    for s in sizes:
        out[f"ours {s.min_tokens}-{s.target_tokens}-{s.prose_tokens}, overlap {s.overlap:.0%}"] = own_chunker(s)
    for tokens in (400, 300, 200):
        for overlap in (0, tokens * 15 // 100):
            out[f"fixed {tokens}, overlap {overlap}"] = fixed_size_chunker(tokens, overlap)
    out["semantic-text-splitter 400, overlap 60"] = by_semantic_text_splitter(400, 60)
    out["langchain recursive 400, overlap 60"] = by_langchain(400, 60)
    return out


def main(argv: list[str] | None = None) -> int:
    """Prints a row for each chunker, ours first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", nargs="*", default=[], metavar="MIN,TARGET,PROSE,OVERLAP", help="more sizes of ours")
    parser.add_argument("--only", default="", help="only chunkers whose name begins with this")
    args = parser.parse_args(argv)
    sizes = []
    for text in args.sizes:
        low, target, high, overlap = text.split(",")
        sizes.append(
            ChunkSizes(min_tokens=int(low), target_tokens=int(target), prose_tokens=int(high), overlap=float(overlap))
        )
    scorer = ChunkScorer(*load_questions(args.folder))
    sys.stdout.write(f"{HEADER}\n")
    for name, chunker in chunkers(sizes).items():
        if name.startswith(args.only):
            started = time.perf_counter()
            sys.stdout.write(f"{format_row(scorer.score(name, chunker))}\n")
            sys.stdout.flush()
            sys.stderr.write(f"stage {name} {time.perf_counter() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
