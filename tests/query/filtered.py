"""Memories whose documents have metadata, and filters with the memories that pass them: for both backends."""

import json
from pathlib import Path

import polars as pl

from palimpsest.query import Scope
from tests.query.made import at, memory, tables, write

ANA, BEN = Scope("notes", "ana"), Scope("notes", "ben")
MIA = {"speaker": "Mia"}
METADATA = {
    "m1": {"category": "academic", "stressor": True, "year": 2024, "author": {"name": "Ida"}, "due": "2026-03-01"},
    "m2": {"category": "academic", "stressor": False, "year": 2025, "labels": ["red", "blue"], "due": "2026-03-05"},
    "m3": {"category": "work", "year": 2024.5, "labels": ["red"], "type": "letter"},
    "m4": {"category": 7, "odd name": "x", "note": 'say "hi"'},
    "b1": {"zyqsecret": "academic"},
}
SCHEMA_FIELDS = {"category": ["number", "text"], "grade": ["number"], "year": ["number"]}
PASSING = [
    ('category = "academic" and stressor = true', "m1"),
    ("category = 'academic' and not stressor = true", "m2"),
    ('category != "academic"', "m3 m4"),
    ('not category = "academic"', "m3 m4 m5"),
    ("category = 7", "m4"),
    ("stressor = false or year > 2024", "m2 m3"),
    ("year >= 2024 and year < 2025", "m1 m3"),
    ("year in (2024, 2025)", "m1 m2"),
    ("year not in (2024, 2025)", "m3"),
    ("exists(stressor)", "m1 m2"),
    ("not exists(category)", "m5"),
    ('author.name = "Ida"', "m1"),
    ('labels = "red"', "m2 m3"),
    ('labels = "red" and labels = "blue"', "m2"),
    ('labels != "blue"', "m3"),
    ("due <= 2026-03-01", "m1"),
    ("due > 2026-03-01", "m2"),
    ('due = "2026-03-05"', "m2"),
    ('type = "task"', "m2"),
    ('metadata.type = "letter"', "m3"),
    ('tags = "plan" or tags = "urgent"', "m1 m2"),
    ("observed_at >= 2024-02-01 and observed_at < 2024-03-01", "m2 m3"),
    ('observed_at = "2024-02-01"', "m2 m3"),
    ("importance > 0.5", "m1"),
    ('speaker = "Mia" and (year = 2024 or year = 2025)', "m1"),
    ('`odd name` = \'x\' AND note = "say \\"hi\\""', "m4"),
    ("is_latest = true and page = 3", "m5"),
    ("grade > 3", ""),
]


def made_tables() -> dict[str, pl.DataFrame]:
    made = [
        memory("m1", "The exam is on Monday.", observed_at=at("2024-01-01"), importance=0.9, tags=["plan"]) | MIA,
        memory("m2", "The exam moved to Friday.", observed_at=at("2024-02-01"), type="task", tags=["plan", "urgent"]),
        memory("m3", "The office exam is in May.", observed_at=at("2024-02-02T07:30"), utc_offset=-480, tags=["old"]),
        memory("m4", "An exam costs seven euros.", importance=0.2) | MIA,
        memory("m5", "The exam room is red.", page=3),
        memory("b1", "The exam of Ben is secret.", user_id="ben"),
    ]  # fmt: skip
    frames = tables(made)
    names = [d.removeprefix("d-") for d in frames["documents"]["document_id"]]
    stated = [json.dumps(METADATA[i]) if i in METADATA else None for i in names]
    frames["documents"] = frames["documents"].with_columns(metadata=pl.Series(stated, dtype=pl.String))
    return frames


HEADER = {"collections": {"notes": {"fields": SCHEMA_FIELDS}}}


def write_filtered(path: Path) -> dict[str, pl.DataFrame]:
    """Writes the index of `made_tables`, with the fields of a metadata_schema."""
    write(frames := made_tables(), path, **HEADER)
    return frames
