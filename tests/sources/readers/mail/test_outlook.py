"""Outlook mails are read as mails: words, headers, attachments; what is broken is rejected with a reason."""

from datetime import UTC, datetime

import pytest

from palimpsest.core.errors import Rejected
from tests.sources.outlook_file import msg

SENT = datetime(2026, 3, 6, 9, tzinfo=UTC)


def test_an_outlook_mail_gives_its_words_headers_and_attachments(read) -> None:
    data = msg("Kestrel", "The budget is 40,000.", "mara@example.org", SENT, {"notes.txt": b"Otters swim.\n" * 400})
    mail, notes = read("kestrel.msg", data).documents
    assert (mail.title, mail.source_time, mail.media_type) == ("Kestrel", SENT, "message/rfc822")
    assert mail.text.endswith("The budget is 40,000.") and mail.metadata["to"] == "Lea <lea@example.org>"
    assert (notes.uri, notes.text.splitlines()[0], notes.source_time) == ("kestrel.msg#notes.txt", "Otters swim.", SENT)
    (mail,) = read("draft.msg", msg("Draft", "Words.", "mara@example.org")).documents
    assert mail.source_time is None
    (mail,) = read("a.msg", msg("Hi\r\nX-Evil: 1", "Words.", "mara@example.org", SENT)).documents
    assert mail.title == "Hi X-Evil: 1" and "x-evil" not in mail.metadata


@pytest.mark.parametrize("keep", [600, 1500, 3000])
def test_half_a_mail_is_rejected_or_read_and_nothing_else_escapes(read, keep: int) -> None:
    data = msg("Kestrel", "The budget is 40,000.", "mara@example.org", SENT)
    try:
        read("half.msg", data[:keep])
    except Rejected as e:
        assert str(e)
