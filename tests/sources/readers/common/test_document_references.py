"""What a line of a status states of other documents."""

import pytest

from palimpsest.sources.readers.document_head import named_documents, resolve_path, stated_replacements


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Superseded by [9. Move the till](0009-move-the-till.md)", ["0009-move-the-till.md"]),
        ("Superceded by [9. Move the till](0009-move-the-till.md)", ["0009-move-the-till.md"]),
        ("superseded by ADR-012", ["adr-12"]),
        ("Superseded by: ADR 0012 and ADR 0013; see ADR 1", ["adr-12", "adr-13"]),
        ("Superseded: 2024-05-01 by [ADR 14](0014-paint.md)", ["0014-paint.md"]),
        ("Accepted 2 May 2023, superseded by ADR 12 on 3 June 2024", ["adr-12"]),
        ("Replaced by #12", ["12"]),
        ("Obsoleted by RFC 7230, RFC 7231", ["rfc-7230", "rfc-7231"]),
        ("Superseded by :pep:`600`", ["600"]),
        ("Superseded by `Cooling <mep-0012.rst>`_", ["mep-0012.rst"]),
        ("Superseded by [[0014-paint|Paint]]", ["0014-paint"]),
        ("Superseded by xref:0014-paint.adoc[Paint]", ["0014-paint.adoc"]),
        ("Superseded by 0012-use-tern.md", ["0012-use-tern.md"]),
        ("*Deprecated* in favour of [Tern](../b/0012-tern.md).", ["../b/0012-tern.md"]),
        ("Superseded by [ADR-12](https://mill.example/issues/77)", ["adr-12"]),
        ("Superseded by [12](https://mill.example/rules/0012-tern/)", ["https://mill.example/rules/0012-tern/"]),
        ("Superseded by Use Tern.", ["Use Tern"]),
    ],
)
def test_a_status_names_what_replaced_the_document(line, names) -> None:
    expected = [(name, "UPDATED_BY") for name in names]
    assert stated_replacements(line) == expected


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Supercedes [1. Use Skua](0001-use-skua.md)", ["0001-use-skua.md"]),
        ("Accepted (replaces ADR-3 and ADR-4)", ["adr-3", "adr-4"]),
        ("This ADR supersedes 3. Use Skua", ["3"]),
        ("Obsoletes: 2068", ["2068"]),
    ],
)
def test_a_status_names_what_the_document_replaces(line, names) -> None:
    assert stated_replacements(line) == [(name, "UPDATE") for name in names]


def test_fields_and_lines_name_documents_relative_to_their_own() -> None:
    line = "Supersedes ADR-1, superseded by ADR-3"
    assert stated_replacements(line) == [("adr-1", "UPDATE"), ("adr-3", "UPDATED_BY")]
    assert named_documents("571, 513") == ["571", "513"]
    assert named_documents("[9. A, b](a.md), [3](b.md)") == ["a.md", "b.md"]
    assert named_documents("2616 (if approved)") == ["2616"]
    assert named_documents("n/a") == []
    assert resolve_path("0009-till.md", "a/b.md") == "a/0009-till.md"
    assert resolve_path("../0009-till.md", "a/b.md") == "0009-till.md"
    assert resolve_path("../../../c/0009-till.md", "a/b.md") == "c/0009-till.md"
    assert resolve_path("/c/0009-till.md", "a/b.md") == "c/0009-till.md"
    assert resolve_path("adr-12", "a/b.md") == "adr-12"


@pytest.mark.parametrize(
    "line",
    [
        "Partly superseded by [3](0003-tern.md)", "This ADR in part supersedes [3](0003-tern.md)",
        "Supersedes some aspects of ADR-3", "Amends [3. Tern](0003-tern.md)", "Updates: 2616",
        "Not superseded by ADR-3", "Accepted. It will be superseded by ADR-9", "The nightly job replaces ADR-3 on disk",
        "Superseded", "none",
    ],
)  # fmt: skip
def test_parts_plans_and_prose_replace_nothing(line) -> None:
    assert stated_replacements(line) == []
