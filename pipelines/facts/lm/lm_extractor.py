"""Extracts facts with a language model: each memory is read once, in threads, within a budget."""

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject
from palimpsest.core.progress import progress, say
from palimpsest.facts.fact import Fact, Named
from palimpsest.facts.lm.extraction_program import (
    INSTRUCTIONS,
    MAX_TEXT_CHARACTERS,
    answer_schema,
    extraction_hash,
    load_extraction,
)
from palimpsest.facts.lm.read_extraction import ReadFacts, read_extraction
from palimpsest.relations.classify.label_types import LabelPair
from palimpsest.relations.classify.lm.answer_format import answer_adapter
from palimpsest.relations.classify.lm.budget import Budget, highest_cost
from palimpsest.relations.classify.lm.ledger import Ledger, LmAnswer
from palimpsest.relations.classify.lm.lm_client import ChatMessage, LmClient, LmUnavailable
from palimpsest.relations.classify.lm.lm_settings import LmSettings
from palimpsest.relations.classify.lm.pair_engine import PairEngine
from palimpsest.relations.classify.lm.read_answer import CONTAINS_INSTRUCTIONS, contains_instructions

MAX_ANSWER_TOKENS = 1200
_FIXED_TOKENS = 700
_MAX_CONSECUTIVE_FAILURES = 8  # then the server is down, and the remaining memories are not tried
_MAX_UNREADABLE_SHARE = 0.5
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
        calls, tokens, cost: of calls made now.
        without_answer: memories that have none, by reason; a later build reads them.
        dropped: relationships of answers that the texts do not state, by reason.
    """

    facts: dict[str, list[Fact]] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    without_answer: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


class _ExtractionClient(LmClient):
    """Requests the form of an extraction, not of a label."""

    def complete(self, messages: Sequence[ChatMessage], response_format: JsonObject | None = None) -> LmAnswer:
        if response_format is None:
            return super().complete(messages, None)
        schema, kind = answer_schema(), response_format["type"]
        if kind == "json_object":
            return super().complete(messages, {"type": kind, "schema": schema})
        return super().complete(messages, {"type": kind, "json_schema": {"name": "facts", "schema": schema}})


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
        if max_cost is not None and not (settings.price_in or settings.price_out):
            raise PalimpsestError("--max-cost: needs a price; set PALIMPSEST_LM_PRICE=IN,OUT for a million tokens")
        self._settings = replace(settings, max_tokens=max(settings.max_tokens, MAX_ANSWER_TOKENS))
        self._ledger, self._budget, self._instructions = ledger, Budget(max_cost), instructions
        self.program = extraction_hash(instructions)
        self._failures, self._lock = 0, threading.Lock()

    def key(self, memory: MemoryText) -> str:
        """Returns the key of the answer in the ledger."""
        inputs = (memory.inputs[name] for name in ("text", "speaker", "title"))
        return content_id(self.program, *self._settings.key_parts, memory.memory_id, *inputs)

    def estimate(self, memories: Sequence[MemoryText]) -> tuple[int, float]:
        """Returns (calls, cost): how many memories have no answer in the ledger, and the most that these can cost."""
        todo = [m for m in memories if not contains_instructions(m.text) and self._ledger.get(self.key(m)) is None]
        return len(todo), sum(self._highest_cost(m) for m in todo)

    def extract(self, memories: Sequence[MemoryText]) -> Extraction:
        """Returns the facts of memories.

        Raises:
            ComponentFailed: more than half of the answers cannot be read; they are removed from the ledger.
        """
        out, unreadable = Extraction(), list[MemoryText]()
        if not memories:
            return out
        calls, cost = self.estimate(memories)
        if calls:
            say(f"facts: {calls} calls to {self._settings.model}, {len(memories) - calls} known; at most {cost:.4f}")
        client = _ExtractionClient(self._settings)
        with progress("facts", len(memories), "memories") as advance:

            def read(memory: MemoryText) -> None:
                found, paid = self._read(client, memory)
                with self._lock:
                    advance(1)
                    if paid is not None:
                        out.calls, out.cost = out.calls + 1, out.cost + paid.cost
                        out.tokens += paid.tokens_in + paid.tokens_out
                    if isinstance(found, str):
                        out.without_answer[found] += 1
                        unreadable.extend([memory] if found == "unreadable" else [])
                    else:
                        out.facts[memory.memory_id] = found.facts
                        out.dropped.update(found.dropped)

            with ThreadPoolExecutor(self._settings.concurrency) as pool:
                list(pool.map(read, memories))
        if len(unreadable) > _MAX_UNREADABLE_SHARE * (len(unreadable) + len(out.facts)):
            self._ledger.drop((m.memory_id, m.memory_id) for m in unreadable)
            raise ComponentFailed(
                f"facts: {len(unreadable)} answers of the model in PALIMPSEST_LM cannot be read, most of them; nothing"
                " was published; check the server and run again, or set `facts: rules` in collection.yaml"
            )
        return out

    def _read(self, client: LmClient, memory: MemoryText) -> tuple[ReadFacts | str, LmAnswer | None]:
        """Returns what was read in a memory, or why nothing was; and the answer where it was paid now."""
        if contains_instructions(memory.text):
            return CONTAINS_INSTRUCTIONS, None
        key = self.key(memory)
        is_known = self._ledger.get(key) is not None
        if not is_known and self._failures >= _MAX_CONSECUTIVE_FAILURES:
            return "server down", None
        reserved = 0.0 if is_known else self._highest_cost(memory)
        if not is_known and not self._budget.reserve(reserved):
            return "budget", None
        ids = LabelPair(memory.memory_id, memory.memory_id, "", "")
        engine = PairEngine(client, self._ledger, key, ids, self.program)
        try:
            found = self._predict(engine, memory)
        except LmUnavailable:
            self._failures += 1
            return "no answer", None
        finally:
            self._budget.settle(reserved, engine.answer.cost if engine.paid and engine.answer is not None else 0.0)
        self._failures = 0
        return found, engine.answer if engine.paid else None

    def _predict(self, engine: PairEngine, memory: MemoryText) -> ReadFacts | str:
        import dspy

        lm = dspy.LM(
            f"openai/{self._settings.model}",
            engine=engine,
            cache=False,
            num_retries=0,
            temperature=0.0,
            max_tokens=self._settings.max_tokens,
        )
        adapter = answer_adapter(self._settings.answer_format)
        try:
            with dspy.context(lm=lm, adapter=adapter, disable_history=True, track_usage=False):
                answer = load_extraction(instructions=self._instructions)(**memory.inputs)
        except Exception as e:
            if engine.answer is not None:
                return "unreadable"
            raise LmUnavailable(type(e).__name__) from None
        return read_extraction(memory.text, memory.named, memory.speaker, answer.relationships)

    def _highest_cost(self, memory: MemoryText) -> float:
        characters = len(self._instructions) + sum(map(len, memory.inputs.values()))
        return highest_cost(self._settings, characters, _FIXED_TOKENS)
