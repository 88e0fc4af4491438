"""Scripted answers to the prompts of the RAGAS judge, for `FakeLMServer(reply=judge_reply)`; no proof of quality."""

import json
import re

_INPUT = re.compile(r"same with the following input\ninput: (.*)\nOutput: $", re.DOTALL)


def judge_reply(prompt: str) -> str:
    """Returns an answer in the form that a prompt asks for.

    A statement is supported where the context contains it; a context is useful where it shares a long word with the
    question; an answer is the first line of its context.
    """
    found = _INPUT.search(prompt)
    if found is None:
        context = prompt.partition("Context:\n")[2]
        return context.strip().partition("\n")[0] or "It is not known."
    payload = json.loads(found[1])
    if "verify if the context was useful" in prompt:
        words = set(re.findall(r"\w{5,}", payload["question"].lower()))
        return json.dumps({"reason": "scripted", "verdict": int(any(w in payload["context"].lower() for w in words))})
    if "statements" in payload:
        verdicts = [
            {"statement": s, "reason": "scripted", "verdict": int(s in payload["context"])}
            for s in payload["statements"]
        ]
        return json.dumps({"statements": verdicts})
    if "context" in payload:
        lines = payload["answer"].split("\n")
        found_lines = [
            {"statement": s, "reason": "scripted", "attributed": int(s in payload["context"])} for s in lines
        ]
        return json.dumps({"classifications": found_lines})
    return json.dumps({"statements": [s for s in payload["answer"].split(". ") if s]})
