"""The entities of each memory, as the extraction of facts needs them: names, who speaks, what the passage is about."""

import re
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import entity_id as entity_id_of
from palimpsest.core.scopes import SCOPE
from palimpsest.entities.names.find_names import entity_key
from palimpsest.facts.fact import Mentioned, Named
from palimpsest.text.chat_roles import NO_PERSON_ROLES
from palimpsest.text.normalize import fold

_IN_BRACKETS = re.compile(r"(?:(?<!\s)\s++)?\([^()]*+\)$")
_MAX_NAME_WORDS = 4


@dataclass(frozen=True)
class FactInputs:
    """What facts are read from.

    Attributes:
        memories: the memories table.
        mentions: where entities are named in them.
        entities: the entities table.
    """

    memories: pl.DataFrame
    mentions: pl.DataFrame
    entities: pl.DataFrame


def named_entities(inputs: FactInputs) -> dict[str, Named]:
    """Returns the entities of each memory that names or is about any, by memory id."""
    types = {
        entity_id: _reference_type(kind, name)
        for entity_id, kind, name in inputs.entities.select("entity_id", "type", "name").iter_rows()
    }
    by_name = _entities_by_name(inputs.entities)
    mentions: dict[str, list[Mentioned]] = {}
    placed = inputs.mentions.select("memory_id", "entity_id", "char_start", "char_end").drop_nulls("char_start")
    for memory_id, entity_id, start, end in placed.sort(placed.columns).iter_rows():
        mentions.setdefault(memory_id, []).append(Mentioned(entity_id, start, end))
    out = {}
    texts = inputs.memories.select("memory_id", *SCOPE, "unit", "speaker", "title", "refers_to")
    for memory_id, collection, user, project, unit, speaker, title, opening in texts.iter_rows():
        scope = collection, user, project
        who = about = antecedent = None
        if speaker and speaker.casefold() not in NO_PERSON_ROLES:
            who = by_name.get((*scope, fold(speaker))) or entity_id_of(*scope, entity_key(speaker))
            types[who] = "person"
        if title:
            mentioned = {m.entity_id for m in mentions.get(memory_id, ())}
            bare = by_name.get((*scope, fold(_IN_BRACKETS.sub("", title))))
            about = bare if bare in mentioned else by_name.get((*scope, fold(title)))
        if opening:
            antecedent = by_name.get((*scope, fold(opening)), "")
        if memory_id in mentions or who or about or antecedent:
            is_page = unit == "chunk"
            names = mentions.get(memory_id, ())
            out[memory_id] = Named(names, types, who or "", about or "", title or "", antecedent, is_page)
    return out


def _entities_by_name(entities: pl.DataFrame) -> dict[tuple[str, ...], str]:
    """Returns the id of each entity by scope and folded name; an own name counts before an alias of another."""
    found: dict[tuple[str, ...], str] = {}
    rows = entities.select("entity_id", *SCOPE, "name", "aliases").sort("entity_id").rows()
    for entity_id, *scope, name, _ in rows:
        found.setdefault((*scope, fold(name)), entity_id)
    for entity_id, *scope, _, aliases in rows:
        for alias in aliases or ():
            found.setdefault((*scope, fold(alias)), entity_id)
    return found


def _reference_type(kind: str, name: str) -> str:
    """Returns the type of an entity as pronouns need it: `name` where it may be a person or a thing."""
    if kind == "person":
        return kind if " " in name and " of " not in name else "name"
    if kind in ("title", "name"):
        words = name.split()
        is_like_person = all(w[0].isupper() and not any(c.isdigit() for c in w) for w in words) and words[0] != "The"
        return "name" if is_like_person and 1 < len(words) <= _MAX_NAME_WORDS else "thing"
    return kind


def extraction_key(text: str, named: Named) -> tuple[object, ...]:
    """Returns what the facts of a memory depend on; equal keys have equal facts."""
    others = (named.speaker, named.topic, named.antecedent)
    names = tuple((m.start, m.end, m.entity_id) for m in named.mentions)
    types = tuple(named.types.get(e) for e in named.entities)
    return text, names, *others, types, named.topic_name, named.is_page
