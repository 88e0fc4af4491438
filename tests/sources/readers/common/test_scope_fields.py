"""Whose a text is: what cannot be used as a user, project or session never becomes the collection's default."""

import json

import pytest

from palimpsest.core.errors import Rejected


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("user_id: no", "front matter: user_id false is no name; write a name in quotes"),
        ("user_id: [a, b]", r"front matter: user_id \(a list\) is no name; write one name, as text"),
        ("user_id: {a: b}", r"front matter: user_id \(a dict\) is no name"),
        ('user_id: "  "', "front matter: user_id '  ' is blank; write a name, or leave the field out"),
        ('user_id: "u\\0x"', "front matter: user_id .* contains a control character; remove it"),
        ('user_id: "u\\ud800"', "front matter: user_id .* contains a control character; remove it"),
        ("project_id: yes", "front matter: project_id true is no name"),
        ("session_id: [1]", "front matter: session_id"),
        ("user_id: ann\nuser_id: bob", "front matter: user_id is stated twice; remove one"),
        ("user_id: ann\ntags: [a", "front matter: not valid YAML: .*; it states user_id"),
        ("privacy: {pii: true\nuser_id: ann", "front matter: not valid YAML: .*; it states privacy, user_id"),
    ],
)
def test_front_matter_with_an_unusable_user_project_or_session_rejects_the_file(
    read, tmp_path, field: str, problem: str
) -> None:
    with pytest.raises(Rejected, match=problem):
        read("a.md", f"---\n{field}\n---\nWords of the note.\n")
    (tmp_path / "a.txt.meta.yaml").write_text(field)
    with pytest.raises(
        Rejected, match=problem.replace("front matter", "sidecar a.txt.meta.yaml").split("; it states")[0]
    ):
        read("a.txt", "Words of the note.\n")


def test_front_matter_without_an_end_and_a_conversation_of_an_unusable_user_are_left_out(read) -> None:
    with pytest.raises(Rejected, match="front matter: no closing line of three dashes; add it; it states user_id"):
        read("a.md", "---\nuser_id: ann\n# Notes\nWords.\n")
    messages = [{"role": "user", "content": "I live in Porto."}]
    export = [{"id": "a", "user_id": "ann", "messages": messages}, {"id": "b", "user_id": ["x"], "messages": messages}]
    found = read("chats.json", json.dumps(export))
    assert [(d.user_id, d.session_id) for d in found.documents] == [("ann", "a")]
    assert found.problems == ("conversation 2: user_id (a list) is no name; write one name, as text; it is left out",)


@pytest.mark.parametrize(
    ("field", "user", "project"),
    [
        ("user_id: null\nproject_id: ~", None, None), ("user_id: ''", None, None),
        ("user_id: 5\nproject_id: 012", "5", "012"), ("user_id: 1.10\nproject_id: 2026-01-02", "1.10", "2026-01-02"),
        ("user_id: 0x1F\nproject_id: 12:30", "0x1F", "12:30"), ("user_id: 'no'", "no", None),
        ("user_id: ' ann  b '", "ann b", None),
    ],
)  # fmt: skip
def test_a_user_and_a_project_are_text_as_written(read, field: str, user: str | None, project: str | None) -> None:
    (document,) = read("a.md", f"---\n{field}\n---\nWords of the note.\n").documents
    assert (document.user_id, document.project_id) == (user, project)


def turn(**fields: object) -> str:
    return json.dumps({"session_id": "s", "speaker": "Ana", "text": "I live in Porto."} | fields) + "\n"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user_id", ["x"]), ("user_id", False), ("user_id", " \t"), ("user_id", "u\0x"), ("user_id", float("nan")),
        ("project_id", {"a": 1}), ("session_id", {"a": 1}),
    ],
)  # fmt: skip
def test_a_turn_with_an_unusable_user_project_or_session_is_left_out(read, field: str, value: object) -> None:
    found = read("a.jsonl", turn(user_id="ann") + turn(**{"text": "Mine.", field: value}) + turn(user_id=""))
    assert [(d.user_id, d.text) for d in found.documents] == [
        ("ann", "Ana: I live in Porto."),
        (None, "Ana: I live in Porto."),
    ]
    (problem,) = found.problems
    assert problem.startswith(f"line 2: {field} ") and problem.endswith("; the turn is left out")


@pytest.mark.parametrize(("field", "value"), [("scope", ["x"]), ("scope", True), ("meta", {"session": {"a": 1}})])
def test_a_row_of_a_suite_with_an_unusable_scope_is_left_out(read, field: str, value: object) -> None:
    rows = [{"_id": "1", "text": "One.", "scope": "ann"}, {"_id": "2", "text": "Two.", field: value}]
    found = read("corpus.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    assert [d.text for d in found.documents] == ["One."]
    assert found.problems[0].startswith("line 2: _id '2': ") and found.problems[0].endswith("; the row is left out")
