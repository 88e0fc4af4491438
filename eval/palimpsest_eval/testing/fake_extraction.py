"""Scripted answers to the program that extracts facts: `FakeLMServer(reply=extraction_reply)`; no proof of quality."""

import json
import re

_TEXT = re.compile(r"\[\[ ## text ## \]\]\s*\n(.*?)(?=\n\s*\[\[ ## )", re.DOTALL)


def extraction_reply(prompt: str) -> str:
    """Returns an answer in the form of the program: one fact of the first sentence, and one that no text states."""
    found = _TEXT.search(prompt)
    sentence = re.split(r"(?<=[.!?])\s", found[1].strip())[0] if found else ""
    words = re.findall(r"\w+", sentence) or [""]
    stated = [
        {"source": "I", "target": words[-1], "type": "talks_about", "fact": sentence},
        {"source": "I", "target": "the moon", "type": "owns", "fact": "I own the moon"},
    ]
    fields = {"entities": [{"type": "concept", "name": words[-1], "importance": 0.5}], "relationships": stated}
    return "".join(f"[[ ## {k} ## ]]\n{json.dumps(v)}\n\n" for k, v in fields.items()) + "[[ ## completed ## ]]"
