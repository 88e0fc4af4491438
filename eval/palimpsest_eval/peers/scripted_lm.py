"""A language model that answers by rules, behind the API of OpenAI, in the output format that each prompt asks for.

It measures the machinery around a model: calls, tokens, times, and retrieval with what `statements` finds. A real model
extracts better and takes seconds for each call.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from palimpsest.core.ids import JsonValue
from palimpsest.text.words import NON_TOPIC_WORDS, content_words
from palimpsest_eval.testing.fake_lm_server import FakeLMServer

# What the scripted language model finds in a text: things, and one statement for each pair of a sentence. No model.
#
# Things are capitalised names and, where a sentence has few of these, its longest runs of content words. It is a modest
# extraction: a real model finds more, resolves pronouns and names relations better.

OF_SENTENCE, OF_TEXT = 4, 6
"""The most statements of a sentence, and of a text."""

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*[.!?]*")
_HEAD = re.compile(r"(?:\[[^\]]*\]\s*)?(?P<speaker>[A-Z][\w'. -]{0,38}): ")
_NAME = re.compile(r"\b[A-Z][\w'&-]*(?: (?:of |the |de )?[A-Z][\w'&-]*)*")
_RUN = re.compile(r"[A-Za-z][\w-]*(?: [A-Za-z][\w-]*)*")
_WORDS_BETWEEN, _WORDS_OF_RUN = 6, 3


@dataclass(frozen=True)
class Statement:
    """Two things of one sentence.

    Attributes:
        subject: one thing; the speaker or the title where the sentence has one of its own only.
        relation: the words between both, where these are few.
        other: the other thing.
        sentence: the sentence, the speaker's name before it.
    """

    subject: str
    relation: str
    other: str
    sentence: str


def statements(text: str) -> list[Statement]:
    """Returns the statements of a text, in order; each pair of things once."""
    head = _HEAD.match(text)
    topic = head["speaker"] if head else _title(text)
    found: dict[tuple[str, str], Statement] = {}
    for match in _SENTENCE.finditer(text, head.end() if head else len(topic)):
        sentence = match[0].strip()
        for statement in _of_sentence(sentence, topic, f"{topic}: {sentence}" if head else sentence):
            found.setdefault((statement.subject, statement.other), statement)
    return list(found.values())[:OF_TEXT]


def things(text: str) -> list[str]:
    """Returns the things of a sentence or a question: its names, then its longest runs of content words."""
    names = [name for match in _NAME.finditer(text) if (name := _without_stop_words(match[0]))]
    runs = sorted(_runs(text), key=len, reverse=True) if len(names) < 2 else []
    unique = {thing.lower(): thing for thing in reversed([*names, *runs[: 3 - len(names)]])}
    return list(reversed(unique.values()))


def names_of(found: Sequence[Statement]) -> list[str]:
    """Returns each thing of the statements once."""
    return list(dict.fromkeys(name for s in found for name in (s.subject, s.other)))


def _of_sentence(sentence: str, topic: str, shown: str) -> Iterator[Statement]:
    found = [thing for thing in things(sentence) if thing.lower() != topic.lower()]
    chain = [topic, *found] if topic else found
    for other in chain[1 : OF_SENTENCE + 1]:
        yield Statement(chain[0], _relation(sentence, chain[0], other), other, shown)


def _relation(sentence: str, subject: str, other: str) -> str:
    start, end = sentence.find(subject), sentence.find(other)
    between = sentence[start + len(subject) : end].split() if 0 <= start < end else sentence[: max(end, 0)].split()
    plain = [word for raw in between[-_WORDS_BETWEEN:] if (word := re.sub(r"\W", "", raw))]
    return " ".join(plain) or "mentions"


def _title(text: str) -> str:
    first = text.split("\n", 1)[0].strip()
    return first if "\n" in text and len(first) <= 80 else ""


def _runs(text: str) -> Iterator[str]:
    """Yields runs of content words, and of the last words of a long one."""
    for match in _RUN.finditer(text):
        run: list[str] = []
        for word in [*match[0].split(), ""]:
            if len(word) > 2 and word.lower() not in NON_TOPIC_WORDS:
                run.append(word)
            elif run:
                yield " ".join(run[-_WORDS_OF_RUN:])
                run = []


def _without_stop_words(name: str) -> str:
    words = name.split()
    while words and words[0].lower().split("'")[0] in NON_TOPIC_WORDS:
        words.pop(0)
    return re.sub(r"'s$", "", " ".join(words)) if words and len(words[0]) > 1 else ""


_SUMMARY_WORDS = 400


def scripted_lm() -> FakeLMServer:
    """Returns the server; it counts requests and words."""
    return FakeLMServer({}, chat=answer)


def answer(messages: Sequence[str]) -> str:
    """Returns the answer to the messages of a request; an empty object where no script knows the prompt."""
    prompt = messages[-1]
    for phrase, script in _SCRIPTS.items():
        if phrase in prompt or phrase in messages[0]:
            return script(prompt)
    return "{}"


def _between(prompt: str, start: str, end: str) -> str:
    """Returns what is between two marks, the last of them in the prompt; empty where they are missing."""
    _, found, rest = prompt.rpartition(start)
    return rest.split(end, 1)[0].strip() if found else ""


def _tag(prompt: str, name: str) -> str:
    return _between(prompt, f"<{name}>", f"</{name}>")


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- LightRAG ---


def _lightrag_extract(prompt: str) -> str:
    found = statements(_between(prompt, "---Input Text---\n```\n", "\n```\n"))
    about = {name: next(s.sentence for s in found if name in (s.subject, s.other)) for name in names_of(found)}
    lines = [f"entity<|#|>{name}<|#|>Concept<|#|>{about[name]}" for name in about]
    lines += [f"relation<|#|>{s.subject}<|#|>{s.other}<|#|>{s.relation}<|#|>{s.sentence}" for s in found]
    return "\n".join([*lines, "<|COMPLETE|>"])


def _lightrag_summary(prompt: str) -> str:
    lines = _between(prompt, "Description List:\n\n```\n", "\n```\n").splitlines()
    texts = [str(json.loads(line).get("Description", "")) for line in lines if line.startswith("{")]
    return " ".join(" ".join(dict.fromkeys(texts)).split()[:_SUMMARY_WORDS])


def _lightrag_keywords(prompt: str) -> str:
    question = _between(prompt, "User Query: ", "\n\n---Output---")
    return _json({"high_level_keywords": [question], "low_level_keywords": list(things(question))})


# --- graphiti ---


def _graphiti_extract(prompt: str) -> str:
    found = statements(_tag(prompt, "CURRENT MESSAGES"))
    entities: list[JsonValue] = [{"name": name, "entity_type_id": 0} for name in names_of(found)]
    return _json({"extracted_entities": entities, "edges": [_graphiti_edge(s) for s in found]})


def _graphiti_edge(statement: Statement) -> JsonValue:
    return {
        "source_entity_name": statement.subject,
        "target_entity_name": statement.other,
        "relation_type": statement.relation.upper().replace(" ", "_"),
        "fact": statement.sentence,
        "episode_indices": [0],
    }


def _graphiti_timestamps(prompt: str) -> str:
    facts = json.loads(_tag(prompt, "FACTS"))
    return _json({"timestamps": [{"valid_at": None, "invalid_at": None} for _ in facts]})


def _graphiti_same_nodes(prompt: str) -> str:
    """An entity is the same as another one where both names are the same words."""
    known = {str(e["name"]).lower(): e["candidate_id"] for e in json.loads(_tag(prompt, "EXISTING ENTITIES"))}
    rows: list[JsonValue] = [
        {"id": e["id"], "name": e["name"], "duplicate_candidate_id": known.get(str(e["name"]).lower(), -1)}
        for e in json.loads(_tag(prompt, "ENTITIES"))
    ]
    return _json({"entity_resolutions": rows})


def _graphiti_same_edges(prompt: str) -> str:
    """No fact is called a duplicate: graphiti itself finds those in the same words. None is called contradicted."""
    return _json({"duplicate_facts": [], "contradicted_facts": []})


def _graphiti_summaries(prompt: str) -> str:
    messages = _tag(prompt, "MESSAGES") or _tag(prompt, "EPISODES")
    rows: list[JsonValue] = []
    for entity in json.loads(_tag(prompt, "ENTITIES")):
        name = str(entity["name"])
        at = messages.rfind(name)
        words = messages[max(0, at - 80) : at + 160] if at >= 0 else name
        rows.append({"name": name, "summary": f"{entity.get('summary') or ''} {words}".strip()})
    return _json({"summaries": rows})


# --- HippoRAG ---


def _hipporag_entities(prompt: str) -> str:
    return _json({"named_entities": [_plain(name) for name in names_of(statements(prompt))]})


def _hipporag_triples(prompt: str) -> str:
    found = statements(_between(prompt, "Paragraph:\n```\n", "\n```\n"))
    return _json({"triples": [[_plain(s.subject), s.relation, _plain(s.other)] for s in found]})


def _hipporag_facts(prompt: str) -> str:
    """Keeps up to four facts that share a content word with the question, as the examples of the prompt do."""
    question = content_words(_between(prompt, "[[ ## question ## ]]\n", "\n\n"))
    facts = json.loads(_between(prompt, "[[ ## fact_before_filter ## ]]\n", "\n\n"))["fact"]
    kept = [fact for fact in facts if question & content_words(" ".join(fact))]
    return f"[[ ## fact_after_filter ## ]]\n{_json({'fact': kept[:4]})}\n\n[[ ## completed ## ]]"


def _plain(name: str) -> str:
    return re.sub(r"[^\w .'&-]", "", name)


_SCRIPTS: dict[str, Callable[[str], str]] = {
    "Extract entities and relationships from the `---Input Text---`": _lightrag_extract,
    "Based on the last extraction task": lambda _: "<|COMPLETE|>",
    "synthesize a list of descriptions": _lightrag_summary,
    "expert keyword extractor": _lightrag_keywords,
    "<CURRENT MESSAGES>": _graphiti_extract,
    "with their REFERENCE TIMES": _graphiti_timestamps,
    "<EXISTING ENTITIES>": _graphiti_same_nodes,
    "<EXISTING FACTS>": _graphiti_same_edges,
    "updated summary for each entity": _graphiti_summaries,
    "extract named entities from the given paragraph": _hipporag_entities,
    "construct an RDF": _hipporag_triples,
    "[[ ## fact_before_filter ## ]]": _hipporag_facts,
}
"""What is written in the first or the last message of a prompt, and who answers it."""
