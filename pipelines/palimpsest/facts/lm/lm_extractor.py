"""Extracts facts with a language model: each memory is read once, in threads, within a budget."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palimpsest.facts.fact import Fact, Named, StatedEntity
from palimpsest.facts.lm.extraction_program import (
    INSTRUCTIONS,
    MAX_TEXT_CHARACTERS,
    answer_schema,
    extraction_hash,
    load_extraction,
)
from palimpsest.facts.lm.read_extraction import ReadFacts, read_extraction
from palimpsest.lm.run_program import LmProgram, ProgramInput, ProgramRunner
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_settings import LmSettings

if TYPE_CHECKING:
    import dspy

MAX_ANSWER_TOKENS = 1200
_FIXED_TOKENS = 700
_UNKNOWN = "(not known)"


@dataclass(frozen=True)
class MemoryText:
    """A memory to be read: its text, its entities, who says it and what it is about."""

    memory_id: str
    text: str
    named: Named
    speaker: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The input fields of the program."""
        return {
            "text": self.text[:MAX_TEXT_CHARACTERS],
            "speaker": self.speaker[:80] or _UNKNOWN,
            "title": self.named.topic_name[:200] or _UNKNOWN,
        }


@dataclass
class Extraction:
    """Facts by memory id, what was paid, and why memories and parts of answers were left out.

    Attributes:
        facts: of each memory that has an answer.
        entities: the same: those of the memory that the model describes.
        calls, tokens, cost: of calls made now.
        without_answer: memories that have none, by reason; a later build reads them.
        dropped: relationships of answers that the texts do not state, by reason.
        dropped_entities: entities of answers that the memories do not name or whose type is unknown, by reason.
    """

    facts: dict[str, list[Fact]] = field(default_factory=dict)
    entities: dict[str, list[StatedEntity]] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    without_answer: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    dropped_entities: Counter[str] = field(default_factory=Counter)


class LmExtractor:
    """A DSPy program over a server. An answer is a function of the memory, the program and the model."""

    def __init__(
        self,
        settings: LmSettings,
        ledger: Ledger,
        max_cost: float | None = None,
        instructions: str = INSTRUCTIONS,
    ):
        """Makes an extractor.

        Raises:
            PalimpsestError: a budget is set, and no price.
        """
        self._instructions = instructions
        self._memories: dict[str, MemoryText] = {}
        self._runner = ProgramRunner(self._program(), settings, ledger, max_cost)

    def estimate(self, memories: Sequence[MemoryText]) -> tuple[int, float]:
        """Returns (calls, cost): how many memories have no answer in the ledger, and the most that these can cost."""
        return self._runner.estimate([_program_input(m) for m in memories])

    def extract(self, memories: Sequence[MemoryText]) -> Extraction:
        """Returns the facts of memories.

        Raises:
            ComponentFailed: more than half of the answers cannot be read; they are removed from the ledger.
        """
        self._memories |= {m.memory_id: m for m in memories}
        run = self._runner.run([_program_input(m) for m in memories])
        facts = {memory_id: found.facts for memory_id, found in run.found.items()}
        dropped = sum((found.dropped for found in run.found.values()), Counter[str]())
        entities = {memory_id: found.entities for memory_id, found in run.found.items()}
        unnamed = sum((found.dropped_entities for found in run.found.values()), Counter[str]())
        return Extraction(facts, entities, run.calls, run.tokens, run.cost, run.without_answer, dropped, unnamed)

    def _program(self) -> LmProgram[ReadFacts]:
        return LmProgram(
            name="facts",
            unit="memories",
            program_hash=extraction_hash(self._instructions),
            instructions=self._instructions,
            schema=answer_schema(),
            fixed_tokens=_FIXED_TOKENS,
            max_answer_tokens=MAX_ANSWER_TOKENS,
            without_lm="facts: rules",
            load=lambda: load_extraction(instructions=self._instructions),
            read=self._read,
        )

    def _read(self, memory_id: str, answer: "dspy.Prediction") -> ReadFacts:
        memory = self._memories[memory_id]
        return read_extraction(memory.text, memory.named, memory.speaker, answer.relationships, answer.entities)


def _program_input(memory: MemoryText) -> ProgramInput:
    return ProgramInput(memory.memory_id, memory.inputs, (memory.text,))
