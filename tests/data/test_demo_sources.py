"""The demo corpus: every kind of source is there and is read in full."""

import importlib.util
from collections import Counter, defaultdict
from pathlib import Path

import frontmatter

from palimpsest.sources.extracted import CONVERSATION
from palimpsest.sources.readers.read_source import read_source
from palimpsest.store.collection_config import find_collections, load_collection
from tests.data.demo_corpus import (
    COLLECTIONS,
    CORPORA,
    DATA,
    USERS,
    documents,
    owner,
    read,
    rows,
    utterances,
    words,
)

MIN_SOURCES, MAX_SOURCES = 200, 330
OOXML = "application/vnd.openxmlformats-officedocument"
MEDIA_TYPES = {
    ".md": "text/markdown", ".txt": "text/plain", ".html": "text/html", ".csv": "text/csv", ".vtt": "text/vtt",
    ".eml": "message/rfc822", ".pdf": "application/pdf", ".epub": "application/epub+zip",
    ".docx": f"{OOXML}.wordprocessingml.document", ".pptx": f"{OOXML}.presentationml.presentation",
    ".xlsx": f"{OOXML}.spreadsheetml.sheet", ".json": CONVERSATION, ".jsonl": CONVERSATION,
}  # fmt: skip
MIN_KINDS = {
    **dict.fromkeys((".md", ".txt", ".pdf", ".docx", ".pptx", ".xlsx", ".html", ".csv", ".eml", ".vtt"), 2),
    **{".jsonl": 2, ".json": 1, ".epub": 1},
}
MONTHS = {f"2026-{month:02}" for month in range(1, 7)}


def test_collections_and_sources_are_read_in_full_as_the_kind_that_their_suffix_names():
    assert tuple(find_collections([CORPORA])) == COLLECTIONS
    assert [load_collection(CORPORA / c).default for c in COLLECTIONS] == [True, False, False, False]
    for collection in COLLECTIONS:
        for suffix, found, problems in read(collection):
            assert not problems, (found[0].uri, problems)
            assert found[0].media_type == MEDIA_TYPES[suffix], found[0].uri
            assert all(len(words(d.text)) >= 12 for d in found), found[0].uri


def test_there_are_enough_sources_of_every_kind_that_can_be_read():
    kinds = Counter(suffix for c in COLLECTIONS for suffix, _, _ in read(c))
    assert MIN_SOURCES <= sum(kinds.values()) <= MAX_SOURCES
    assert all(kinds[suffix] >= n for suffix, n in MIN_KINDS.items()), kinds
    attached = [d.uri for d in documents("atlas").values() if "attached_to" in d.metadata]
    assert attached == ["mails/quernby-complaint.eml#dip-readings.csv"]


def test_every_user_has_a_memory_in_six_months_and_every_turn_a_speaker_and_a_time_that_never_runs_backwards():
    months: dict[tuple[str, str], set[str]] = defaultdict(set)
    for collection in COLLECTIONS:
        for document in documents(collection).values():
            months[collection, owner(collection, document)] |= {f"{w:%Y-%m}" for _, w in utterances(document) if w}
    assert set(months) == {(c, u) for c in COLLECTIONS for u in USERS[c]}
    assert all(m == MONTHS for m in months.values()), months
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
