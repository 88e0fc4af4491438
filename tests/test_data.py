"""The demo corpus and the golden sets: every quote exists, every question has its scope, nothing repeats."""

import html
import importlib.util
import json
import re
import zipfile
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import docx
import frontmatter
import pypdfium2
import pytest

from pipelines.config import find_collections

DATA = Path(__file__).resolve().parents[1] / "data"
CORPORA, GOLDEN, STAGED = DATA / "corpora", DATA / "golden", DATA / "staging_sources"
COLLECTIONS = ("atlas", "diary")
SETTINGS = {"collection.yaml", "document-relations.jsonl"}
USERS = {"atlas": {"team"}, "diary": {"mira", "tobias", "ines"}}
TYPES = {"single", "multi_hop", "temporal", "updated", "user_specific", "by_id", "unanswerable"}
MIN_SOURCES, MIN_QUESTIONS, MIN_PAIRS = 70, 300, 600
MIN_RELATIONS = {"UPDATE": 40, "EXTEND": 30, "DERIVE": 20}


def fold(text: str) -> str:
    return " ".join(text.split())


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def questions(collection: str) -> list[dict[str, Any]]:
    return rows(GOLDEN / f"{collection}.jsonl")


def sources(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in SETTINGS)


def pdf_pages(path: Path) -> list[str]:
    with pypdfium2.PdfDocument(path) as pdf:
        return [page.get_textpage().get_text_range() for page in pdf]


def docx_text(path: Path) -> str:
    document = docx.Document(str(path))
    cells = [" ".join(c.text for c in row.cells) for table in document.tables for row in table.rows]
    return "\n".join([*(p.text for p in document.paragraphs), *cells])


@cache
def statements(collection: str, uri: str) -> tuple[tuple[str, str, datetime | None], ...]:
    """Returns (user, folded text, time) of a source as a whole, or of each turn of a `file#session`."""
    file, _, session = uri.partition("#")
    path = CORPORA / collection / file
    (default_user,) = USERS[collection] if collection == "atlas" else ("mira",)
    if path.suffix == ".jsonl":
        turns = [t for t in rows(path) if t["session_id"] == session]
        return tuple((t["user_id"], fold(t["text"]), datetime.fromisoformat(t["timestamp"])) for t in turns)
    when: Any = None
    if path.suffix == ".pdf":
        text = "\n".join(pdf_pages(path))
        with pypdfium2.PdfDocument(path) as pdf:
            when = datetime.strptime(pdf.get_metadata_value("CreationDate")[2:16], "%Y%m%d%H%M%S")
    elif path.suffix == ".docx":
        text, when = docx_text(path), docx.Document(str(path)).core_properties.created
    else:
        text = path.read_text(encoding="utf-8")
        if text.startswith("---"):
            when = frontmatter.loads(text).get("date")
    if when is not None:
        when = datetime.fromisoformat(str(when))
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return ((default_user, fold(text), when),)


def holding(collection: str, user: str, span: dict[str, str]) -> list[datetime | None]:
    """Returns the times at which the span's source, or one of its turns, says the quote to this user."""
    return [when for who, text, when in statements(collection, span["uri"]) if who == user and span["quote"] in text]


def told(collection: str, user: str) -> list[str]:
    """Returns all texts of a scope, front matter and file names aside."""
    uris: set[str] = set()
    for path in sources(CORPORA / collection):
        uri = path.relative_to(CORPORA / collection).as_posix()
        uris |= {f"{uri}#{t['session_id']}" for t in rows(path)} if path.suffix == ".jsonl" else {uri}
    return [text for uri in sorted(uris) for who, text, _ in statements(collection, uri) if who == user]


def staged_text(path: Path) -> str:
    """Returns the words of a staged source, tags removed."""
    if path.suffix == ".epub":
        with zipfile.ZipFile(path) as book:
            raw = "\n".join(book.read(n).decode() for n in book.namelist() if n.endswith(".xhtml"))
    else:
        raw = path.read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]*>", " ", raw)) if path.suffix in {".epub", ".html", ".vtt"} else raw


def spans(question: dict[str, Any]) -> list[dict[str, str]]:
    return [*question["evidence"], *question.get("stale", [])]


def test_the_two_collections_are_well_formed_and_one_is_the_default():
    found = find_collections([CORPORA])
    assert tuple(found) == COLLECTIONS


def test_there_are_enough_sources_of_every_kind_that_is_read_today():
    kinds = Counter(p.suffix for c in COLLECTIONS for p in sources(CORPORA / c))
    assert sum(kinds.values()) >= MIN_SOURCES
    assert all(kinds[suffix] >= 2 for suffix in (".md", ".txt", ".jsonl", ".pdf", ".docx")), kinds


def test_the_staged_sources_cover_the_kinds_that_readers_do_not_support_yet():
    kinds = Counter(p.suffix for p in sources(STAGED / "atlas"))
    assert set(kinds) == {".html", ".csv", ".eml", ".vtt", ".epub"}, kinds


def test_every_turn_has_its_user_a_known_shape_and_a_time_that_never_runs_backwards():
    for collection in COLLECTIONS:
        for path in (p for p in sources(CORPORA / collection) if p.suffix == ".jsonl"):
            last: dict[str, str] = {}
            for turn in rows(path):
                assert set(turn) == {"session_id", "user_id", "speaker", "text", "timestamp"}, path
                assert turn["user_id"] in USERS[collection] and turn["text"].strip() and turn["timestamp"].endswith("Z")
                assert turn["timestamp"] > last.get(turn["session_id"], ""), (path, turn)
                last[turn["session_id"]] = turn["timestamp"]


def test_stated_relations_name_documents_that_exist():
    stated = 0
    for path in CORPORA.rglob("*.md"):
        post = frontmatter.load(str(path))
        assert post.get("title") and post.get("date"), path
        for key in ("supersedes", "requires"):
            if target := post.get(key):
                stated += 1
                assert (CORPORA / "atlas" / str(target)).is_file(), (path, target)
    for row in rows(CORPORA / "atlas" / "document-relations.jsonl"):
        stated += 1
        assert all((CORPORA / "atlas" / row[side]).is_file() for side in ("newer", "older")), row
    assert stated >= 7


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_question_has_its_fields_and_its_scope(collection: str):
    for q in questions(collection):
        assert set(q) <= {"id", "question", "type", "user", "as_of", "evidence", "stale"}, q
        assert q["id"].startswith(f"{collection}-") and q["type"] in TYPES and q["user"] in USERS[collection], q
        assert q["question"].strip().endswith("?") or q["type"] == "by_id", q
        assert (not q["evidence"]) == (q["type"] == "unanswerable"), q
        assert q["type"] != "updated" or q["stale"], q
        if "as_of" in q:
            assert q["type"] in {"temporal", "multi_hop", "by_id"} and datetime.fromisoformat(q["as_of"]), q


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_quote_is_said_in_its_source_to_the_user_who_asks(collection: str):
    for q in questions(collection):
        for span in spans(q):
            assert holding(collection, q["user"], span), (q["id"], span)
            assert not set("*`[]#\n") & set(span["quote"]), ("markup in a quote", q["id"], span)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_what_must_not_be_returned_is_older_than_what_must(collection: str):
    for q in questions(collection):
        for old in q.get("stale", []):
            newest = [w for s in q["evidence"] for w in holding(collection, q["user"], s) if w]
            then = [w for w in holding(collection, q["user"], old) if w]
            assert newest and then and min(then) < max(newest), (q["id"], old)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_question_about_a_past_day_is_answered_by_what_was_said_before_it(collection: str):
    for q in (q for q in questions(collection) if "as_of" in q):
        day = datetime.fromisoformat(q["as_of"]).replace(tzinfo=UTC)
        for span in q["evidence"]:
            assert any(w and w <= day for w in holding(collection, q["user"], span)), (q["id"], span)


def test_no_question_repeats_and_there_are_enough_of_every_type():
    asked = [q for c in COLLECTIONS for q in questions(c)]
    seen = Counter((q["id"].split("-")[0], q["user"], q.get("as_of"), fold(q["question"]).casefold()) for q in asked)
    assert not [k for k, n in seen.items() if n > 1]
    assert not [k for k, n in Counter(q["id"] for q in asked).items() if n > 1]
    assert len(asked) >= MIN_QUESTIONS
    kinds = Counter(q["type"] for q in asked)
    assert all(kinds[t] >= 15 for t in TYPES), kinds
    shared = Counter(fold(q["question"]) for q in asked if q["type"] == "user_specific")
    assert sum(n > 1 for n in shared.values()) >= 5, "the same question, another answer for another user"


def test_the_register_of_relations_quotes_its_sources_and_is_large_enough():
    register = rows(GOLDEN / "relations.jsonl")
    assert len({r["id"] for r in register}) == len(register)
    slots = {
        label: {(r["collection"], r["user"], r["fact"]) for r in register if r["label"] == label}
        for label in MIN_RELATIONS
    }
    for r in register:
        slots[r["label"]].add((r["collection"], r["user"], r["fact"]))
        newer = holding(r["collection"], r["user"], r["newer"])
        assert newer, r["newer"]
        for span in r["older"]:
            older = holding(r["collection"], r["user"], span)
            assert older, span
            if r["label"] == "UPDATE":
                assert min(w for w in older if w) < max(w for w in newer if w), r
        assert len(r["older"]) == (2 if r["label"] == "DERIVE" else 1), r
    assert all(len(slots[label]) >= n for label, n in MIN_RELATIONS.items()), {k: len(v) for k, v in slots.items()}


def test_every_pair_is_well_formed_and_none_repeats():
    pairs = rows(GOLDEN / "pairs.jsonl")
    assert len(pairs) >= MIN_PAIRS
    fields = {"id", "older", "newer", "older_date", "newer_date", "label", "group", "split", "source"}
    for p in pairs:
        assert set(p) == fields and p["label"] in {"UPDATE", "EXTEND", "DERIVE", "NONE"}, p
        assert p["split"] in {"train", "test"} and p["source"] in {"atlas", "diary", "hand"}, p
        assert datetime.fromisoformat(p["older_date"]) <= datetime.fromisoformat(p["newer_date"]), p
        assert p["label"] != "UPDATE" or p["older_date"] < p["newer_date"], p
        assert fold(p["older"]).casefold() != fold(p["newer"]).casefold(), p
    assert len({p["id"] for p in pairs}) == len(pairs)
    said = Counter(frozenset((fold(p["older"]).casefold(), fold(p["newer"]).casefold())) for p in pairs)
    assert not [k for k, n in said.items() if n > 1]
    assert all(n >= 90 for n in Counter(p["label"] for p in pairs).values())


def test_a_third_of_the_pairs_is_kept_for_testing_and_shares_no_subject_with_the_rest():
    pairs = rows(GOLDEN / "pairs.jsonl")
    groups: dict[str, set[str]] = {"train": set(), "test": set()}
    texts: dict[str, set[str]] = {"train": set(), "test": set()}
    for p in pairs:
        groups[p["split"]].add(p["group"])
        texts[p["split"]] |= {fold(p["older"]).casefold(), fold(p["newer"]).casefold()}
    assert not groups["train"] & groups["test"]
    assert not texts["train"] & texts["test"]
    assert 0.31 <= sum(p["split"] == "test" for p in pairs) / len(pairs) <= 0.37


def test_aliases_occur_in_their_scope_and_no_name_is_two_things():
    owners: dict[tuple[str, str, str], str] = {}
    for row in rows(GOLDEN / "aliases.jsonl"):
        said = fold("\n".join(told(row["collection"], row["user"])))
        for name in row["names"]:
            assert name in said, row
            assert name not in row["not"], row
            assert owners.setdefault((row["collection"], row["user"], name), row["entity"]) == row["entity"], row
    assert len(owners) >= 50


def test_the_questions_on_staged_sources_quote_them():
    asked = rows(STAGED / "questions.jsonl")
    assert len({q["id"] for q in asked}) == len(asked) >= 15
    for q in asked:
        for span in q["evidence"]:
            assert span["quote"] in fold(staged_text(STAGED / "atlas" / span["uri"])), (q["id"], span)


def test_the_made_documents_say_what_their_checked_in_texts_say(tmp_path: Path):
    spec = importlib.util.spec_from_file_location("make_documents", DATA / "make_documents.py")
    assert spec and spec.loader
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    texts = sorted(maker.TEXTS.rglob("*.md"))
    assert len(texts) >= 12
    for text in texts:
        once, again = maker.make(text, tmp_path / "a"), maker.make(text, tmp_path / "b")
        assert once.read_bytes() == again.read_bytes(), text
        kept = DATA / once.relative_to(tmp_path / "a")
        if kept.suffix == ".pdf":
            assert pdf_pages(once) == pdf_pages(kept), text
        elif kept.suffix == ".docx":
            assert docx_text(once) == docx_text(kept), text
        else:
            assert once.read_bytes() == kept.read_bytes(), text
