"""A fact: subject, predicate, and another entity or a value, as one clause of a memory states it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Mentioned:
    """An entity where a text names it, in characters of the text."""

    entity_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Named:
    """The entities of a memory.

    Attributes:
        mentions: where its text names them.
        types: of the entities, by id; `name` may be a person or a thing.
        speaker: who says `I`; empty where that is no entity.
        topic: what the passage is about, by its title; empty where that is no entity.
        topic_name: the title.
        antecedent: what a pronoun that opens the text refers to; empty where it is no entity, None where unknown.
        is_page: whether the text is a passage and not a single statement.
    """

    mentions: Sequence[Mentioned]
    types: Mapping[str, str]
    speaker: str = ""
    topic: str = ""
    topic_name: str = ""
    antecedent: str | None = None
    is_page: bool = False

    @property
    def entities(self) -> tuple[str, ...]:
        """Ids of the entities that the text names or is about; empty where there is none."""
        return *(m.entity_id for m in self.mentions), self.speaker, self.topic, self.antecedent or ""

    def with_own_types(self) -> "Named":
        """Returns the same with the types of these entities only: it is sent to another process."""
        return replace(self, types={e: self.types[e] for e in self.entities if e in self.types})


@dataclass(frozen=True, order=True)
class StatedName:
    """A name that a language model lists, where the text has it; its type is empty where the model states none."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, order=True)
class StatedEntity:
    """What a language model states of an entity that a memory names: its type, and its importance, 0 to 1."""

    entity_id: str
    type: str
    importance: float


@dataclass(frozen=True, order=True)
class Fact:
    """What one clause states of an entity.

    Attributes:
        subject: id of an entity.
        predicate: of the vocabulary, or `is_a`; empty where it says that whatever was stated of the two has ended.
        object_entity: id of the other entity; empty where the fact has a value.
        value: the words that fill the predicate; empty where there is another entity.
        start, end: the clause, in characters of the text.
        is_negated: the clause denies it.
        modality: `stated`, `past`, `planned` or `ended`; what is wished, supposed, reported or a question is no fact.
        confidence: in [0, 1].
    """

    subject: str
    predicate: str
    object_entity: str
    value: str
    start: int
    end: int
    is_negated: bool
    modality: str
    confidence: float
