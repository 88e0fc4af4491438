"""Who says what in a mail, and when: quotes keep their author and day, and nobody remembers a greeting."""

from email.message import EmailMessage
from time import process_time

import pytest

from palimpsest.sources.extracted import ExtractedDocument
from palimpsest.sources.readers.mail_body import is_closing, is_greeting, is_phone_note, parse_line, split_quotes
from tests.chunks.one_document import chunk_document

Statements = list[tuple[str | None, str | None, str]]


def mail(body: str, subtype: str = "plain") -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "Ann Lee <ann@x.example>", "Price"
    message["Date"] = "Mon, 04 May 2026 07:55:00 +0000"
    message.set_content(body, subtype=subtype)
    return message.as_bytes()


def statements(documents: tuple[ExtractedDocument, ...]) -> Statements:
    """Returns (speaker, day, words) of every chunk."""
    return [
        (c.speaker, str(when.date()) if (when := c.said_at or d.source_time) else None, c.text)
        for d in documents
        for c in chunk_document(d, "turn")
    ]


REPLY = """Hi Tom,
The price is 4.20 now, not 4.10.

Thanks,
Ann Lee
Sales, X Corp
+1 555 0100

PS: The offer ends on 30 June.

Sent from my phone

On Sun, May 3, 2026 at 10:12 AM Bob Stone <bob@x.example> wrote:
> Hello Ann,
>
> The price is 4.10.
>
> -- \u0020
> Bob Stone
>
> Am 01.05.2026 um 09:00 schrieb Ann Lee:
>> The price is 4.00.
"""


def test_each_author_is_quoted_with_the_day_of_writing(read) -> None:
    found = read("a.eml", mail(REPLY)).documents
    assert statements(found) == [
        ("Ann Lee", "2026-05-04", "The price is 4.20 now, not 4.10."),
        ("Ann Lee", "2026-05-04", "PS: The offer ends on 30 June."),
        ("Bob Stone", "2026-05-03", "The price is 4.10."),
        ("Ann Lee", "2026-05-01", "The price is 4.00."),
    ]
    assert [d.uri for d in found] == ["a.eml", "a.eml#quoted-1", "a.eml#quoted-2"]
    assert "Hi Tom," in found[0].text and "Sales, X Corp" in found[0].text and "wrote:" in found[1].text


def test_a_quote_has_only_the_author_and_day_that_are_stated_and_can_be(read) -> None:
    body = "Agreed.\n\n> The gate is open.\n> It is green.\n\nReally.\n"
    assert statements(read("2026-05-04 a.eml", mail(body)).documents) == [
        ("Ann Lee", "2026-05-04", "Agreed."),
        ("Ann Lee", "2026-05-04", "Really."),
        (None, None, "The gate is open.\nIt is green."),
    ]
    body = "Agreed.\n\nOn 9 May 2026, Bob <bob@x.example> wrote:\n> The gate is open.\n"
    assert statements(read("a.eml", mail(body)).documents)[1] == ("Bob", None, "The gate is open.")


@pytest.mark.parametrize(
    "head",
    [
        "-----Original Message-----\nFrom: Bob Stone <bob@x.example>\nSent: Sunday, May 3, 2026 10:12 AM\nTo: Ann\n",
        "________________________________\nVon: Bob Stone\nGesendet: Sonntag, 3. Mai 2026 10:12\nBetreff: Preis\n",
        "---------- Forwarded message ---------\nFrom: Bob Stone <bob@x.example>\nDate: Sun, May 3, 2026 at 10:12 AM\n",
        "Begin forwarded message:\n\nFrom: Bob Stone <bob@x.example>\nDate: 3 May 2026 at 10:12:00 CEST\n",
        "Le dim. 3 mai 2026 à 10:12, Bob Stone <bob@x.example> a écrit :\n",
        "El 3 de mayo de 2026, Bob Stone <bob@x.example>  escribió:\n",
        "Op 3 mei 2026 om 10:12 heeft Bob Stone <bob@x.example> het volgende schreef:\n",
    ],
)
def test_what_follows_the_head_of_another_mail_is_that_mails(read, head: str) -> None:
    found = statements(read("a.eml", mail(f"See below.\n\n{head}\nThe price is 4.10.\n\nIt holds.\n")).documents)
    assert found[0] == ("Ann Lee", "2026-05-04", "See below.")
    assert [(day, words) for _, day, words in found[1:]] == [
        ("2026-05-03", "The price is 4.10."),
        ("2026-05-03", "It holds."),
    ]
    assert all("Bob Stone" in (speaker or "") for speaker, *_ in found[1:])


@pytest.mark.parametrize(
    "body",
    [
        "On the flight of 3 May I wrote: nothing.\n\nThe gate is open.",
        "My notes on 3 May 2026 wrote:\n\nThe gate is open.", "To: do list\nDate: to be found\n\nThe gate is open.",
        "Data: 12 rows\nDo: delete them\n\nThe gate is open.", "A: yes\nDa: no, 3 May 2026 is too early for that",
        "--------------------\nThe gate is open.\n--------------------\nIt is green.", "Thanks,\nthe gate is open",
        "Dear customers of the gate, it is open now.", "Hi Tom, the gate is open.",
        "Thank you for the gate.\n\nIt is open, and we paint it green on Monday.",
    ],
)  # fmt: skip
def test_words_that_look_like_a_quote_or_a_closing_stay_the_writers(read, body: str) -> None:
    found = read("a.eml", mail(f"Good news.\n\n{body}\n")).documents
    words = " ".join(text for _, _, text in statements(found))
    assert len(found) == 1 and not any(s.kind == "aside" for s in found[0].segments if "gate" in _text(found[0], s))
    assert all(word in words for word in body.split() if word.isalpha() and word != "Thanks")


def _text(document: ExtractedDocument, segment) -> str:
    return document.text[segment.char_start : segment.char_end]


def test_html_says_the_same(read) -> None:
    body = (
        "<html><body><p>Hi Tom,</p><h2>News</h2><p>The price is 4.20.</p><table><tr><td>a</td><td>b</td></tr><tr>"
        "<td>1</td><td>2</td></tr></table><div class='gmail_signature'>Ann<br>Sales</div><div class='gmail_quote'>"
        "<div class='gmail_attr'>On Sun, May 3, 2026 at 10:12 AM Bob &lt;bob@x.example&gt; wrote:<br></div>"
        "<blockquote class='gmail_quote'><p>The price is 4.10.</p><blockquote type='cite'>Older words.</blockquote>"
        "</blockquote></div></body></html>"
    )
    found = read("a.eml", mail(body, "html")).documents
    assert statements(found) == [
        ("Ann Lee", "2026-05-04", "The price is 4.20."),
        ("Ann Lee", "2026-05-04", "| a | b |\n| 1 | 2 |"),
        ("Bob", "2026-05-03", "The price is 4.10."),
        (None, None, "Older words."),
    ]
    assert {s.heading for s in found[0].segments if s.kind == "table"} == {"Price > News"}
    outlook = (
        "<html><body><p>See below.</p><div id='divRplyFwdMsg'><hr><b>From:</b> Bob &lt;bob@x.example&gt;<br><b>Sent:"
        "</b> Sunday, May 3, 2026 10:12 AM<br><b>To:</b> Ann</div><p>The price is 4.10.</p></body></html>"
    )
    assert statements(read("b.eml", mail(outlook, "html")).documents)[1:] == [
        ("Bob", "2026-05-03", "The price is 4.10.")
    ]


def test_phrases() -> None:
    for line in (
        "Hi Tom,",
        "Dear Ms. Rowley,",
        "Hello",
        "Sehr geehrte Frau Lang,",
        "Bonjour à tous,",
        "Hi Tom and Ann!",
    ):
        assert is_greeting(line, alone=True), line
    for line in ("Hi Tom, call me", "Hello world is down", "Dear me, that went wrong quickly, did it?", "Highlights:"):
        assert not is_greeting(line, alone=True), line
    for line in ("Best regards,", "Kind regards", "Cheers", "Mit freundlichen Grüßen", "Un saludo,", "Cordialement"):
        assert is_closing(line), line
    for line in ("Best price is 4.20", "Thanks for the gate", "Love the new gate"):
        assert not is_closing(line), line
    assert is_phone_note("Sent from my iPhone") and not is_phone_note("The parcel was sent from my office")


def test_hostile_bodies_are_read_in_no_time() -> None:
    units = "On 3 May 2026 x |> On 3 May x\n|From: a\n|-- \n|>|wrote:\n|On a wrote:\n|\n\n|Hi "
    for unit in units.split("|"):
        started = process_time()
        split_quotes([parse_line(line, 0) for line in (unit * (30_000 // len(unit))).split("\n")])
        assert process_time() - started < 2, unit
