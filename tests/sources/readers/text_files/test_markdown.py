from datetime import UTC, datetime

from palimpsest.sources.extracted import StatedRelation
from palimpsest.sources.readers.text_files import markdown_segments

PAGE = """# Leave policy

Everyone has 25 days.

## Carry over

Five days carry over, see [the form](form.md).

| year | days |
|------|------|
| 2024 | 25   |

```python
# not a heading
days = 25
```

## **Sick** leave

- call in
- rest
"""


def test_blocks_have_their_heading_path_and_exact_span_and_the_first_heading_is_the_title(read) -> None:
    segments = markdown_segments(PAGE)
    assert [(s.kind, s.heading, PAGE[s.char_start : s.char_end].split("\n")[0]) for s in segments] == [
        ("heading", "Leave policy", "# Leave policy"),
        ("prose", "Leave policy", "Everyone has 25 days."),
        ("heading", "Leave policy > Carry over", "## Carry over"),
        ("prose", "Leave policy > Carry over", "Five days carry over, see [the form](form.md)."),
        ("table", "Leave policy > Carry over", "| year | days |"),
        ("code", "Leave policy > Carry over", "```python"),
        ("heading", "Leave policy > Sick leave", "## **Sick** leave"),
        ("prose", "Leave policy > Sick leave", "- call in"),
    ]
    text = "One [a].\n\n[a]: https://example.org/a\n\nTwo.\n"
    assert [text[s.char_start : s.char_end] for s in markdown_segments(text)] == [
        "One [a].",
        "[a]: https://example.org/a",
        "Two.",
    ]
    text = "Top\n===\n\n### deep\n\nx\n\n## next\n\ny\n"
    assert [s.heading for s in markdown_segments(text) if s.kind == "prose"] == ["Top > deep", "Top > next"]
    assert read("a.md", "intro\n\n# Real title\n").documents[0].title == "Real title"
    assert read("leave-policy_2024.md", "just text").documents[0].title == "leave policy 2024"


def test_front_matter_gives_title_scope_dates_and_relations(read) -> None:
    front = (
        "title: Travel rules\nuser_id: ana\nproject_id: p1\ncreated: 2024-01-05\nupdated: 2024-03-01\ntags: [a, b]\n"
        "supersedes: old/travel.md\nreplaces: [./draft.md, '../archive/x.md']\nrequires:\n  - hr/leave.md\n"
    )
    (document,) = read("rules/travel.md", f"---\n{front}---\n\n# Other\n\nBody.\n").documents
    assert document.title == "Travel rules"
    assert (document.user_id, document.project_id) == ("ana", "p1")
    assert document.source_time == datetime(2024, 3, 1, tzinfo=UTC)
    assert document.metadata["tags"] == ["a", "b"] and document.metadata["created"] == "2024-01-05"
    assert document.relations == (
        StatedRelation("archive/x.md", "UPDATE"),
        StatedRelation("hr/leave.md", "EXTEND"),
        StatedRelation("old/travel.md", "UPDATE"),
        StatedRelation("rules/draft.md", "UPDATE"),
    )
    assert document.text == "# Other\n\nBody.\n"


def test_broken_front_matter_or_relations_are_a_problem_a_thematic_break_none(read) -> None:
    extraction = read("a.md", "---\ntitle: [unclosed\n---\nBody\n")
    assert "not valid YAML" in extraction.problems[0]
    assert "Body" in extraction.documents[0].text and "unclosed" in extraction.documents[0].text
    extraction = read("a.md", "---\n\nJust prose here.\n\n---\n\nMore.\n")
    assert extraction.problems == ()
    assert "Just prose here." in extraction.documents[0].text
    bomb = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    for raw in (bomb, "a: " + "[" * 5_000, "a: &a [*a]"):
        extraction = read("a.md", f"---\n{raw}\n---\nBody.\n")
        assert len(extraction.problems) == 1
        assert extraction.documents[0].text.endswith("Body.\n")
    extraction = read("a.md", "---\nsupersedes: [../../etc/passwd, a.md, ok.md]\n---\nBody.\n")
    assert extraction.documents[0].relations == (StatedRelation("ok.md", "UPDATE"),)
    assert len(extraction.problems) == 2
