"""From a model's answer to proposals: each names memories that the model read, and states nothing of the others."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from palimpsest.consolidation.contradictions import contradiction
from palimpsest.consolidation.scope_memories import Memory
from palimpsest.core.ids import ScopeKey
from palimpsest.lm.answer_parts import numbers_in, stated_confidence, stemmed_words
from palimpsest.relations.classify.lm.read_answer import contains_instructions, find_quote
from palimpsest.store.proposals import Kind, Proposal

BY_MODEL = "model"
"""Why a connection or a note is proposed, where only a model found it."""
MAX_CONFIDENCE = 0.75
"""Of a finding of a model."""
MAX_FINDINGS = 20
"""Of each kind in one answer; what a model lists beyond is dropped."""
MAX_CHARACTERS = 400
_NOT_LATIN = re.compile(r"[^\W\d_\u0000-\u024f]+")
"""Letters that stemming does not read as words."""
_MEMORIES = {"connections": "memories", "notes": "premises"}
_TEXTS = {"connections": "description", "notes": "statement"}


@dataclass
class Findings:
    """The proposals of an answer, and how many of its parts were dropped, by reason."""

    proposals: list[Proposal] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def read_findings(scope: ScopeKey, memories: Mapping[str, Memory], answer: Mapping[str, object]) -> Findings:
    """Returns the proposals of an answer.

    A contradiction counts where it quotes both memories. A connection or note counts where its numbers are in the
    memories that it names, and no word of it is from a memory that it does not name: with a deleted memory goes all
    that was said of it.

    Args:
        scope: of the memories.
        memories: those that were read, by label.
        answer: the fields of the program's answer.
    """
    found = Findings()
    for part in _parts(answer, "contradictions", found):
        _add(found, _contradiction(scope, memories, part))
    for name in _MEMORIES:
        for part in _parts(answer, name, found):
            _add(found, _statement(scope, memories, name, part))
    return found


def _add(found: Findings, proposal: Proposal | str) -> None:
    if isinstance(proposal, str):
        found.dropped[proposal] += 1
    else:
        found.proposals.append(proposal)


def _parts(answer: Mapping[str, object], name: str, found: Findings) -> Iterator[Mapping[str, object]]:
    listed = answer.get(name)
    parts = listed if isinstance(listed, list) else []
    if len(parts) > MAX_FINDINGS:
        found.dropped["too many"] += len(parts) - MAX_FINDINGS
    for part in parts[:MAX_FINDINGS]:
        if isinstance(part, Mapping):
            yield part
        else:
            found.dropped["it is no finding"] += 1


def _contradiction(scope: ScopeKey, memories: Mapping[str, Memory], part: Mapping[str, object]) -> Proposal | str:
    """Returns a proposal, or why there is none."""
    named, quotes, kind = _named(memories, part.get("memories")), _texts(part.get("quotes")), part.get("kind")
    if len(named) != 2:
        return "it does not name two memories that were read"
    if len(quotes) != 2 or any(find_quote(m.text, q) is None for m, q in zip(named, quotes, strict=True)):
        return "it does not quote both memories"
    if kind not in ("dynamic", "static", "conditional"):
        return "its kind is none"
    if stemmed_words(named[0].text).isdisjoint(stemmed_words(named[1].text)):
        return "its memories have no word in common"
    first, second = sorted(named, key=lambda m: m.memory_id)
    if first.is_newer_than(second):
        first, second = second, first
    why = "undated" if kind == "dynamic" and not second.is_newer_than(first) else str(kind)
    return contradiction(
        scope, first, second, why, stated_confidence(part.get("confidence"), MAX_CONFIDENCE), found_by="lm"
    )


def _statement(
    scope: ScopeKey, memories: Mapping[str, Memory], name: str, part: Mapping[str, object]
) -> Proposal | str:
    """Returns a proposal, or why there is none."""
    stated = part.get(_TEXTS[name])
    text = " ".join(stated.split()) if isinstance(stated, str) else ""
    named = _named(memories, part.get(_MEMORIES[name]))
    if not 2 <= len(named) <= 5:
        return "it does not name two to five memories that were read"
    if not re.search(r"\w", text) or len(text) > MAX_CHARACTERS:
        return "its text is empty or too long"
    quoted = "\n".join(f"{m.text}\n{m.speaker or ''}\n{m.context}" for m in named)
    others = "\n".join(f"{m.text}\n{m.speaker or ''}" for m in memories.values() if m not in named)
    if any(unicodedata.category(c).startswith("C") for c in text):
        return "it has characters that no text has"
    if not all(run in quoted for run in _NOT_LATIN.findall(text)):
        return "it uses words of a memory that it does not name"
    if contains_instructions(text):
        return "it gives orders"
    if numbers_in(text) - numbers_in(quoted):
        return "its numbers are not in the memories that it names"
    if (stemmed_words(text) - stemmed_words(quoted)) & stemmed_words(others):
        return "it uses words of a memory that it does not name"
    ids = tuple(sorted(m.memory_id for m in named))
    kind: Kind = "connection" if name == "connections" else "note"
    return Proposal(
        kind, BY_MODEL, scope, ids, text, stated_confidence(part.get("confidence"), MAX_CONFIDENCE), found_by="lm"
    )


def _named(memories: Mapping[str, Memory], labels: object) -> list[Memory]:
    """Returns the memories of labels, each once; none where a label is of no memory."""
    found = {label: memories.get(label) for label in _texts(labels)}
    return [m for m in found.values() if m is not None] if all(found.values()) else []


def _texts(value: object) -> list[str]:
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [text for part in parts if isinstance(part, str) and (text := " ".join(part.split()))]
