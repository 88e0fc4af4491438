"""First golden questions, drafted from a build's memories for a person to rewrite: `palimpsest gate --init`."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.home import Home, home_option
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import content_words, fold
from palimpsest_eval.golden.questions import JUDGED_TABLES, GoldenError, GoldenSet, Question, Quote, golden_path
from palimpsest_eval.golden.resolve import resolve
from palimpsest_eval.runs.judge_build import build_to_judge

DATA = Path("data")  # of the project that is worked in, never what comes with Palimpsest
MIN_WORDS = 6  # of a sentence that a question is drafted from
_RARE_WORDS = 3  # that a question names
_QUOTE_CHARS = 200
_WORD = re.compile(r"[^\W\d_][\w'’-]*")  # noqa: RUF001


@dataclass(frozen=True)
class _Sentence:
    """A sentence of a latest memory, its source, and those of its words that fewest memories share."""

    uri: str
    user_id: str
    project_id: str
    about: str
    speaker: str | None
    quote: str
    words: tuple[str, ...]
    score: float


def draft_questions(
    tables: Mapping[str, pl.DataFrame], collection: str, default_user: str, count: int
) -> list[Question]:
    """Returns at most `count` drafts spread over the sources of a collection, the same for the same build.

    Each asks for one sentence of a latest memory by its title, heading or speaker and its rarest words, and is judged
    by that sentence.

    Args:
        tables: documents, document_texts, memories and versions of the build.
        collection: name of the collection.
        default_user: user of the questions that name none.
        count: of drafts.
    """
    drafts: list[Question] = []
    for found in _spread_over_sources(_best_sentences(tables, collection), count):
        question = Question(
            id=f"{collection}-{len(drafts) + 1:03}",
            question=_question_text(found),
            type="single",
            user=None if found.user_id == default_user else found.user_id,
            project=found.project_id or None,
            evidence=(Quote(uri=found.uri, quote=found.quote),),
            draft=True,
        )
        try:
            resolve(GoldenSet(collection, (question,), default_user), tables)
        except GoldenError:
            continue  # its words cannot be found again, so nothing could be judged by them
        drafts.append(question)
    return drafts


def write_drafts(path: Path, drafts: Sequence[Question]) -> None:
    """Writes a new golden set, one question a line.

    Raises:
        PalimpsestError: there is one already, there is nothing to write, or the file cannot be written.
    """
    if not drafts:
        raise PalimpsestError(
            f"gate --init: {path.stem} has no latest memory of {MIN_WORDS} words to ask for (one with a retention, "
            f"pii: true or user_visible: false is none); write {path} by hand"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as f:
            for q in drafts:
                f.write(json.dumps(q.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False) + "\n")
    except FileExistsError:
        raise PalimpsestError(f"gate --init: {path} already exists; edit it, or move it away first") from None
    except OSError as e:
        raise PalimpsestError(f"gate --init: {path}: {e.strerror}; run it in the project's folder") from None


def init_golden(home: Home, collection: str | None, count: int) -> dict[str, int]:
    """Drafts questions for one collection, or for each that has no golden set; returns how many by file.

    Reads the staged, else the published build and writes below ./data.

    Args:
        home: the home.
        collection: name of the collection; None means all without a golden set.
        count: of drafts for each.

    Raises:
        PalimpsestError: there is no build or no such collection, or every collection has questions.
    """
    build = build_to_judge(home)
    if collection is not None and collection not in build.collections:
        raise PalimpsestError(
            f"gate --init: no collection {collection!r}; the build has {', '.join(build.collections)}"
        )
    wanted = [collection] if collection else [c for c in build.collections if not golden_path(DATA, c).exists()]
    if not wanted:
        raise PalimpsestError(f"gate --init: {', '.join(build.collections)}: each has questions in {DATA / 'golden'}")
    tables, settings = build.tables(JUDGED_TABLES), build.manifest.settings["collections"]
    written = {}
    for name in wanted:
        drafts = draft_questions(tables, name, settings[name].get("user_id", ""), count)
        write_drafts(golden_path(DATA, name), drafts)
        written[str(golden_path(DATA, name))] = len(drafts)
    return written


def next_steps(home: Home, files: Sequence[str]) -> str:
    """Returns what to do with the drafts of a home."""
    named = home_option(home)
    return "\n".join(
        (
            f'next: 1. edit {" ".join(files)}: ask as a user would, then remove "draft" (docs/golden.md)',
            f"      2. palimpsest gate{named} shows the figures, and names the drafts that are left",
            f"      3. palimpsest baseline accept --why 'first questions'{named}",
            "      4. commit the questions and data/baselines",
            "until step 3 the gate has nothing to compare with: builds are staged, and not published",
        )
    )


def _question_text(found: _Sentence) -> str:
    *first, last = found.words
    words = f"{', '.join(first)} and {last}" if first else last
    if found.speaker:
        return f"What did {found.speaker} say about {words}?"
    return f"What does {found.about} say about {words}?"


def _best_sentences(tables: Mapping[str, pl.DataFrame], collection: str) -> list[_Sentence]:
    """Returns the most distinctive sentence of each latest memory, in the order of sources.

    A memory that a search leaves out by default, or that will expire, is no source of a question.
    """
    latest = tables["versions"].filter(pl.col("is_latest")).select("memory_id")
    documents = tables["documents"].filter(pl.col("is_current").fill_null(True))
    rows = (
        tables["memories"]
        .filter(pl.col("collection") == collection, pl.col("user_visible").fill_null(True))
        .filter(~pl.col("pii").fill_null(False), pl.col("retention_until").is_null())
        .join(latest, on="memory_id", how="semi")
        .join(documents.select("document_id", "uri", source="title"), on="document_id")
        .join(tables["document_texts"].select("document_id", document_text="text"), on="document_id")
        .sort("uri", "session_id", "char_start", "memory_id", nulls_last=True)
        .to_dicts()
    )
    frequency = Counter(w for r in rows for w in content_words(r["text"]))
    found = (_best_sentence(r, frequency, len(rows)) for r in rows)
    return [best for best in found if best is not None]


def _best_sentence(row: Mapping[str, object], frequency: Mapping[str, int], memories: int) -> _Sentence | None:
    text = str(row["document_text"])[int(str(row["char_start"])) : int(str(row["char_end"]))]
    best: _Sentence | None = None
    for start, end in memory_sentence_spans(text):
        sentence = text[start:end].strip()
        rare = _rare_words(sentence, frequency, memories)
        if len(sentence.split()) < MIN_WORDS or not rare:
            continue
        words = tuple(w for w, _ in rare)
        score = math.fsum(s for _, s in rare) / _RARE_WORDS
        if best is None or score > best.score:
            uri = f"{row['uri']}#{row['session_id']}" if row["session_id"] else str(row["uri"])
            about = row["heading"] or row["title"] or row["source"] or PurePosixPath(str(row["uri"])).stem
            speaker = str(row["speaker"]) if row["speaker"] else None
            best = _Sentence(
                uri,
                str(row["user_id"]),
                str(row["project_id"]),
                f'"{about}"',
                speaker,
                _truncate(sentence),
                words,
                score,
            )
    return best


def _rare_words(sentence: str, frequency: Mapping[str, int], memories: int) -> list[tuple[str, float]]:
    """Returns the sentence's words that fewest memories contain, with their weight, in the order of the sentence."""
    spelled = {fold(m.group()): m.group() for m in reversed(list(_WORD.finditer(sentence)))}
    weights = {
        w: math.log((1 + memories) / frequency[w]) for w in content_words(sentence) if w in frequency and w in spelled
    }
    chosen = sorted(weights, key=lambda w: (-weights[w], w))[:_RARE_WORDS]
    return [(spelled[w], weights[w]) for w in spelled if w in chosen][::-1]


def _truncate(sentence: str) -> str:
    """Returns at most the first `_QUOTE_CHARS` characters, up to the end of a word."""
    folded = " ".join(sentence.split())
    return folded if len(folded) <= _QUOTE_CHARS else folded[: _QUOTE_CHARS + 1].rsplit(" ", 1)[0]


def _spread_over_sources(sentences: Sequence[_Sentence], count: int) -> list[_Sentence]:
    """Returns `count` sentences in the order of sources: the best of as many sources as possible, then second ones."""
    by_source: dict[str, list[int]] = {}
    for i, found in enumerate(sentences):
        by_source.setdefault(found.uri, []).append(i)
    ranked = [sorted(numbers, key=lambda i: (-sentences[i].score, i)) for numbers in by_source.values()]
    chosen: list[int] = []
    for rank in range(max(map(len, ranked), default=0)):
        layer = [numbers[rank] for numbers in ranked if len(numbers) > rank]
        take = min(count - len(chosen), len(layer))
        chosen += [layer[i * len(layer) // take] for i in range(take)]
    return [sentences[i] for i in sorted(chosen)]
