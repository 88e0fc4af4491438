"""The JSON schema of a search: the fields that a service reads, their kinds and defaults."""

from typing import Literal, TypedDict, get_args

from palimpsest.core.json_types import JsonValue
from palimpsest.query.request.arguments import MAX_HOPS, MAX_K, MAX_TEXT_CHARS
from palimpsest.query.request.node_search import MAX_DEPTH

COMPRESS = ("words", "lm", "none")
Sources = Literal["short", "full", "none"]
SOURCES: tuple[Sources, ...] = get_args(Sources)

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "boolean": bool,
    "null": type(None),
}


class Property(TypedDict, total=False):
    """A field as JSON schema describes it."""

    type: str | list[str]
    description: str
    default: JsonValue
    items: dict[str, str | list[str]]
    enum: list[str]
    minimum: int
    maximum: int
    minLength: int


def is_kind(value: JsonValue, kind: str) -> bool:
    """Returns whether a value is of a kind of JSON schema."""
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _time(description: str) -> Property:
    return {"type": ["string", "null"], "description": f"{description}; ISO 8601 date or date-time", "default": None}


def _name(description: str) -> Property:
    return {"type": ["string", "null"], "description": description, "default": None}


def _texts(description: str) -> Property:
    return {"type": "array", "items": {"type": "string"}, "description": description, "default": []}


def _flag(description: str) -> Property:
    return {"type": "boolean", "description": description, "default": False}


PROPERTIES: dict[str, Property] = {
    "text": {
        "type": "string",
        "description": f"The question; what is beyond {MAX_TEXT_CHARS:,} characters is not read",
        "minLength": 1,
    },
    "k": {"type": "integer", "description": "How many memories at most", "minimum": 1, "maximum": MAX_K, "default": 10},
    "all_results": _flag("Return k memories, also those that are hardly evidence"),
    "hops": {
        "type": "integer",
        "description": "Links to follow from the best memories",
        "minimum": 0,
        "maximum": MAX_HOPS,
        "default": 1,
    },
    "strategy": {"type": "string", "description": "How to rank: auto, or the name of a strategy", "default": "auto"},
    "as_of": _time("Answer from what was current then"),
    "history": _flag("Superseded versions are candidates too"),
    "type": _name("Memory type to stay in"),
    "types": _texts("Memory types to stay in, any of them"),
    "tag": _name("A tag that memories must have"),
    "tags": _texts("Tags, any of which memories must have"),
    "where": _name('What the fields of memories must satisfy, such as category = "academic" and year >= 2024'),
    "accessed_within": _name("How long ago memories were last read, at most: 12h, 30d or 4w"),
    "min_score": {
        "type": ["number", "null"],
        "description": "Least cosine of a memory's best window with the question, -1 to 1",
        "default": None,
    },
    "since": _time("Earliest time of observation"),
    "until": _time("Latest time of observation"),
    "project": _name("Search this project of the user and the general memory"),
    "session": _name("Session to stay in"),
    "now": _time("When the question is put: only what is valid then is a candidate"),
    "budget_tokens": {"type": "integer", "description": "Tokens of the context", "minimum": 0, "default": 1200},
    "explain": _flag("Say of each memory why it is there"),
    "include_hidden": _flag("Serve memories marked user_visible: false too"),
    "include_pii": _flag("Serve memories marked pii: true too"),
    "task": {"type": "string", "description": "The task: uri or title of its source, whose brief leads", "default": ""},
    "tiers": _texts("Tiers to stay in, any of them: personal, project, task"),
    "include_pending": _flag("Also texts of the inbox that no build has formed yet, found by words and marked"),
    "turns": {
        "type": "array",
        "items": {"type": ["string", "object"]},
        "description": "What was written before, oldest first: texts, or messages with role and content; five are read",
        "default": [],
    },
    "brief": {"type": "string", "description": "What the task is about", "default": ""},
    "paths": _texts("Files of the task: their sources rank a little higher"),
    "abstain": _flag("Return no memories where none is likely to hold an answer"),
    "subgraph": _flag("Return the nodes, edges and facts of the results, and relations as lines of the context"),
    "narrow": _flag("With the strategy hierarchical: only memories of the nodes found are results"),
    "node_types": _texts("With the strategy hierarchical: types of the nodes to start from, any of them"),
    "node_where": _name('With the strategy hierarchical: what these nodes must satisfy, such as status = "active"'),
    "depth": {
        "type": "integer",
        "description": "With the strategy hierarchical: edges to follow from the nodes found",
        "minimum": 0,
        "maximum": MAX_DEPTH,
        "default": 1,
    },
    "compress": {
        "type": "string",
        "enum": list(COMPRESS),
        "description": "What picks sentences of long results: lm where the reader has a compressor, none to quote none",
        "default": "words",
    },
    "sources": {
        "type": "string",
        "enum": list(SOURCES),
        "description": "How the context cites: by number with a line a document, by id with each place, or no sources",
        "default": "short",
    },
}
