import pytest

from palimpsest.text.document_status import (
    ended_status_heading,
    is_status,
    may_replace,
    stated_status,
    status_in_heading,
)


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"status": "Deprecated", "document_status": "Accepted"}, "Deprecated"), ({"Status": "withdrawn"}, "withdrawn"),
        ({"document_status": "Superseded by 12"}, "Superseded by 12"), ({"deprecated": True}, "Deprecated"),
        ({"deprecated": "2024-01-01"}, "Deprecated"), ({"deprecated": False}, ""),
        ({"deprecated": "no", "status": None}, ""), ({"status": ["a"]}, ""), ({}, ""),
    ],
)  # fmt: skip
def test_front_matter_wins_over_the_text(metadata, status) -> None:
    assert stated_status(metadata) == status


@pytest.mark.parametrize("status", ["Deprecated", "*obsolete*", "Superceded by ADR-3", "REJECTED", "End of life"])
def test_a_status_that_ended_is_a_heading(status) -> None:
    heading = ended_status_heading({"status": status})
    assert heading == f"Status: {status}"
    assert status_in_heading(f"Use Skua > {heading}") == status_in_heading(heading) == status


@pytest.mark.parametrize("status", ["Accepted", "Draft", "Final", "Retirement plan", ""])
def test_any_other_status_is_none(status) -> None:
    assert ended_status_heading({"status": status}) == ""
    assert status_in_heading(f"Use Skua > Status: {status}") == status_in_heading(status) == ""


def test_what_is_in_force_replaces_and_words_for_the_state_of_a_document_are_known() -> None:
    assert [s for s in ("Draft", "Rejected", "in review", "Withdrawn") if may_replace(s)] == []
    assert all(map(may_replace, ("Accepted", "Superseded by 4", "Deprecated", "Final", "")))
    assert all(map(is_status, ("Accepted", "**Deprecated**", "superseded by x", "proposed")))
    assert not any(map(is_status, ("The lamp is red", "green", "Acceptedness", "")))
