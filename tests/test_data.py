"""The demo corpus and the golden sets: every kind is there, every quote exists, nothing repeats.

Sources are read as a build reads them, and what can be counted is counted from the register of relations.
"""

import importlib.util
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import frontmatter
import pytest

from palimpsest.sources.ingest import source_files
from palimpsest.sources.readers.read_source import media_types, read_source
from palimpsest.sources.records.extracted import CONVERSATION, ExtractedDocument
from palimpsest.store.collection_config import find_collections, load_collection

DATA = Path(__file__).resolve().parents[1] / "data"
CORPORA, GOLDEN = DATA / "corpora", DATA / "golden"
COLLECTIONS = ("atlas", "diary", "lexicon")
USERS = {"atlas": {"team"}, "diary": {"mira", "tobias", "ines"}, "lexicon": {"readers"}}
MONTHS = {f"2026-{month:02}" for month in range(1, 7)}
TYPES = {"single", "multi_hop", "temporal", "updated", "user_specific", "by_id", "unanswerable"}
MIN_SOURCES, MAX_SOURCES, MIN_QUESTIONS, MIN_PAIRS = 200, 290, 500, 600
MIN_KINDS = {
    **dict.fromkeys((".md", ".txt", ".pdf", ".docx", ".pptx", ".xlsx", ".html", ".csv", ".eml", ".vtt"), 2),
    **{".jsonl": 2, ".json": 1, ".epub": 1},
}
MIN_RELATIONS = {"UPDATE": 40, "EXTEND": 30, "DERIVE": 20}
MIN_REGISTERED = {"back": 3, "late": 2, "specific": 10, "near_duplicate": 6, "multi_valued": 6, "homonym": 3}


def fold(text: str) -> str:
    """Returns the words with one space between them, the borders of table cells left out."""
    return " ".join(word for word in text.split() if word != "|")


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.casefold()))


def overlap(one: set[str], two: set[str]) -> float:
    return len(one & two) / len(one | two)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def questions(collection: str) -> list[dict[str, Any]]:
    return rows(GOLDEN / f"{collection}.jsonl")


def spans(question: dict[str, Any]) -> list[dict[str, str]]:
    return [*question["evidence"], *question.get("stale", [])]


def sources(collection: str) -> list[tuple[str, Path]]:
    return list(source_files(CORPORA / collection, load_collection(CORPORA / collection)))


@cache
def read(collection: str) -> tuple[tuple[str, tuple[ExtractedDocument, ...], tuple[str, ...]], ...]:
    """Returns (suffix, documents, problems) of every source of a collection."""
    read = ((path.suffix, read_source(path, uri)) for uri, path in sources(collection))
    return tuple((suffix, extraction.documents, extraction.problems) for suffix, extraction in read)


@cache
def documents(collection: str) -> dict[str, ExtractedDocument]:
    """Returns the documents of a collection by uri, or `uri#session`."""
    found = [d for _, documents, _ in read(collection) for d in documents]
    return {f"{d.uri}#{d.session_id}" if d.session_id else d.uri: d for d in found}


@cache
def default_user(collection: str) -> str:
    return load_collection(CORPORA / collection).user_id


def owner(collection: str, document: ExtractedDocument) -> str:
    return document.user_id or default_user(collection)


@cache
def texts(collection: str, user: str) -> tuple[str, ...]:
    return tuple(fold(d.text) for d in documents(collection).values() if owner(collection, d) == user)


def said(document: ExtractedDocument) -> Iterator[tuple[str, datetime | None]]:
    """Yields (folded text, time) of each turn, or of a document that has none as a whole."""
    if document.media_type != CONVERSATION:
        yield fold(document.text), document.source_time
        return
    for s in document.segments:
        yield fold(document.text[s.char_start : s.char_end]), s.said_at


def holding(collection: str, user: str, span: dict[str, str]) -> list[datetime | None]:
    """Returns the times at which the span's document, or one of its turns, says the quote to this user."""
    document = documents(collection).get(span["uri"])
    if document is None or owner(collection, document) != user:
        return []
    return [when for text, when in said(document) if fold(span["quote"]) in text]


def test_the_three_collections_are_well_formed_and_one_is_the_default():
    assert tuple(find_collections([CORPORA])) == COLLECTIONS
    assert [load_collection(CORPORA / c).default for c in COLLECTIONS] == [True, False, False]


def test_every_source_is_read_in_full_as_the_kind_that_its_suffix_names():
    for collection in COLLECTIONS:
        for suffix, found, problems in read(collection):
            assert not problems, (found[0].uri, problems)
            expected = CONVERSATION if suffix in {".json", ".jsonl"} else media_types()[suffix]
            assert found[0].media_type == expected, found[0].uri
            assert all(len(words(d.text)) >= 12 for d in found), found[0].uri


def test_there_are_enough_sources_of_every_kind_that_can_be_read():
    kinds = Counter(suffix for c in COLLECTIONS for suffix, _, _ in read(c))
    assert MIN_SOURCES <= sum(kinds.values()) <= MAX_SOURCES
    assert all(kinds[suffix] >= n for suffix, n in MIN_KINDS.items()), kinds
    attached = [d.uri for d in documents("atlas").values() if "attached_to" in d.metadata]
    assert attached == ["mails/quernby-complaint.eml#dip-readings.csv"]


def test_every_user_has_told_something_in_each_of_six_months():
    months: dict[tuple[str, str], set[str]] = defaultdict(set)
    for collection in COLLECTIONS:
        for document in documents(collection).values():
            months[collection, owner(collection, document)] |= {f"{w:%Y-%m}" for _, w in said(document) if w}
    assert set(months) == {(c, u) for c in COLLECTIONS for u in USERS[c]}
    assert all(m == MONTHS for m in months.values()), months


def test_every_turn_has_its_user_a_speaker_and_a_time_that_never_runs_backwards():
    for collection in COLLECTIONS:
        for document in documents(collection).values():
            if document.media_type == CONVERSATION:
                assert owner(collection, document) in USERS[collection], document.uri
                assert all(s.speaker for s in document.segments), document.uri
                times = [s.said_at for s in document.segments if s.said_at]
                assert len(times) == len(document.segments) and times == sorted(times), document.uri


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
        assert q["type"] != "multi_hop" or len(q["evidence"]) > 1, q
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


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_no_answer_is_a_fact_that_had_changed_by_the_day_of_the_question(collection: str):
    changes = [r for r in register() if r["label"] == "UPDATE" and r["collection"] == collection]
    for q in questions(collection):
        day = datetime.fromisoformat(q.get("as_of", "2026-12-31")).replace(tzinfo=UTC)
        for span, r in ((s, r) for s in q["evidence"] for r in changes if r["user"] == q["user"]):
            (old,) = r["older"]
            if old["uri"] == span["uri"] and (old["quote"] in span["quote"] or span["quote"] in old["quote"]):
                changed = min(w for w in holding(collection, q["user"], r["newer"]) if w)
                assert changed > day, (q["id"], r["id"])


def test_no_question_repeats_and_there_are_enough_of_every_type():
    asked = [q for c in COLLECTIONS for q in questions(c)]
    seen = Counter((q["id"].split("-")[0], q["user"], q.get("as_of"), fold(q["question"]).casefold()) for q in asked)
    assert not [k for k, n in seen.items() if n > 1]
    assert not [k for k, n in Counter(q["id"] for q in asked).items() if n > 1]
    assert len(asked) >= MIN_QUESTIONS
    kinds = Counter(q["type"] for q in asked)
    assert all(kinds[t] >= 15 for t in TYPES), kinds


def test_the_pages_of_the_lexicon_have_titles_of_their_own_and_its_questions_need_one_to_four_of_them():
    pages = documents("lexicon")
    assert len({d.title for d in pages.values()}) == len(pages) >= 130
    assert all(70 <= len(d.text.split()) <= 160 for d in pages.values())
    needed = {"single": 1, "bridge": 2, "compare": 2, "three": 3, "four": 4, "none": 0}
    for q in questions("lexicon"):
        assert len({s["uri"] for s in q["evidence"]}) == len(q["evidence"]) == needed[q["id"].split("-")[1]], q
    kinds = Counter(q["id"].split("-")[1] for q in questions("lexicon"))
    assert kinds == {"single": 40, "bridge": 45, "compare": 20, "three": 25, "four": 10, "none": 10}


def test_the_same_question_has_other_answers_for_other_users():
    answers: dict[str, dict[str, str]] = defaultdict(dict)
    for q in (q for q in questions("diary") if q["evidence"] and "as_of" not in q):
        answers[fold(q["question"]).casefold()][q["user"]] = json.dumps(q["evidence"])
    shared = [by for by in answers.values() if len(by) > 1]
    assert len(shared) >= 8 and all(len(set(by.values())) == len(by) for by in shared)


@cache
def register() -> tuple[dict[str, Any], ...]:
    return tuple(rows(GOLDEN / "relations.jsonl"))


def test_the_register_of_relations_quotes_its_sources():
    assert len({r["id"] for r in register()}) == len(register())
    for r in register():
        assert set(r) - {"kind"} == {"id", "collection", "user", "label", "fact", "newer", "older"}, r
        assert r.get("kind") is None or r["kind"] in MIN_REGISTERED, r
        newer = holding(r["collection"], r["user"], r["newer"])
        assert newer, r["newer"]
        for span in r["older"]:
            older = holding(r["collection"], r["user"], span)
            assert older, span
            if r["label"] == "UPDATE":
                assert min(w for w in older if w) < max(w for w in newer if w), r
        assert len(r["older"]) == (2 if r["label"] == "DERIVE" else 1), r


def test_enough_facts_change_are_extended_and_derived_and_some_change_twice_or_back():
    facts: dict[str, dict[tuple[str, str, str], set[str]]] = {label: defaultdict(set) for label in MIN_RELATIONS}
    for r in (r for r in register() if r["label"] in MIN_RELATIONS):
        facts[r["label"]][r["collection"], r["user"], r["fact"]].add(r["newer"]["quote"])
    assert all(len(facts[label]) >= n for label, n in MIN_RELATIONS.items()), {k: len(v) for k, v in facts.items()}
    assert sum(len(quotes) > 1 for quotes in facts["UPDATE"].values()) >= 6
    for r in (r for r in register() if r.get("kind") == "back"):
        assert r["older"][0]["quote"] in facts["UPDATE"][r["collection"], r["user"], r["fact"]], r


def test_the_register_holds_enough_of_what_must_not_be_taken_for_a_change():
    kinds = Counter(r["kind"] for r in register() if "kind" in r)
    assert all(kinds[kind] >= n for kind, n in MIN_REGISTERED.items()), kinds
    labels = {"back": "UPDATE", "late": "UPDATE", "specific": "EXTEND"}
    for r in (r for r in register() if "kind" in r):
        assert r["label"] == labels.get(r["kind"], "NONE"), r
        (older,) = r["older"]
        if r["kind"] == "late":  # what replaced it had long been said when it was received
            received = datetime.fromisoformat(str(documents(r["collection"])[older["uri"]].metadata["received"]))
            assert max(w for w in holding(r["collection"], r["user"], r["newer"]) if w) < received.replace(tzinfo=UTC)
        elif r["kind"] == "near_duplicate":
            assert overlap(words(r["newer"]["quote"]), words(older["quote"])) >= 0.3, r
            assert r["newer"]["uri"] != older["uri"], r


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
    assert all(n >= 120 for n in Counter(p["label"] for p in pairs).values())


def test_a_third_of_the_pairs_is_kept_for_testing_and_shares_no_subject_with_the_rest():
    pairs = rows(GOLDEN / "pairs.jsonl")
    groups: dict[str, set[str]] = {"train": set(), "test": set()}
    texts: dict[str, set[str]] = {"train": set(), "test": set()}
    for p in pairs:
        groups[p["split"]].add(p["group"])
        texts[p["split"]] |= {fold(p["older"]).casefold(), fold(p["newer"]).casefold()}
    assert not groups["train"] & groups["test"]
    bags = {split: [words(t) for t in sorted(texts[split])] for split in texts}
    assert not [(a, b) for a in bags["train"] for b in bags["test"] if overlap(a, b) >= 0.7]
    assert 0.31 <= sum(p["split"] == "test" for p in pairs) / len(pairs) <= 0.37


def test_aliases_occur_in_their_scope_and_no_name_is_two_things():
    owners: dict[tuple[str, str, str], str] = {}
    entities = rows(GOLDEN / "aliases.jsonl")
    for row in entities:
        collection, user = row["collection"], row["user"]
        told = texts(collection, user)
        for name in (*row["names"], *row["not"]):
            assert any(name in text for text in told), (name, row)
        for name in row["names"]:
            assert name not in row["not"], row
            assert owners.setdefault((collection, user, name), row["entity"]) == row["entity"], row
    assert len(owners) >= 80 and sum(len(row["names"]) > 1 for row in entities) >= 20
    scopes = defaultdict(set)
    for (collection, user, name), entity in owners.items():
        scopes[name].add((collection, user, entity))
    assert {"Jelena", "Dr. Hallam"} <= {name for name, things in scopes.items() if len(things) > 1}
    alike = [(a, b) for row in entities for a in row["names"] for b in row["not"] if words(a) & words(b)]
    assert len(alike) >= 10, "names that share a word and must not be merged"


def test_the_made_documents_say_what_their_checked_in_texts_say(tmp_path: Path):
    spec = importlib.util.spec_from_file_location("make_documents", DATA / "make_documents.py")
    assert spec and spec.loader
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    texts = sorted(maker.TEXTS.rglob("*.md"))
    for text in texts:
        once, again = maker.make(text, tmp_path / "a"), maker.make(text, tmp_path / "b")
        assert once.read_bytes() == again.read_bytes(), text
        (made,), (kept,) = (read_source(p, "x").documents for p in (once, DATA / once.relative_to(tmp_path / "a")))
        assert made == kept and made.source_time, text
        assert f"{made.source_time:%Y-%m-%d}" == str(frontmatter.load(str(text))["date"]), text
    made_kinds = Counter(Path(str(frontmatter.load(str(text))["output"])).suffix for text in texts)
    assert all(made_kinds[suffix] >= n for suffix, n in {".pdf": 6, ".docx": 4, ".pptx": 3, ".xlsx": 3}.items())
