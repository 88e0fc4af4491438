"""Which document another one means by a number, a file name, a link or a title."""

import pytest

from palimpsest.memories.document_relations import DocumentNames

NAMES = DocumentNames(
    {
        "decisions/0009-move-the-till.md": "9. Move the till", "decisions/0012-use-tern.md": "ADR-12: Use Tern",
        "decisions/0014-paint.md": "Paint", "rules/mep-12.rst": "Cooling", "rules/mep-0013.rst": "Paint",
        "keeps/sig-mill/34-sluice/README.md": "Sluice", "keeps/sig-mill/README.md": "The mill",
        "https://mill.example/rules/9-river": "River",
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "by", "means"),
    [
        ("12", "decisions/0009-move-the-till.md", "decisions/0012-use-tern.md"),
        ("adr-12", "decisions/0009-move-the-till.md", "decisions/0012-use-tern.md"),
        ("adr-12", "rules/mep-0013.rst", "adr-12"),
        ("mep-13", "rules/mep-12.rst", "rules/mep-0013.rst"),
        ("0012-use-tern.html", "decisions/0014-paint.md", "decisions/0012-use-tern.md"),
        ("docs/decisions/0012-use-tern.md", "decisions/0014-paint.md", "decisions/0012-use-tern.md"),
        ("decisions/0009-shift-the-till.md", "decisions/0014-paint.md", "decisions/0009-move-the-till.md"),
        ("elsewhere/0009-shift-the-till.md", "decisions/0014-paint.md", "elsewhere/0009-shift-the-till.md"),
        ("https://other.example/9-shift-the-till", "decisions/0014-paint.md", "https://other.example/9-shift-the-till"),
        ("https://mill.example/rules/9-river", "rules/mep-12.rst", "https://mill.example/rules/9-river"),
        ("Move the till", "decisions/0014-paint.md", "decisions/0009-move-the-till.md"),
        ("use tern", "rules/mep-12.rst", "decisions/0012-use-tern.md"),
        ("9 newer records", "decisions/0014-paint.md", "9 newer records"),
        ("keeps/sig-mill/34-sluice", "rules/mep-12.rst", "keeps/sig-mill/34-sluice/README.md"),
        ("34", "keeps/sig-mill/41-dam/README.md", "keeps/sig-mill/34-sluice/README.md"),
        ("Paint", "rules/mep-12.rst", "Paint"),
        ("Paint", "rules/mep-0013.rst", "decisions/0014-paint.md"),
    ],
)
def test_a_name_means_one_document_or_none(name, by, means) -> None:
    assert NAMES.resolve(name, by) == means
