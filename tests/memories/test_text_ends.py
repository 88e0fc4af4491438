"""Memories end when their text says so, unless a field does; formed ones when all that they rest on has."""

import datetime as dt
import json

import polars as pl
import pytest

from palimpsest.memories.form import form_memories, text_ends
from palimpsest.store.tables import conform
from tests.memories.frames import chunk, chunks, config, document, documents

SAID = dt.datetime(2026, 6, 29, 9, tzinfo=dt.UTC)
AFTER_8_JULY = dt.datetime(2026, 7, 9, tzinfo=dt.UTC)
AWAY = "I am away until 8 July."


def ends_of(text: str = AWAY, unit: str = "turn", metadata: dict | None = None, **more) -> list[dt.datetime | None]:
    doc = document("a.jsonl", session_id="s", metadata=json.dumps(metadata or {}))
    rows = [chunk(doc, text, **({"said_at": SAID} | more))]
    return form_memories(documents(doc), chunks(*rows), config(unit))[0]["valid_until"].to_list()


@pytest.mark.parametrize("unit", ["turn", "statement", "chunk"])
def test_a_memory_of_each_unit_ends_after_the_day_that_its_text_names(unit):
    assert ends_of(unit=unit) == [AFTER_8_JULY]
    assert ends_of("I live in Ghent and I am away until 8 July.", unit) == [None]


@pytest.mark.parametrize(("hours", "end"), [(2, 8), (-8, 9)])
def test_a_day_ends_at_midnight_of_the_speakers_clock(hours, end):
    midnight = dt.datetime(2026, 7, end, -hours % 24, tzinfo=dt.UTC)
    assert ends_of(utc_offset=hours * 60) == [midnight]


def test_what_holds_today_ends_after_it_was_said_where_utc_has_the_next_day():
    said = dt.datetime(2026, 3, 2, 7, 30, tzinfo=dt.UTC)  # 23:30 on 1 March
    ends = ends_of("I am at the office today.", said_at=said, utc_offset=-480)
    assert ends == [dt.datetime(2026, 3, 2, 8, tzinfo=dt.UTC)]


def test_a_field_wins_and_a_text_states_no_end_without_a_day_or_before_its_beginning():
    assert ends_of(metadata={"valid_until": "2026-07-20"}) == [dt.datetime(2026, 7, 21, tzinfo=dt.UTC)]
    stated = json.dumps({"valid_until": "2026-08-01T00:00:00+00:00"})
    assert ends_of(stated=stated) == [dt.datetime(2026, 8, 1, tzinfo=dt.UTC)]
    assert ends_of(said_at=None) == [None]
    assert ends_of(metadata={"valid_from": "2026-07-09"}) == [None]
    assert ends_of(metadata={"valid_from": "2026-07-01"}) == [AFTER_8_JULY]


def rows_of(*said: tuple[str, str, dt.datetime | None]) -> pl.DataFrame:
    columns = ("memory_id", "text", "observed_at")
    return conform("memories", pl.DataFrame([dict(zip(columns, row, strict=True)) for row in said]))


def test_the_ends_of_a_build_are_the_same_with_and_without_an_earlier_one():
    earlier = rows_of(("a", AWAY, SAID), ("b", "I live in Ghent.", SAID), ("c", AWAY, None))
    earlier = earlier.with_columns(text_ends(earlier))
    # Of c the day became known; b is as it was; d is new.
    now = rows_of(("a", AWAY, SAID), ("b", "I live in Ghent.", SAID), ("c", AWAY, SAID), ("d", AWAY, SAID))
    assert text_ends(now, earlier).to_list() == text_ends(now).to_list() == [AFTER_8_JULY, None, *[AFTER_8_JULY] * 2]
