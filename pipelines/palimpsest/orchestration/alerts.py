"""Alerts to a person when the gate closes, a collection cannot be read, a build fails or is overdue."""

import json
import os
import smtplib
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.query.request.types import shorten_text
from palimpsest.store.manifest import GateRecord

# Where alerts go: a webhook, as JSON, and mail. They are sent again while a server fails.
#
# The addresses of both servers may contain a secret: they are read from the environment only, and never printed.

URL, FORMAT = "PALIMPSEST_ALERT_URL", "PALIMPSEST_ALERT_FORMAT"
MAIL, SMTP = "PALIMPSEST_ALERT_MAIL", "PALIMPSEST_ALERT_SMTP"
NOWHERE = f"no alert is sent: neither {URL} nor {MAIL} is set"
SLACK = "slack"
"""The format of chat programs: `text` alone, for some refuse other fields."""
TRIES, TIMEOUT_S, MAX_WAIT_S = 4, 10.0, 8.0
_MAX_CAUSE_CHARS = 500
_MAX_REASONS = 5


class _Retryable(Exception):
    """The server may accept the message later: it answered 429 or 5xx, or not at all."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follows no redirect: the token in the address goes to its own server only."""


def closed_message(build_id: str, gate: GateRecord) -> JsonObject:
    """Returns the message: `text` for people, as chat programs show it, and the same as fields."""
    reasons = gate.get("reasons", [])
    more = [f"and {len(reasons) - _MAX_REASONS} more"] if len(reasons) > _MAX_REASONS else []
    lines = [f"Palimpsest: the gate closed, build {build_id} is not published", *reasons[:_MAX_REASONS], *more]
    return {
        "text": "\n- ".join(lines),
        "event": "gate_closed",
        "build": build_id,
        "status": gate.get("status", "failed"),
        "reasons": reasons,
    }


def failed_message(build_id: str, stage: str, error: str) -> JsonObject:
    """Returns the message for a step that failed: its name and the type of the error, whose words may quote sources."""
    text = f"Palimpsest: build {build_id} failed in {stage} ({error}); readers keep the published build"
    return {"text": text, "event": "build_failed", "build": build_id, "stage": stage, "error": error}


def unreadable_message(collection: str, cause: str) -> JsonObject:
    """Returns the message for a collection that cannot be read: the cause names its settings, and no text of it."""
    line = shorten_text(" ".join(cause.split()), _MAX_CAUSE_CHARS)
    text = f"Palimpsest: collection {collection} cannot be read: {line}; readers keep what is published of it"
    return {"text": text, "event": "collection_unreadable", "collection": collection, "cause": line}


def overdue_message(build_id: str, hours: float, most: int) -> JsonObject:
    """Returns the message for a published build that no run has confirmed for longer than it may be."""
    text = f"Palimpsest: build {build_id} is overdue: last confirmed {hours:.0f} hours ago, at most {most}"
    return {"text": text, "event": "build_overdue", "build": build_id, "hours": round(hours, 1), "most_hours": most}


def send_alert(message: Mapping[str, JsonValue], wait_s: float = 1.0) -> bool:
    """Sends a message to the webhook and the mail addresses that the environment names; returns whether it names any.

    Tried four times with growing, jittered waits while a server cannot take it.

    Args:
        message: JSON values; the first line of `text` is the subject of a mail.
        wait_s: first wait; tests shorten it.

    Raises:
        PalimpsestError: a variable is wrong, a server refused, or the last try failed too.
    """
    channels: list[tuple[str, Callable[[], None]]] = []
    if url := os.environ.get(URL, ""):
        channels.append((URL, partial(_post, url, message)))
    if to := os.environ.get(MAIL, ""):
        channels.append((SMTP, partial(_mail, to, str(message["text"]))))
    failures = [why for variable, send in channels if (why := _why_not_sent(variable, send, wait_s))]
    if failures:
        raise PalimpsestError("; ".join(failures))
    return bool(channels)


def _why_not_sent(variable: str, send: Callable[[], None], wait_s: float) -> str:
    """Sends by one channel, again while its server fails; returns why it was not sent, empty where it was."""
    import tenacity

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Retryable),
        stop=tenacity.stop_after_attempt(TRIES),
        reraise=True,
        wait=tenacity.wait_exponential_jitter(wait_s, MAX_WAIT_S, jitter=wait_s),
    )
    try:
        retrying(send)
    except _Retryable as e:
        return f"alert not delivered after {TRIES} tries: {e}; look at {variable}"
    except PalimpsestError as e:
        return str(e)
    return ""


def _mail(to: str, text: str) -> None:
    try:
        server = urlsplit(os.environ.get(SMTP, "smtp://localhost"))
        host, port = server.hostname or "", server.port or 0
    except ValueError:
        host, port = "", 0
    if server.scheme not in ("smtp", "smtps") or not host:
        raise PalimpsestError(f"{SMTP}: write it as smtp://host:587 or smtps://user:password@host")
    mail = EmailMessage()
    try:
        mail["To"], mail["Subject"] = to, text.splitlines()[0]
        user = unquote(server.username or "")
        mail["From"] = user if "@" in user else to.split(",")[0].strip()
    except (ValueError, IndexError):
        raise PalimpsestError(f"{MAIL}: write mail addresses, separated by commas") from None
    mail.set_content(text)
    context = ssl.create_default_context()
    try:
        if server.scheme == "smtps":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
        else:
            connection = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
        with connection:
            connection.ehlo()
            if server.scheme == "smtp" and (user or connection.has_extn("starttls")):
                connection.starttls(context=context)  # a password is never sent in the clear
            if user:
                connection.login(user, unquote(server.password or ""))
            connection.send_message(mail)
    except smtplib.SMTPResponseException as e:
        if 400 <= e.smtp_code < 500:
            raise _Retryable(f"the server answered {e.smtp_code}") from None
        raise PalimpsestError(f"alert refused: the server answered {e.smtp_code}; look at {SMTP}") from None
    except smtplib.SMTPRecipientsRefused:
        raise PalimpsestError(f"alert refused: the server takes no mail for these addresses; look at {MAIL}") from None
    except smtplib.SMTPNotSupportedError:
        raise PalimpsestError(f"alert refused: the server has no TLS or no login; look at {SMTP}") from None
    except (OSError, smtplib.SMTPException) as e:
        raise _Retryable(f"no answer ({type(e).__name__})") from None


def _post(url: str, message: Mapping[str, JsonValue]) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise PalimpsestError(f"{URL}: must begin with https:// or http://")
    sent = {"text": message["text"]} if os.environ.get(FORMAT) == SLACK else message
    data = json.dumps(sent, ensure_ascii=False).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")  # noqa: S310
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S):
            return
    except urllib.error.HTTPError as e:
        if e.code == 429 or e.code >= 500:
            raise _Retryable(f"the server answered {e.code}") from None
        raise PalimpsestError(f"alert refused: the server answered {e.code}; look at {URL}") from None
    except (OSError, ValueError) as e:
        # Only the type of the reason: its text may quote the address.
        raise _Retryable(f"no answer ({type(getattr(e, 'reason', e)).__name__})") from None
