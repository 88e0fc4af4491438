"""From a model's answer to facts: every part must be in the text, and every name an entity of the memory."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from palimpsest.facts.fact import Fact, Named, StatedEntity
from palimpsest.facts.phrases import MAX_VALUE_CHARS
from palimpsest.facts.predicates import normalize_predicate
from palimpsest.relations.classify.lm.read_answer import find_quote
from palimpsest.text.normalize import fold

MAX_FACTS = MAX_ENTITIES = 30
"""Of one memory; what a model lists beyond is dropped."""
ENTITY_TYPES = frozenset({"person", "organisation", "place", "product", "project", "event", "concept", "date"})
"""Types of entities that the program names."""
_CONFIDENCE = 0.7
_PREDICATE = re.compile(r"[a-z][a-z_]{1,39}")
_SPEAKERS = frozenset({"i", "me", "the speaker", "speaker", "user", "the user"})


@dataclass
class ReadFacts:
    """The facts and entities of an answer, and how many relationships and entities were dropped, by reason."""

    facts: list[Fact] = field(default_factory=list)
    entities: list[StatedEntity] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    dropped_entities: Counter[str] = field(default_factory=Counter)


def read_extraction(
    text: str,
    named: Named,
    speaker: str,
    relationships: Sequence[Mapping[str, object]],
    entities: Sequence[Mapping[str, object]] = (),
) -> ReadFacts:
    """Returns the facts of the relationships, and the entities, that a model listed.

    A relationship counts where its `fact` is a quotation of the text, its source is an entity of the memory, and its
    target is one or is in the quotation. A fact can therefore add no word that the memory lacks, and name no entity of
    elsewhere.

    Args:
        text: the memory's.
        named: its entities.
        speaker: who says it.
        relationships: of the answer: source, target, type, fact.
        entities: of the answer: type, name, importance. One counts where its name is an entity of the memory.
    """
    read, ids = ReadFacts(), _entity_ids(text, named, speaker)
    _read_entities(entities, ids, read)
    for n, relationship in enumerate(relationships):
        source, target, kind, quote = (
            str(relationship.get(k) or "").strip() for k in ("source", "target", "type", "fact")
        )
        span = find_quote(text, quote)
        predicate = normalize_predicate("_".join(re.findall(r"[a-z]+", kind.lower())))
        is_negated = predicate.startswith("not_")
        subject, other = ids.get(_key(source), ""), ids.get(_key(target), "")
        value = "" if other else _value(quote, target)
        reason = _problem(n, span is not None, predicate.removeprefix("not_"), subject, other or value)
        if reason or span is None or other == subject:
            read.dropped[reason or "it is about itself"] += 1
            continue
        read.facts.append(
            Fact(subject, predicate.removeprefix("not_"), other, value, *span, is_negated, "stated", _CONFIDENCE)
        )
    read.facts = sorted(set(read.facts))
    return read


def _read_entities(entities: Sequence[Mapping[str, object]], ids: Mapping[str, str], read: ReadFacts) -> None:
    """Adds the entities that the memory names; of two answers about one entity the more important counts."""
    best: dict[str, StatedEntity] = {}
    for n, entity in enumerate(entities):
        entity_id, kind = (
            ids.get(_key(str(entity.get("name") or "")), ""),
            str(entity.get("type") or "").strip().lower(),
        )
        if n >= MAX_ENTITIES or not entity_id or kind not in ENTITY_TYPES:
            problem = "its name is no entity of the memory" if not entity_id else "its type is unknown"
            read.dropped_entities["too many" if n >= MAX_ENTITIES else problem] += 1
            continue
        stated = StatedEntity(entity_id, kind, _share(entity.get("importance")))
        known = best.get(entity_id)
        if known is None or (-stated.importance, stated.type) < (-known.importance, known.type):
            best[entity_id] = stated
    read.entities = sorted(best.values())


def _share(value: object) -> float:
    """Returns a number of 0 to 1; 0 where an answer has none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return round(min(max(float(value), 0.0), 1.0), 3) if is_number else 0.0  # type: ignore[arg-type]


def _problem(n: int, is_quoted: bool, predicate: str, subject: str, filler: str) -> str:
    """Returns why a relationship does not count, empty where it does."""
    checks = (
        (n < MAX_FACTS, "too many"),
        (is_quoted, "its words are not in the text"),
        (_PREDICATE.fullmatch(predicate) is not None, "its type is no name"),
        (bool(subject), "its source is no entity of the memory"),
        (bool(filler), "its target is not in the words quoted"),
    )
    return next((reason for is_met, reason in checks if not is_met), "")


def _entity_ids(text: str, named: Named, speaker: str) -> dict[str, str]:
    """Returns the entities of a memory by their names in its text; the speaker and the title too."""
    ids = {_key(text[m.start : m.end]): m.entity_id for m in named.mentions}
    if named.topic:
        ids.setdefault(_key(named.topic_name), named.topic)
    if named.speaker:
        ids |= dict.fromkeys((*_SPEAKERS, _key(speaker)), named.speaker)
    ids.pop("", None)
    return ids


def _value(quote: str, target: str) -> str:
    span = find_quote(quote, target) if target else None
    found = " ".join(quote[span[0] : span[1]].split()) if span else ""
    return found if len(found) <= MAX_VALUE_CHARS else ""


def _key(name: str) -> str:
    return fold(name.strip().strip("\"'`“”.,")).removeprefix("the ")
