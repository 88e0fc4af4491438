"""Forms items of notes with a language model: each session is read once, with the earlier notes of its scope."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palimpsest.core.ids import content_id
from palimpsest.formation.lm.earlier_notes import EarlierNotes, earlier_notes
from palimpsest.formation.lm.read_reflection import ReadNote, read_reflection
from palimpsest.formation.lm.reflection_program import (
    INSTRUCTIONS,
    answer_schema,
    load_reflection,
    reflection_hash,
)
from palimpsest.formation.rules import form_items as form_items_by_rules
from palimpsest.formation.session import NoteItem, Session
from palimpsest.lm.run_program import LmProgram, ProgramInput, ProgramRun, ProgramRunner
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_settings import LmSettings, lm_settings

if TYPE_CHECKING:
    import dspy

MAX_CHARACTERS = 12_000
"""Of the turns that are read at once; a longer session is read in several parts."""
MAX_ANSWER_TOKENS = 2000
_FIXED_TOKENS = 1200


@dataclass(frozen=True)
class _Part:
    """Turns that are read at once: `session` from turn `first` on, `count` of them."""

    session: Session
    first: int
    count: int
    earlier: EarlierNotes

    @property
    def input(self) -> ProgramInput:
        """What the program reads."""
        session = self.session
        turns = list(enumerate(session.turns, 1))[self.first : self.first + self.count]
        lines = [f"[{n}] {turn.name}: {' '.join(turn.text.split())[:MAX_CHARACTERS]}" for n, turn in turns]
        fields = {"conversation": "\n".join(lines), "earlier_notes": self.earlier.text}
        related = (session.document_id, *session.chunk_ids, *self.earlier.chunk_ids)
        texts = tuple(turn.text for turn in session.turns)
        return ProgramInput(f"{session.document_id}:{self.first}", fields, texts, related)


class LmReflection:
    """Forms items with a model.

    A session that gives orders to a model is not shown to it.

    Attributes:
        run: what the last call of `form_items` paid, and what it did not read.
        dropped: parts of answers that the turns do not state, by reason.
    """

    def __init__(
        self,
        settings: LmSettings,
        ledger: Ledger,
        max_cost: float | None = None,
        instructions: str = INSTRUCTIONS,
        with_rules: bool = False,
    ):
        """Makes a reflection.

        Args:
            settings: the model.
            ledger: where answers are stored.
            max_cost: the most that it may spend; None means no limit.
            instructions: of the program.
            with_rules: items of rules too.

        Raises:
            PalimpsestError: a budget is set, and no price.
        """
        self._instructions, self._with_rules = instructions, with_rules
        self._parts: dict[str, _Part] = {}
        self._runner = ProgramRunner(self._program(), settings, ledger, max_cost)
        self.run: ProgramRun[ReadNote] = ProgramRun()
        self.dropped: Counter[str] = Counter()

    def form_items(self, sessions: Sequence[Session]) -> Iterator[list[NoteItem]]:
        """Yields the items of each session.

        Raises:
            ComponentFailed: most answers cannot be read.
        """
        by_rules = list(form_items_by_rules(sessions))
        parts = self._parts_of(sessions, by_rules)
        self.run = self._runner.run([p.input for p in parts])
        by_lm: dict[str, list[NoteItem]] = {}
        for part in parts:
            if (read := self.run.found.get(part.input.input_id)) is not None:
                by_lm.setdefault(part.session.document_id, []).extend(read.items)
                self.dropped.update(read.dropped)
        for session, items in zip(sessions, by_rules, strict=True):
            found = by_lm.get(session.document_id, [])
            yield join_items(items, found) if self._with_rules else found

    def estimate(self, sessions: Sequence[Session]) -> tuple[int, float]:
        """Returns (calls, cost): how many calls have no answer in the ledger, and the most that these can cost."""
        parts = self._parts_of(sessions, list(form_items_by_rules(sessions)))
        return self._runner.estimate([p.input for p in parts])

    def _parts_of(self, sessions: Sequence[Session], by_rules: Sequence[Sequence[NoteItem]]) -> list[_Part]:
        earlier = earlier_notes(sessions, by_rules)
        parts = [p for session, notes in zip(sessions, earlier, strict=True) for p in _split(session, notes)]
        self._parts = {p.input.input_id: p for p in parts}
        return parts

    def _program(self) -> LmProgram[ReadNote]:
        return LmProgram(
            name="reflection",
            unit="sessions",
            program_hash=reflection_hash(self._instructions),
            instructions=self._instructions,
            schema=answer_schema(),
            fixed_tokens=_FIXED_TOKENS,
            max_answer_tokens=MAX_ANSWER_TOKENS,
            without_lm="reflection: rules",
            load=lambda: load_reflection(self._instructions),
            read=self._read,
        )

    def _read(self, input_id: str, answer: "dspy.Prediction") -> ReadNote:
        part = self._parts[input_id]
        return read_reflection(part.session, part.earlier, dict(answer.items()))


def join_items(by_rules: Sequence[NoteItem], by_lm: Sequence[NoteItem]) -> list[NoteItem]:
    """Returns the items of both; of two of one kind that quote the same words, the one by rules.

    Two quotes are of the same words where one contains the other.
    """
    return [*by_rules, *(i for i in by_lm if not any(i.kind == r.kind and _same(i.span, r.span) for r in by_rules))]


def reflection_key() -> str:
    """Returns a key that differs between the programs and models of two builds.

    Raises:
        PalimpsestError: no model is set.
    """
    return content_id(reflection_hash(), *lm_settings().key_parts)


def _split(session: Session, earlier: EarlierNotes) -> Iterator[_Part]:
    """Yields the parts of a session: whole turns, as many as are read at once."""
    first = size = 0
    for n, turn in enumerate(session.turns):
        length = min(len(turn.text), MAX_CHARACTERS)
        if n > first and size + length > MAX_CHARACTERS:
            yield _Part(session, first, n - first, earlier)
            first, size = n, 0
        size += length
    yield _Part(session, first, len(session.turns) - first, earlier)


def _same(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return (a[0] <= b[0] and b[1] <= a[1]) or (b[0] <= a[0] and a[1] <= b[1])
