"""An answer as text for people and as JSON values."""

import datetime as dt
from typing import Any

from pipelines.query.api import Results
from pipelines.query.types import RankedMemory

_SHOWN_CHARS = 160
_FIELDS = (
    "memory_id", "text", "score", "is_latest", "observed_at", "valid_from", "valid_until", "superseded_by", "type",
    "uri", "page", "speaker", "heading", "session_id", "project_id", "char_start", "char_end", "document_title", "hops",
    "vector_score", "words_score", "graph_score", "tags", "why",
)  # fmt: skip


def results_text(results: Results, explain: bool = False) -> str:
    """Returns the ranked memories, a line each, then the packed context with its sources."""
    if not results.memories:
        return "nothing found in this scope"
    lines = []
    for place, memory in enumerate(results.memories, 1):
        lines.append(f"{place}. {memory.score:+.2f}  {_shortened(memory.text)}  ({_state(memory)})")
        if explain:
            lines.append(f"     {memory.why}")
    return "\n".join([*lines, "", results.context or "(nothing fits the budget)"])


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"


def _state(memory: RankedMemory) -> str:
    seen = memory.observed_at.date().isoformat() if memory.observed_at else "undated"
    if memory.is_latest:
        return seen
    until = f" until {memory.valid_until.date().isoformat()}" if memory.valid_until else ""
    return f"{seen}{until}, superseded"


def results_json(results: Results) -> dict[str, Any]:
    """Returns `{"memories", "context", "packed_ids", "timings", "strategy", "build_id"}`; dates in ISO 8601."""
    return {
        "memories": [{f: _plain(getattr(m, f)) for f in _FIELDS} for m in results.memories],
        "context": results.context,
        "packed_ids": list(results.packed_ids),
        "context_tokens": results.context_tokens,
        "timings": {k: round(v, 3) for k, v in results.timings.items()},
        "strategy": results.strategy,
        "build_id": results.build_id,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return round(float(value), 6) if isinstance(value, float) else value
