"""An alert to a person when the gate closes, a build fails or is overdue: one JSON message to a webhook.

It is sent again while the server fails.

The webhook's address often contains a token: it is read from PALIMPSEST_ALERT_URL only, and never printed.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.store.manifest import GateRecord

URL = "PALIMPSEST_ALERT_URL"
TRIES, TIMEOUT_S, MAX_WAIT_S = 4, 10.0, 8.0
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


def overdue_message(build_id: str, hours: float, most: int) -> JsonObject:
    """Returns the message for a published build that no run has confirmed for longer than it may be."""
    text = f"Palimpsest: build {build_id} is overdue: last confirmed {hours:.0f} hours ago, at most {most}"
    return {"text": text, "event": "build_overdue", "build": build_id, "hours": round(hours, 1), "most_hours": most}


def send_alert(message: Mapping[str, JsonValue], url: str | None = None, wait_s: float = 1.0) -> bool:
    """Posts a message as JSON; returns whether an address is set.

    Tried four times with growing, jittered waits while the server answers 429 or 5xx, or not at all.

    Args:
        message: JSON values.
        url: http or https; None means PALIMPSEST_ALERT_URL, and nothing is sent where that is not set.
        wait_s: first wait; tests shorten it.

    Raises:
        PalimpsestError: the address is not http or https, the server refused, or the last try failed too.
    """
    import tenacity

    target = url if url is not None else os.environ.get(URL, "")
    if not target:
        return False
    if urlsplit(target).scheme not in ("http", "https"):
        raise PalimpsestError(f"{URL}: must begin with https:// or http://")
    data = json.dumps(message, ensure_ascii=False).encode()
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Retryable),
        stop=tenacity.stop_after_attempt(TRIES),
        reraise=True,
        wait=tenacity.wait_exponential_jitter(wait_s, MAX_WAIT_S, jitter=wait_s),
    )
    try:
        retrying(_post, target, data)
    except _Retryable as e:
        raise PalimpsestError(f"alert not delivered after {TRIES} tries: {e}; look at {URL}") from None
    return True


def _post(url: str, data: bytes) -> None:
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
