import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.report.page import Note, health_limits, notes_folder, read_notes, write_note
from palimpsest_eval.runs.judge_build import judge_build


def note(**more):
    return Note(**({"title": "Health", "build_id": "000001"} | more))


def test_a_note_is_read_as_it_was_written_and_the_tighter_limit_holds(tmp_path):
    home = Home(tmp_path)
    wide = note(columns=["a", "b"], rows=[["x", 1.5], [None, 2]], limits={"retired_share": 0.5})
    write_note(home, "health", wide)
    write_note(home, "explore", note(lines=["seen"], limits={"retired_share": 0.2}))
    assert read_notes(home)[1] == wide and health_limits(home) == {"retired_share": 0.2}
    assert read_notes(Home(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("../x", {}, "lower case"),
        ("a", {"columns": ["a"], "rows": [["x", "y"]]}, "a cell for each"),
        ("a", {"limits": {"nonsense": 1}}, "nonsense"),
    ],
)
def test_a_wrong_note_is_refused(tmp_path, name, fields, message):
    with pytest.raises(PalimpsestError, match=message):
        write_note(Home(tmp_path), name, note(**fields))


@pytest.mark.parametrize("text", ["{", "[]", '{"title": "x"}', '{"title": "x", "build_id": "1", "more": 1}'])
def test_a_file_that_is_no_note_is_named(tmp_path, text):
    notes_folder(Home(tmp_path)).mkdir()
    (notes_folder(Home(tmp_path)) / "bad.json").write_text(text)
    with pytest.raises(PalimpsestError, match=r"bad\.json"):
        read_notes(Home(tmp_path))


def test_a_limit_that_a_note_sets_is_a_warning_of_the_gate(judged_home):
    path = write_note(judged_home, "health", note(limits={"retired_share": 0.01, "duplicate_share": 1.0}))
    try:
        warnings = judge_build(judged_home, published(judged_home)).collections[0].warnings
    finally:
        path.unlink()
    assert [w for w in warnings if "health" in w] == ["memory health: retired_share 0.200 is over 0.010"]
