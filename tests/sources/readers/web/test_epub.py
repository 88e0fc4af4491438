"""Books."""

import io
import zipfile
from datetime import UTC, datetime

import pytest

from palimpsest.core.errors import Rejected
from tests.sources.hostile import zipped
from tests.sources.segment_texts import segment_texts


def book(**parts: str) -> bytes:
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in parts)
    refs = "".join(f'<itemref idref="{n}"/>' for n in sorted(parts, reverse=True))
    return zipped(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="o/c.opf"/></rootfiles></container>',
            "o/c.opf": f'<package xmlns:dc="d"><metadata><dc:title>Poems</dc:title><dc:creator>Ana</dc:creator>'
            f"<dc:date>1999-01-02</dc:date></metadata><manifest>{items}</manifest><spine>{refs}</spine></package>",
            **{f"o/{n}.xhtml": f"<html><body>{text}</body></html>" for n, text in parts.items()},
        }
    )


def test_a_book_is_read_in_its_reading_order_and_a_protected_one_rejected(read) -> None:
    (document,) = read("poems.epub", book(a="<p>Second.</p>", b="<h1>One</h1><p>First.</p>")).documents
    assert (document.title, document.metadata["author"]) == ("Poems", "Ana")
    assert document.source_time == datetime(1999, 1, 2, tzinfo=UTC)
    assert [(s.page, t) for s, (_, _, t) in zip(document.segments, segment_texts(document), strict=True)] == [
        (1, "One"),
        (1, "First."),
        (2, "Second."),
    ]
    data = book(a="<p>Secret.</p>")
    locked = '<encryption><CipherReference URI="o/a.xhtml"/></encryption>'
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("META-INF/encryption.xml", locked)
    with pytest.raises(Rejected, match="protected EPUB"):
        read("a.epub", out.getvalue())
