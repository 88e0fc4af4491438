import datetime as dt
import itertools
import json

import polars as pl
import pytest

from palimpsest.memories.form import form_memories
from palimpsest.memories.text_batches import window_texts
from palimpsest.store.tables import SCHEMAS
from tests.memories.frames import chunk, chunks, config, day, document, documents


def form(docs, rows, unit="chunk", previous=None, **more):
    return form_memories(documents(*docs), chunks(*rows), config(unit, **more), previous)


def test_a_turn_is_embedded_with_its_speaker_and_searched_with_its_date():
    doc = document("chat.jsonl", session_id="s1", title="chat", source_time=day(0))
    time = dt.datetime(2023, 5, 8, 13, 56, tzinfo=dt.UTC)
    memories, inputs = form([doc], [chunk(doc, "I moved.", speaker="Ana", said_at=time)], "turn")
    row = memories.row(0, named=True)
    assert inputs["text"].to_list() == ["Ana: I moved."]
    assert inputs["kind"].to_list() == ["memory"]
    assert "8 May 2023 2023-05-08" in row["search_text"] and "Ana" in row["search_text"]
    assert "2023" not in inputs["text"][0]
    assert row["observed_at"] == time and row["type"] == "episodic"


def test_a_passage_is_embedded_under_title_and_heading_and_a_long_one_only_in_windows():
    doc = document("guide.md", title="Guide", source_time=day(3))
    rows = [
        chunk(doc, "Lock it.", 0, heading="Doors"),
        chunk(doc, "Two tons.", 1, heading="Guide > Lift"),
        chunk(doc, "# Guide\nWelcome.", 2),
        chunk(doc, "No heading here.", 3),
    ]
    memories, inputs = form([doc], rows)
    shown = dict(zip(memories["text"], inputs["text"], strict=True))
    assert shown["Lock it."] == "Guide > Doors. Lock it."
    assert shown["Two tons."] == "Guide > Lift. Two tons."
    assert shown["# Guide\nWelcome."] == "# Guide\nWelcome."
    assert shown["No heading here."] == "Guide. No heading here."
    assert set(memories["type"]) == {"document"} and set(memories["observed_at"]) == {day(3)}
    doc = document("a.md", title="")
    rows = [chunk(doc, "short"), chunk(doc, "long " * 400, 1, token_count=400)]
    _, inputs = form([doc], rows)
    kinds = inputs.group_by("memory_id").agg(pl.col("kind").unique(), pl.len()).sort("len")
    assert kinds["kind"].to_list() == [["memory"], ["window"]]
    assert kinds["len"].to_list() == [1, 2]


def test_what_is_undated_stays_undated_and_a_text_in_two_versions_is_one_memory():
    old = document("a.md", seq=1, current=False, source_time=day(0))
    new = document("a.md", seq=2, source_time=day(9))
    memories, _ = form([old, new], [chunk(old, "Same."), chunk(new, "Same."), chunk(old, "Gone.", 1)])
    assert memories.height == 2
    document_of = dict(memories.select("text", "document_id").iter_rows())
    assert document_of == {"Same.": new["document_id"], "Gone.": old["document_id"]}
    doc = document("a.md")
    memories, _ = form([doc], [chunk(doc, "Text.")], retention_days=30)
    assert memories["observed_at"].to_list() == [None] and memories["retention_until"].to_list() == [None]
    assert memories["search_text"].to_list() == ["a.md\nText."]


def test_metadata_gives_tags_and_valid_times_and_retention_counts_from_the_observation():
    metadata = json.dumps({"tags": ["b", "a", "a"], "valid_from": "2026-02-01", "valid_until": "not a date"})
    doc = document("a.md", source_time=day(0), metadata=metadata)
    row = form([doc], [chunk(doc, "Text.")], retention_days=30)[0].row(0, named=True)
    assert row["tags"] == ["a", "b"]
    assert row["valid_from"] == day(31) and row["valid_until"] is None
    assert row["retention_until"] == day(30)
    assert (row["importance"], row["confidence"], row["provenance"]) == (0.5, 1.0, "a.md")


@pytest.mark.parametrize(
    ("stated", "end"),
    [
        ("2026-02-28", "2026-03-01T00:00Z"), ("28 February 2026", "2026-03-01T00:00Z"),
        ("2026-02", "2026-03-01T00:00Z"), ("February 2026", "2026-03-01T00:00Z"), (2026, "2027-01-01T00:00Z"),
        ("2026", "2027-01-01T00:00Z"), ("2026-02-28T00:00:00", "2026-02-28T00:00Z"),
        ("2026-02-28T23:30:00-02:00", "2026-03-01T01:30Z"), ("03/04/2026", None), ("5", None), ("soon", None),
        (None, None), (True, None), (["2026"], None),
    ],
)  # fmt: skip
def test_a_stated_end_is_included_whole_and_what_could_mean_two_days_is_none(stated, end):
    doc = document("a.md", source_time=day(0), metadata=json.dumps({"valid_until": stated}))
    found = form([doc], [chunk(doc, "Text.")])[0]["valid_until"].to_list()
    assert found == [None if end is None else dt.datetime.fromisoformat(end)]


def test_windows_cover_the_whole_text_and_fit_the_embedder_whatever_their_heading():
    from tokenizers import Tokenizer

    from palimpsest_eval.training.weights import model_folder

    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    text = " ".join(f"word{i} überraschend" for i in range(300))
    (windows,) = window_texts(["Title > Heading. "], [text])
    assert len(windows) > 2
    assert all(w.startswith("Title > Heading. ") for w in windows)
    assert all(len(tokenizer.encode(w).ids) <= 250 for w in windows)
    bodies = [w.removeprefix("Title > Heading. ") for w in windows]
    assert text.startswith(bodies[0]) and text.endswith(bodies[-1])
    for a, b in itertools.pairwise(bodies):
        assert text.index(b) < text.index(a) + len(a), "windows overlap"
    (windows,) = window_texts(["many words " * 200 + ". "], ["body " * 400])
    assert sum(w.count("body") for w in windows) >= 400


def test_forming_again_from_an_earlier_build_equals_forming_from_scratch():
    old = document("a.md", source_time=day(0))
    rows = [chunk(old, "One."), chunk(old, "long " * 400, 1, token_count=400)]
    earlier = form([old], rows)
    new = old | {"title": "Renamed"}
    again = [*rows, chunk(new, "Two.", 2)]
    incremental, scratch = form([new], again, previous=earlier), form([new], again)
    for a, b in zip(incremental, scratch, strict=True):
        assert a.equals(b)
    assert incremental[0].schema == pl.Schema(SCHEMAS["memories"])


def test_row_order_changes_nothing_and_no_chunks_form_no_memories():
    doc, other = document("a.md"), document("b.md")
    rows = [chunk(doc, "One."), chunk(doc, "Two.", 1), chunk(other, "One.")]
    a, b = form([doc, other], rows), form([other, doc], rows[::-1])
    assert a[0].equals(b[0]) and a[1].equals(b[1]) and a[0]["memory_id"].n_unique() == 3
    memories, inputs = form([document("a.md")], [chunk(document("a.md"), "x")])
    empty = form_memories(documents(document("a.md")), chunks(chunk(document("a.md"), "x")).clear(), config())
    assert empty[0].schema == memories.schema and empty[1].schema == inputs.schema and empty[0].is_empty()


def test_the_day_of_a_memory_is_that_of_the_clock_that_stated_it() -> None:
    said = dt.datetime(2026, 3, 2, 7, 30, tzinfo=dt.UTC)
    doc = document("a.md", source_time=said, utc_offset=120)
    rows = [chunk(doc, "West.", 0, said_at=said, utc_offset=-480), chunk(doc, "UTC.", 1, said_at=said)]
    memories = form([doc], [*rows, chunk(doc, "Of the document.", 2)])[0].sort("ordinal")
    assert memories["utc_offset"].to_list() == [-480, None, 120] and set(memories["observed_at"]) == {said}
    days = [text.rsplit(" ", 1)[-1] for text in memories["search_text"]]
    assert days == ["2026-03-01", "2026-03-02", "2026-03-02"]
