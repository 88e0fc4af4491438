"""A stand-in for a chat model: it repeats the memory whose words the request shares most, with its citation."""

import re
from collections.abc import Sequence

from palimpsest.text.terms import query_terms, terms

STAND_IN_NOTE = "A scripted server answers: it repeats one memory and shows the steps, not how a model answers."
NO_ANSWER = "Neither the conversation nor memory has the answer."
_LINE = re.compile(r"^- \([^)]*\) (.*) (\[(?:\d+|(?:memory|pending):[0-9a-f]{16})\])$", re.MULTILINE)


def chat_reply(messages: Sequence[str]) -> str:
    """Returns the line of the memory message that shares the most words with the last message, and its citation."""
    question_terms = set(query_terms(messages[-1]))
    lines = [line for message in messages[:-1] for line in _LINE.findall(message)]
    shared = [len(question_terms.intersection(terms(text))) for text, _ in lines]
    if not any(shared):
        return NO_ANSWER
    text, citation = lines[shared.index(max(shared))]
    return f"{text} {citation}"
