"""Mails and their attachments."""

from datetime import UTC, datetime

import pytest

from palimpsest.core.errors import Rejected
from tests.sources.hostile import mail, nested_mail
from tests.sources.segment_texts import segment_texts


def test_a_mail_has_its_writer_as_speaker_and_its_attachments_as_documents(read) -> None:
    message = mail()
    message.set_content("Let us meet.\n\n> When?\n> Soon.\n\nOn Monday.\n")
    message.add_attachment("id,what\n1,tea\n", subtype="csv", filename="list.csv")
    message.add_attachment(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png", filename="logo.png")
    extraction = read("in/plans.eml", message.as_bytes())
    body, quote, table = extraction.documents
    when = datetime(2024, 3, 5, 9, tzinfo=UTC)
    assert (body.title, body.source_time) == ("Plans", when)
    assert body.metadata["from"] == "Ana <ana@example.org>" and body.metadata["to"] == "bo@example.org"
    assert [(t, s.speaker, s.said_at) for s, (_, _, t) in zip(body.segments, segment_texts(body), strict=True)] == [
        ("Plans", None, None),
        ("Let us meet.", "Ana", when),
        ("On Monday.", "Ana", when),
    ]
    assert (quote.uri, quote.source_time, quote.text) == ("in/plans.eml#quoted-1", None, "When?\nSoon.")
    assert (table.uri, table.title, table.source_time) == ("in/plans.eml#list.csv", "list", when)
    assert table.metadata["attached_to"] == "in/plans.eml"
    assert [p.split(":")[0] for p in extraction.problems] == ["attachment logo.png"]


def test_mails_of_html_in_mails_and_with_attachments_of_one_name_are_read(read) -> None:
    message = mail()
    message.set_content("<html><body><p>Rich <b>words</b>.</p></body></html>", subtype="html")
    assert read("a.eml", message.as_bytes()).documents[0].text == "Plans\n\nRich words."
    extraction = read("a.eml", nested_mail(3), max_nesting=2)
    assert [d.uri for d in extraction.documents] == ["a.eml", "a.eml#part-1.eml", "a.eml#part-1.eml#part-1.eml"]
    assert "nested too deeply" in extraction.problems[0]
    message = mail()
    for text in ("One.", "Two."):
        message.add_attachment(text, filename="a.txt")
    assert [d.uri for d in read("m.eml", message.as_bytes()).documents] == ["m.eml", "m.eml#a.txt", "m.eml#2-a.txt"]


def test_what_is_no_mail_or_would_take_minutes_is_rejected(read) -> None:
    with pytest.raises(Rejected, match="no mail"):
        read("a.eml", "just words\n\nand more\n")
    with pytest.raises(Rejected, match="more than 1,000,000 bytes of headers"):
        read("a.eml", "From: ana@example.org\nX-All: " + "a, " * 400_000 + "\n\nHello.\n")
