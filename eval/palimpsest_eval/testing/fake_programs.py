"""Scripted answers to the programs that reflect and extract, for `FakeLMServer(reply=...)`; no proof of quality."""

import re
from collections.abc import Mapping, Sequence

from palimpsest.core.ids import JsonObject
from palimpsest_eval.testing.fake_lm_server import program_answer, prompt_field

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
_TURN = re.compile(r"^\[(\d+)\] ([^:]*): (.*)$", re.MULTILINE)


def turns_of(prompt: str) -> list[tuple[int, str, str]]:
    """Returns the turns of a prompt: number, speaker, text."""
    return [(int(n), speaker, text) for n, speaker, text in _TURN.findall(prompt_field(prompt, "conversation"))]


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
    inference: JsonObject = {
        "statement": f"{speaker} finds this important: {text}",
        "confidence": 0.6,
        "evidence": [{"turn": number, "quote": text}],
        "alternatives": ["It is small talk."],
        "invalidation_conditions": [f"{speaker} says otherwise."],
    }
    facts: list[JsonObject] = [
        {"statement": f"{speaker} says: {text}", "source_turn": number, "quote": text},
        {"statement": f"{speaker} owns the moon.", "source_turn": number, "quote": "I own the moon"},
    ]
    return reflection_answer({"facts": facts, "inferences": [inference]})


def extraction_reply(prompt: str) -> str:
    """Returns one fact of the first sentence, and one that no text states."""
    sentence = re.split(r"(?<=[.!?])\s", prompt_field(prompt, "text"))[0]
    last = (re.findall(r"\w+", sentence) or [""])[-1]
    relationships = [
        {"source": "I", "target": last, "type": "talks_about", "fact": sentence},
        {"source": "I", "target": "the moon", "type": "owns", "fact": "I own the moon"},
    ]
    entities = [{"type": "concept", "name": last, "importance": 0.5}]
    return program_answer({"entities": entities, "relationships": relationships}, as_json=False)
