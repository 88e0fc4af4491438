"""Outlook's .msg: turned into a standard mail, which the reader of mails reads."""

import io
from dataclasses import replace
from email.message import EmailMessage
from email.utils import format_datetime

from palimpsest.core.errors import Rejected
from palimpsest.sources.records.source import Source

# The name of the stream that every stored message has, as the file's directory holds it.
OUTLOOK_MARK = "__properties_version1.0".encode("utf-16-le")

_KEPT = ("From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To", "List-Id")


def convert_outlook_mail(source: Source) -> Source:
    """Returns the same mail as RFC 822 bytes, attachments included, under the same uri.

    Headers are those that the mail was sent with; one that was never sent has its properties instead.

    Raises:
        Rejected: it contains no readable message.
    """
    from oxmsg import Message  # few collections have one, and each reader process would load it

    found = Message.load(io.BytesIO(source.data))
    mail = EmailMessage()
    sent = {name.lower(): value for name, value in found.message_headers.items()}
    to = ", ".join(f"{r.name} <{r.email_address}>" for r in found.recipients if r.email_address)
    properties = {"From": found.sender, "To": to, "Subject": found.subject}
    if found.sent_date:
        properties["Date"] = format_datetime(found.sent_date)
    for name in _KEPT:
        if value := _line(sent.get(name.lower()) or properties.get(name)):
            mail[name] = value
    if found.body:
        mail.set_content(_text(found.body))
    if found.html_body:
        add = mail.add_alternative if found.body else mail.set_content
        add(_text(found.html_body), subtype="html")
    for number, attachment in enumerate(found.attachments, 1):
        data = attachment.file_bytes
        if data is None:
            continue
        main, _, sub = (attachment.mime_type or "application/octet-stream").partition("/")
        name = _line(attachment.file_name) or f"attachment-{number}"
        mail.add_attachment(data, maintype=main, subtype=sub or "octet-stream", filename=name)
    if not mail.items():
        raise Rejected("an Outlook file without a message; save the mail as .eml")
    return replace(source, suffix=".eml", data=mail.as_bytes())


def _line(value: str | None) -> str:
    """A header is one line without characters that no mail can carry."""
    return " ".join(_text(value or "").split())


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8")
