"""Scripted answers to the program that reflects: `FakeLMServer(reply=reflection_reply)`; no proof of quality."""

import re
from collections.abc import Mapping, Sequence

from palimpsest.core.ids import JsonObject
from palimpsest_eval.testing.fake_lm_server import program_answer

REFLECTION_FIELDS = (
    "facts",
    "inferences",
    "preferences",
    "decisions",
    "emotional_context",
    "potential_topics",
    "connections",
    "knowledge_gaps",
)
_CONVERSATION = re.compile(r"\[\[ ## conversation ## \]\]\s*\n(.*?)(?=\n\s*\[\[ ## )", re.DOTALL)
_TURN = re.compile(r"^\[(\d+)\] ([^:]*): (.*)$", re.MULTILINE)


def turns_of(prompt: str) -> list[tuple[int, str, str]]:
    """Returns the turns of a prompt: number, speaker, text."""
    found = _CONVERSATION.search(prompt)
    return [(int(n), speaker, text) for n, speaker, text in _TURN.findall(found[1])] if found else []


def reflection_answer(parts: Mapping[str, Sequence[JsonObject]], *, as_json: bool = False) -> str:
    """Returns an answer in the form of the program; parts that are not named are empty."""
    fields = {name: list(parts.get(name, ())) for name in REFLECTION_FIELDS}
    return program_answer(fields, as_json=as_json)


def reflection_reply(prompt: str) -> str:
    """Returns a fact and an inference for the first turn, and a fact that no turn states."""
    turns = turns_of(prompt)
    if not turns:
        return reflection_answer({})
    number, speaker, text = turns[0]
    quoted: list[JsonObject] = [{"turn": number, "quote": text}]
    return reflection_answer(
        {
            "facts": [
                {"statement": f"{speaker} says: {text}", "source_turn": number, "quote": text},
                {"statement": f"{speaker} owns the moon.", "source_turn": number, "quote": "I own the moon"},
            ],
            "inferences": [
                {
                    "statement": f"{speaker} finds this important: {text}",
                    "confidence": 0.6,
                    "evidence": list(quoted),
                    "alternatives": ["It is small talk."],
                    "invalidation_conditions": [f"{speaker} says otherwise."],
                }
            ],
        }
    )
