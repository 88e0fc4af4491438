"""What dates a document: its own statement, its name, its title, the properties of its file; and what is said of it."""

import datetime as dt
import io
from pathlib import Path

import docx
import pytest

from palimpsest.sources.readers.document_head import find_name_date, find_stated_time
from palimpsest.sources.readers.read_source import read_source
from palimpsest.text.dates import parse_stated_time, written_dates

MARCH_2 = dt.date(2026, 3, 2)


def dated(tmp_path: Path, name: str, text: str | bytes, **options) -> tuple[dt.date | None, tuple[str, ...]]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read_source(path, name, **options)
    time = found.documents[0].source_time
    return time.date() if time else None, found.problems


@pytest.mark.parametrize(
    "uri",
    [
        "2026-03-02 minutes.md", "minutes_2026-03-02.md", "20260302-minutes.md", "IMG_20260302T101500.txt",
        "Minutes 2 March 2026.md", "minutes-02.03.2026.md", "minutes 2nd of March, 2026.md",
        "Protokoll 2. März 2026.md", "March 2, 2026.txt", "2026-03-02/minutes.md", "2026/03/02/minutes.md",
        "team/2026/3/2/deep/minutes.md", "2025-01-01/minutes 2026-03-02.md", "mail.eml#report 2026-03-02.pdf",
        "2026-03/march-2.md", "2026/2nd of March.md", "2026/03-02.md",
    ],
)  # fmt: skip
def test_one_full_date_in_a_name_dates_the_document(uri: str) -> None:
    assert find_name_date(uri) == (MARCH_2, [])


@pytest.mark.parametrize(
    "uri",
    [
        "2026-03/minutes.md", "2026/03/minutes.md", "minutes 2026.md", "minutes.md", "2026-13-45.md",
        "2026-03-02 to 2026-03-09.md", "order 4711202603021.md", "v1.2.2026-rc.md", "open until 2026-03-02.md",
        "2026-03-02 mail.eml#report.pdf", "1812-06-18 declaration.md",
    ],
)  # fmt: skip
def test_a_name_without_one_full_date_dates_nothing(uri: str) -> None:
    assert find_name_date(uri)[0] is None


def test_day_and_month_in_an_unclear_order_are_no_date_until_the_collection_says_which_comes_first(tmp_path) -> None:
    day, problems = dated(tmp_path, "a.md", "---\ndate: 03/02/2026\n---\nWords.")
    assert day is None and len(problems) == 1
    assert "date: '03/02/2026'" in problems[0] and "dates: day_first" in problems[0]
    assert dated(tmp_path, "a.md", "---\ndate: 03/02/2026\n---\nWords.", dates="month_first") == (MARCH_2, ())
    assert dated(tmp_path, "a.md", "---\ndate: 02/03/2026\n---\nWords.", dates="day_first") == (MARCH_2, ())
    assert dated(tmp_path, "a.md", "---\ndate: 02.03.2026\n---\nWords.") == (MARCH_2, ())
    assert dated(tmp_path, "02-03-2026.md", "Words.", dates="day_first") == (MARCH_2, ())
    day, problems = dated(tmp_path, "02-03-2026.md", "Words.")
    assert day is None and "'02-03-2026' may be two days" in problems[0]
    assert parse_stated_time("04.05.2026") == dt.datetime(2026, 5, 4, tzinfo=dt.UTC)
    assert parse_stated_time("04/05/2026", "month_first") == dt.datetime(2026, 4, 5, tzinfo=dt.UTC)
    assert parse_stated_time("13/05/2026", "month_first") == dt.datetime(2026, 5, 13, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "field",
    [
        "last_updated",
        "updated",
        "lastmod",
        "Last-Modified",
        "date",
        "published",
        "created",
        "lastUpdated",
        "last_reviewed_at",
    ],
)
def test_every_common_field_dates_a_document(field: str) -> None:
    assert find_stated_time({"title": "x", field: "2026-03-02"}) == dt.datetime(2026, 3, 2, tzinfo=dt.UTC)


def test_the_last_change_counts_more_than_the_first_day_and_an_invalid_date_is_reported(tmp_path) -> None:
    fields = {"created": "2024-01-01", "date": "2025-01-01", "last_updated": "2026-03-02"}
    assert find_stated_time(fields) == dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
    assert dated(tmp_path, "2020-01-01.md", "---\ndate: 2026-03-02\n---\n# 5 May 2021\n\nWords.")[0] == MARCH_2
    day, problems = dated(tmp_path, "a.md", "---\ndate: last Tuesday\nupdated: 2026-03-02\ncreated: TBD\n---\nWords.")
    assert day == MARCH_2 and problems == ("front matter: date: 'last Tuesday' is not a date; write YYYY-MM-DD",)


def test_a_status_dates_a_document_unless_another_one_replaced_it(tmp_path) -> None:
    text = "# Use widgets\n\n## Status\n\n*Accepted*, decided by Ana on 2026-03-02.\n\n## Context\n\nWords."
    assert dated(tmp_path, "a.md", text)[0] == MARCH_2
    replaced = text.replace("*Accepted*, decided by Ana", "Superseded by ADR 4")
    assert dated(tmp_path, "a.md", replaced)[0] is None


def test_titles_names_and_properties_date_a_document_in_their_order(tmp_path) -> None:
    assert dated(tmp_path, "a.md", "# Minutes of 2 March 2026\n\nWords.\n\n## Since 1 May 2025\n\nMore.")[0] == MARCH_2
    assert dated(tmp_path, "b.md", "---\ntitle: Minutes, 2026-03-02\n---\n# Minutes\n\nWords.")[0] == MARCH_2
    assert dated(tmp_path, "c.md", "## 2026-03-02\n\nOne.\n\n## 2026-03-05\n\nTwo.")[0] is None
    assert dated(tmp_path, "d.md", "# Offer, valid until 2 March 2026\n\nWords.")[0] is None
    assert dated(tmp_path, "e.md", "# Minutes\n\nWe met on 2 March 2026.")[0] is None
    assert dated(tmp_path, "f.md", "# Sprint 7\n**02/16/2026 - 03/02/26**\n\nWords.")[0] == MARCH_2
    assert dated(tmp_path, "g.md", "# Sprint 7\n\n## Goals\n02/16/2026 - 03/02/2026\n")[0] is None
    out = io.BytesIO()
    made = docx.Document()
    made.add_paragraph("Words.")
    made.core_properties.created = made.core_properties.modified = dt.datetime(2013, 12, 23, 23, 15)
    made.save(out)
    assert dated(tmp_path, "2026-03-02 minutes.docx", out.getvalue())[0] == MARCH_2
    assert dated(tmp_path, "minutes.docx", out.getvalue())[0] == dt.date(2013, 12, 23)
    turn = '{"session_id": "s", "speaker": "Ann", "text": "Hello there."}\n'
    assert dated(tmp_path, "call 2026-03-02.jsonl", turn)[0] == MARCH_2


def test_hostile_names_are_read_in_no_time() -> None:
    for unit in ("1-", "2026-", "May ", "1 May ", "20260302", " ", "de "):
        assert written_dates(unit * 50_000)[0] <= {MARCH_2}
