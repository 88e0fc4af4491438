"""JSON lines: a suite, a conversation or a chat export, whichever the rows are."""

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.conversations.chat_json import find_conversations, read_chats
from palimpsest.sources.readers.conversations.json_rows import parse_json_rows
from palimpsest.sources.readers.conversations.suite_rows import read_suite
from palimpsest.sources.readers.conversations.turns import read_conversations
from palimpsest.sources.records.extracted import Extraction
from palimpsest.sources.records.source import Source
from palimpsest.store.limits import Limits


def read_json_lines(source: Source, limits: Limits) -> Extraction:
    """Reads JSON lines by their layout; any row may show it: the first ones may be damaged.

    Raises:
        Rejected: not text, or of no layout that is known.
    """
    rows, problems = parse_json_rows(decode(source.data, limits))
    if any("_id" in r.value and "text" in r.value for r in rows):
        return read_suite(source, rows, problems, limits)
    if any("text" in r.value and r.value.keys() & {"speaker", "role", "session_id", "timestamp"} for r in rows):
        return read_conversations(source, rows, problems, limits)
    if found := find_conversations([r.value for r in rows]):
        return read_chats(source, found, problems, limits)
    if not rows:
        raise Rejected(f"no line is a JSON object; {problems[0]}")
    raise Rejected(
        "JSON lines of an unknown layout; a turn has session_id, speaker or role, text, timestamp, "
        "a suite row _id, title, text"
    )
