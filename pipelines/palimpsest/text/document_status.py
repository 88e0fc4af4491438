"""The status that a document states of itself (`Deprecated`, `Draft`), and whether what it says is in force."""

import re
from collections.abc import Mapping
from typing import Any

STATUS = "document_status"
"""Metadata of a document whose text states its status, where its front matter does not."""

AUTHOR, TAGS = "document_author", "document_tags"
STATED_IN_TEXT = frozenset({STATUS, AUTHOR, TAGS})
"""Metadata that no front matter states."""

_HEADING = "Status: "
_MAX_CHARS = 80
_NEVER_VALID = "rejected|declined|withdrawn|abandoned|cancell?ed"
_NO_LONGER_VALID = (
    "deprecated|obsoleted?|super(?:s|c|sc)eded|replaced|retired|discontinued|historic|historical|inactive|"
    "archived|expired|revoked|repealed|decommissioned|end[- ]of[- ]life|no longer|not in use"
)
_NOT_YET_VALID = (
    "draft|drafted|proposed|proposal|provisional|pending|deferred|postponed|(?:in|under) (?:review|discussion)|review|"
    "last call|stagnant|wip|work in progress|idea|open|on hold|request for comments?|incomplete"
)
_VALID = (
    "accepted|approved|adopted|active|final|implement(?:ed|able)|decided|agreed|done|complete[d]?|current|living|stable|"
    "released|published|ratified|standard|amended|amends|super(?:s|c|sc)edes|replaces|moved|in (?:use|force|effect)"
)
_ENDED = re.compile(rf"[\W_]*(?:{_NEVER_VALID}|{_NO_LONGER_VALID})\b", re.IGNORECASE)
_NOT_IN_FORCE = re.compile(rf"[\W_]*(?:{_NEVER_VALID}|{_NOT_YET_VALID})\b", re.IGNORECASE)
_STATUS = re.compile(rf"[\W_]*(?:{_NEVER_VALID}|{_NO_LONGER_VALID}|{_NOT_YET_VALID}|{_VALID})\b", re.IGNORECASE)
_NOT_DEPRECATED = {"", "false", "no", "none", "null", "n/a"}


def stated_status(metadata: Mapping[str, Any]) -> str:
    """Returns the status of a document: `status` of its front matter, `deprecated`, else what its text states."""
    fields = {name.lower(): value for name, value in metadata.items()}
    if isinstance(status := fields.get("status"), str) and status.strip():
        return " ".join(status.split())[:_MAX_CHARS]
    if str(fields.get("deprecated") or "").strip().lower() not in _NOT_DEPRECATED:
        return "Deprecated"
    status = metadata.get(STATUS)
    return status if isinstance(status, str) else ""


def is_status(text: str) -> bool:
    """Returns whether a text begins with a word for the state of a document."""
    return bool(_STATUS.match(text))


def may_replace(status: str) -> bool:
    """Returns whether a document of a status can replace another: a draft or a rejected proposal cannot."""
    return not _NOT_IN_FORCE.match(status)


def ended_status_heading(metadata: Mapping[str, Any]) -> str:
    """Returns the heading that says that a document is not in force (`Status: Deprecated`), empty where it may be."""
    status = stated_status(metadata)
    return f"{_HEADING}{status}" if _ENDED.match(status) else ""


def status_in_heading(heading: str | None) -> str:
    """Returns the status that `ended_status_heading` wrote at the end of a heading path, empty where there is none."""
    last = (heading or "").rpartition(" > ")[2]
    return last.removeprefix(_HEADING) if last.startswith(_HEADING) and _ENDED.match(last, len(_HEADING)) else ""
