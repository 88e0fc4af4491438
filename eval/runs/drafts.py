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
from palimpsest.eval.golden.build_tables import JUDGED_TABLES
from palimpsest.eval.golden.questions import GoldenError, GoldenSet, Question, Quote, golden_path
from palimpsest.eval.golden.resolve import resolve
from palimpsest.eval.runs.judge_build import build_to_judge
from palimpsest.store.home import Home, home_option
from palimpsest.text.normalize import fold
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import content_words

DATA = Path("data")  # of the project that is worked in, never what comes with Palimpsest
LEAST_WORDS = 6  # of a sentence that a question is drafted from
_TELLING = 3
_QUOTE_CHARS = 200
_WORD = re.compile(r"[^\W\d_][\w'’-]*")  # noqa: RUF001


@dataclass(frozen=True)
class _Place:
    """A sentence of a latest memory, where it lies, and the words of it that fewest memories share."""

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
    for place in _spread(_places(tables, collection), count):
        question = Question(
            id=f"{collection}-{len(drafts) + 1:03}",
            question=_asked(place),
            type="single",
            user=None if place.user_id == default_user else place.user_id,
            project=place.project_id or None,
            evidence=(Quote(uri=place.uri, quote=place.quote),),
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
            f"gate --init: {path.stem} has no latest memory of {LEAST_WORDS} words; write {path} by hand"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as f:
            for q in drafts:
                f.write(json.dumps(q.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False) + "\n")
    except FileExistsError:
        raise PalimpsestError(f"gate --init: {path} is there already; edit it, or move it away first") from None
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
    tables, settings = build.tables(JUDGED_TABLES), build.manifest["settings"]["collections"]
    written = {}
    for name in wanted:
        drafts = draft_questions(tables, name, settings[name].get("user_id", ""), count)
        write_drafts(golden_path(DATA, name), drafts)
        written[str(golden_path(DATA, name))] = len(drafts)
    return written


def next_steps(home: Home, files: Sequence[str]) -> str:
    """Returns what to do with drafts of a home."""
    named = home_option(home)
    return "\n".join(
        (
            f'next: 1. edit {" ".join(files)}: ask as a user would, then remove "draft" (docs/golden.md)',
            f"      2. palimpsest gate{named} shows the figures, and names the drafts that are left",
            f"      3. palimpsest baseline accept --why 'first questions'{named}",
            "      4. commit the questions and data/baselines",
        )
    )


def _asked(place: _Place) -> str:
    *most, last = place.words
    words = f"{', '.join(most)} and {last}" if most else last
    if place.speaker:
        return f"What did {place.speaker} say about {words}?"
    return f"What does {place.about} say about {words}?"


def _places(tables: Mapping[str, pl.DataFrame], collection: str) -> list[_Place]:
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
        .join(tables["document_texts"].select("document_id", whole="text"), on="document_id")
        .sort("uri", "session_id", "char_start", "memory_id", nulls_last=True)
        .to_dicts()
    )
    spread = Counter(w for r in rows for w in content_words(r["text"]))
    found = (_best_sentence(r, spread, len(rows)) for r in rows)
    return [place for place in found if place is not None]


def _best_sentence(row: Mapping[str, object], spread: Mapping[str, int], memories: int) -> _Place | None:
    text = str(row["whole"])[int(str(row["char_start"])) : int(str(row["char_end"]))]
    best: _Place | None = None
    for start, end in memory_sentence_spans(text):
        sentence = text[start:end].strip()
        telling = _telling(sentence, spread, memories)
        if len(sentence.split()) < LEAST_WORDS or not telling:
            continue
        words = tuple(w for w, _ in telling)
        score = math.fsum(s for _, s in telling) / _TELLING
        if best is None or score > best.score:
            uri = f"{row['uri']}#{row['session_id']}" if row["session_id"] else str(row["uri"])
            about = row["heading"] or row["title"] or row["source"] or PurePosixPath(str(row["uri"])).stem
            speaker = str(row["speaker"]) if row["speaker"] else None
            best = _Place(
                uri,
                str(row["user_id"]),
                str(row["project_id"]),
                f'"{about}"',
                speaker,
                _clipped(sentence),
                words,
                score,
            )
    return best


def _telling(sentence: str, spread: Mapping[str, int], memories: int) -> list[tuple[str, float]]:
    """Returns the sentence's words that fewest memories hold, in the order of the sentence."""
    spelled = {fold(m.group()): m.group() for m in reversed(list(_WORD.finditer(sentence)))}
    known = {w: math.log((1 + memories) / spread[w]) for w in content_words(sentence) if w in spread and w in spelled}
    chosen = sorted(known, key=lambda w: (-known[w], w))[:_TELLING]
    return [(spelled[w], known[w]) for w in spelled if w in chosen][::-1]


def _clipped(sentence: str) -> str:
    """Returns at most the first `_QUOTE_CHARS` characters, cut at a word."""
    folded = " ".join(sentence.split())
    return folded if len(folded) <= _QUOTE_CHARS else folded[: _QUOTE_CHARS + 1].rsplit(" ", 1)[0]


def _spread(places: Sequence[_Place], count: int) -> list[_Place]:
    """Returns `count` places in the order of sources: the best of as many sources as can be, then the second best."""
    by_source: dict[str, list[int]] = {}
    for i, place in enumerate(places):
        by_source.setdefault(place.uri, []).append(i)
    ranked = [sorted(own, key=lambda i: (-places[i].score, i)) for own in by_source.values()]
    chosen: list[int] = []
    for rank in range(max(map(len, ranked), default=0)):
        layer = [own[rank] for own in ranked if len(own) > rank]
        take = min(count - len(chosen), len(layer))
        chosen += [layer[i * len(layer) // take] for i in range(take)]
    return [places[i] for i in sorted(chosen)]
