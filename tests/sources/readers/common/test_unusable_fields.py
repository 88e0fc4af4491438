"""Fields that are stated and cannot be used are listed; none is dropped without a word."""

import pytest

from palimpsest.sources.readers.text_builder import parse_validity


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("date: 20260302", "front matter: date: 20260302 is not a date; write YYYY-MM-DD"),
        ("date: 12:30", "front matter: date: '12:30' is not a date; write YYYY-MM-DD"),
        ("date: [1]", "front matter: date: (a list) is not a date; write YYYY-MM-DD"),
        ("date: -0044-03-15", "front matter: date: '-0044-03-15' is not a date; write YYYY-MM-DD"),
        ("importance: .nan", "front matter: importance .nan is no finite number; write one, or leave the field out"),
        ("trust: .inf", "front matter: trust .inf is no finite number; write one, or leave the field out"),
        ("title: a\ntitle: b", "front matter: title is stated twice; remove one"),
        ("- a\n- b", "front matter: a list; write fields such as date: 2026-03-02 (it was read as text)"),
        (
            "valid_from: 2027-01-01\nvalid_until: 2026-01-01",
            "front matter: valid_from '2027-01-01' is after valid_until '2026-01-01'; neither is used: correct one",
        ),
    ],
)
def test_a_field_of_front_matter_that_cannot_be_used_is_listed(read, raw: str, problem: str) -> None:
    found = read("a.md", f"---\n{raw}\n---\nWords of the note.\n")
    assert found.problems == (problem,)
    assert found.documents[0].source_time is None


@pytest.mark.parametrize(
    "raw", ["published: true", "date: null", "date: unknown", "valid_from: 2026-01-01\nvalid_until: 2026-01-01"]
)
def test_what_is_usual_in_front_matter_is_no_problem(read, raw: str) -> None:
    assert read("a.md", f"---\n{raw}\n---\nWords of the note.\n").problems == ()


def test_titles_are_text_as_written_and_front_matter_validity_and_sidecars_without_sense_are_listed(
    read, tmp_path
) -> None:
    titles = [read("a.md", f"---\ntitle: {t}\n---\nWords.\n").documents[0].title for t in ("12:30:45", "no", "1.10")]
    assert titles == ["12:30:45", "no", "1.10"]
    problem = "front matter: no closing line of three dashes; add it (it was read as text)"
    assert read("a.md", "---\ntitle: Plans\n# Notes\nWords.\n").problems == (problem,)
    assert read("a.md", "---\nNote: this begins below a line.\n\nWords.\n").problems == ()
    stated, problems = parse_validity("2027-01-01", "2026-01-01")
    assert stated is None
    assert problems == ["valid_from '2027-01-01' is after valid_until '2026-01-01'; neither is used: correct one"]
    (tmp_path / "a.txt.meta.yaml").write_text("date: [1]\n")
    assert read("a.txt", "Words.").problems == ("sidecar: date: (a list) is not a date; write YYYY-MM-DD",)
