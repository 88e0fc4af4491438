"""Versions of formed memories: those of the memories they rest on, with an end of their own."""

import polars as pl

from palimpsest.relations.versions import formed_versions
from palimpsest.store.tables import conform
from tests.memories.frames import day

END, EVENT_END = day(20), day(5)
NOTHING_ENDED = pl.DataFrame(
    schema={"newer_id": pl.String, "older_id": pl.String, "part": pl.String, "ended_at": pl.Datetime("us", "UTC")}
)


def test_a_formed_memory_that_is_latest_ends_by_itself_and_not_with_its_first_evidence():
    formed = [
        {"memory_id": name, "unit": "reflection", "valid_until": end, "chunk_ids": [chunk]}
        for name, end, chunk in (("f", END, "1"), ("g", None, "1"), ("h", day(2), "1"), ("r", None, "2"))
    ]
    stated = [{"memory_id": f"t{n}", "unit": "turn", "chunk_ids": [n]} for n in ("1", "2")]
    memories = conform("memories", pl.DataFrame([*formed, *stated], infer_schema_length=None))
    times = {"valid_from": day(3), "valid_until": EVENT_END}
    rows = [{"memory_id": "t1", "is_latest": True} | times, {"memory_id": "t2", "is_latest": False} | times]
    found = formed_versions(memories, conform("versions", pl.DataFrame(rows)), NOTHING_ENDED).sort("memory_id")
    assert found["memory_id"].to_list() == ["f", "g", "h", "r"]
    assert found["is_latest"].to_list() == [True, True, True, False]
    assert found["valid_until"].to_list() == [END, None, day(3), EVENT_END]


def test_a_formed_memory_ends_with_most_of_what_it_repeats():
    place = {"document_id": "d", "char_start": 50, "char_end": 90}
    rows = [
        {"memory_id": "t", "unit": "turn", "chunk_ids": ["1"], **place},
        {"memory_id": "u", "unit": "turn", "chunk_ids": ["2"], **place, "char_start": 90},
        {"memory_id": "n", "unit": "turn", "chunk_ids": ["3"], "document_id": "e"},
        {"memory_id": "whole", "unit": "reflection", "chunk_ids": ["1"], **place, "char_end": 65},
        {"memory_id": "quote", "unit": "reflection", "chunk_ids": ["1"], **place, "char_start": 55, "char_end": 60},
        {"memory_id": "less", "unit": "reflection", "chunk_ids": ["1"], **place},
        {"memory_id": "rest", "unit": "reflection", "chunk_ids": ["1"], **place, "char_start": 65},
        {"memory_id": "both", "unit": "reflection", "chunk_ids": ["1", "2"], **place, "char_end": 65},
    ]
    memories = conform("memories", pl.DataFrame(rows, infer_schema_length=None))
    stated = [
        {"memory_id": "t", "is_latest": True, "valid_from": day(3)},
        {"memory_id": "u", "is_latest": False, "valid_from": day(3), "valid_until": day(10), "superseded_by": "x"},
    ]
    ended = pl.DataFrame([("n", "t", "[[0, 15]]", day(8))], schema=NOTHING_ENDED.schema, orient="row")
    stated_versions = conform("versions", pl.DataFrame(stated, infer_schema_length=None))
    found = formed_versions(memories, stated_versions, ended).sort("memory_id")
    assert found.select("memory_id", "is_latest", "valid_until", "superseded_by").rows() == [
        ("both", False, day(8), "n"), ("less", True, None, None), ("quote", False, day(8), "n"),
        ("rest", True, None, None), ("whole", False, day(8), "n"),
    ]  # fmt: skip
