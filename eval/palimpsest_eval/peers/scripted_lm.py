"""A language model that answers by rules, behind the API of OpenAI, in the output format that each prompt asks for.

It measures the machinery around a model: calls, tokens, times, and retrieval with what `statements` finds. A real model
extracts better and takes seconds for each call.
"""

import json
import re
from collections.abc import Callable, Sequence

from palimpsest.core.json_types import JsonValue
from palimpsest.text.words import content_words
from palimpsest_eval.peers.statements import Statement, names_of, statements, things
from palimpsest_eval.testing.fake_lm_server import FakeLMServer

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
