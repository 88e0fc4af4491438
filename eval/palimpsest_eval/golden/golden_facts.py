"""Golden facts: what passages state, and when an extracted fact is one of them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict, cast

from pydantic import BaseModel, ConfigDict, StringConstraints

from palimpsest.core.errors import PalimpsestError
from palimpsest.facts.vocabulary import normalize_predicate
from palimpsest.text.terms import terms
from palimpsest_eval.golden.questions import GoldenError, Quote, Tables, parse_question
from palimpsest_eval.golden.resolve import QuoteIndex
from palimpsest_eval.metrics import numbered_lines

_MAX_RATIO = 3.0  # of the words of two phrases that match


class GoldenFact(TypedDict):
    """A fact that a passage states."""

    subject: str
    predicate: str
    also: NotRequired[list[str]]
    object: NotRequired[str]
    value: NotRequired[str]
    negated: NotRequired[bool]
    core: NotRequired[bool]
    optional: NotRequired[bool]


class Passage(TypedDict):
    """A line of the golden facts."""

    id: str
    collection: str
    uri: str
    user: NotRequired[str]
    text: str
    facts: list[GoldenFact]


@dataclass(frozen=True)
class StatedFact:
    """A fact of a build; its subject and its object by all their names.

    Attributes:
        subject: names of the subject.
        predicate: of the fact.
        filler: names of the other entity, or the value alone.
        is_negated: the clause denies it.
        confidence: of the fact.
    """

    subject: tuple[str, ...]
    predicate: str
    filler: tuple[str, ...]
    is_negated: bool
    confidence: float

    def __str__(self) -> str:
        denied = "not " if self.is_negated else ""
        return f"{self.subject[0]} | {denied}{self.predicate} | {self.filler[0]}"


def read_passages(path: Path) -> list[Passage]:
    """Reads golden facts.

    Raises:
        PalimpsestError: no such file, or a line without one of the fields; the message names it.
    """
    if not path.is_file():
        raise PalimpsestError(f"{path}: no such file; name a JSONL file of golden facts")
    passages = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as e:
            raise PalimpsestError(f"{path}: line {number}: {e}; correct the JSON") from None
        if missing := _find_missing(row):
            raise PalimpsestError(f"{path}: line {number}: {missing} is required in each passage")
        passages.append(cast(Passage, row))
    return passages


def _find_missing(row: object) -> str:
    if not isinstance(row, dict):
        return "a JSON object"
    absent = [k for k in ("id", "collection", "uri", "text", "facts") if k not in row]
    if absent:
        return absent[0]
    if any(not f.get("subject") or not f.get("predicate") or not golden_filler(f) for f in row["facts"]):
        return "subject, predicate and object or value of each fact"
    return ""


def matches(fact: StatedFact, golden: GoldenFact, with_predicate: bool = True) -> bool:
    """Returns whether an extracted fact states a golden one."""
    if fact.is_negated != bool(golden.get("negated")):
        return False
    if with_predicate:
        accepted = {normalize_predicate(p) for p in (golden["predicate"], *golden.get("also", ()))}
        if normalize_predicate(fact.predicate) not in accepted:
            return False
    subject, filler = golden["subject"], golden_filler(golden)
    return (_same(fact.subject, subject) and _same(fact.filler, filler)) or (
        _same(fact.subject, filler) and _same(fact.filler, subject)
    )


def golden_filler(golden: GoldenFact) -> str:
    """Returns the object or the value of a golden fact."""
    return golden.get("object") or golden.get("value") or ""


def _same(names: Iterable[str], phrase: str) -> bool:
    wanted = _content(phrase)
    for name in names:
        found = _content(name)
        few, many = sorted((len(wanted), len(found)))
        if few and many <= _MAX_RATIO * few and (wanted <= found or found <= wanted):
            return True
    return False


def _content(phrase: str) -> frozenset[str]:
    return frozenset(terms(phrase)) or frozenset(phrase.lower().split())


# Questions of relations and of change, and whether the first lines of an answer over the graph hold it.

TOP = 5
"""Lines of an answer that are judged."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class GraphQuestion(BaseModel):
    """One line of `data/golden/graph/*.jsonl`; the README there describes the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: _Text
    collection: _Text
    kind: Literal["relations", "timeline"]
    question: _Text
    names: tuple[_Text, ...]
    user: _Text | None = None
    steps: Literal[1, 2] = 1
    evidence: tuple[Quote, ...]

    @property
    def stratum(self) -> str:
        """Its collection, kind and steps."""
        return f"{self.collection} {self.kind}{' 2 steps' if self.steps == 2 else ''}"


@dataclass(frozen=True)
class ResolvedGraphQuestion:
    """A question whose quotes were found in a build: for each, in order, the memories that have it."""

    question: GraphQuestion
    needs: tuple[frozenset[str], ...]

    def is_answered(self, lines: Sequence[Sequence[str]]) -> bool:
        """Returns whether the first lines, each with the memories it cites, hold the answer.

        Of a relation one quote is needed, of one in two steps two; of a timeline at least half, in the right order.
        """
        found = [next((n for n, cited in enumerate(lines[:TOP]) if ids & set(cited)), None) for ids in self.needs]
        places = [n for n in found if n is not None]
        if self.question.kind == "relations":
            return len(places) >= self.question.steps
        return 2 * len(places) >= len(self.needs) and places == sorted(places)


def load_graph_questions(path: Path) -> list[GraphQuestion]:
    """Reads questions, sorted by id.

    Raises:
        GoldenError: a line is no question, an id is used twice, or there is too little evidence; the message names
            file, line and field.
        PalimpsestError: the file is not UTF-8.
    """
    questions: dict[str, GraphQuestion] = {}
    for where, line in numbered_lines(path):
        question = parse_question(GraphQuestion, where, line)
        if question.id in questions:
            raise GoldenError(f"{where}: id {question.id!r} is used twice; rename one")
        if len(question.evidence) < (2 if question.kind == "timeline" else question.steps):
            raise GoldenError(f"{where}: evidence: too few quotes for its kind; add one")
        questions[question.id] = question
    return [questions[i] for i in sorted(questions)]


def resolve_graph_questions(
    questions: Sequence[GraphQuestion], tables: Tables, collection: str, default_user: str
) -> list[ResolvedGraphQuestion]:
    """Finds the memories of the quotes of one collection's questions, inside the scope of each.

    Raises:
        GoldenError: a quote is in no document of its uri, in another scope's, or no memory covers it.
    """
    index = QuoteIndex(tables, collection, {e.uri for q in questions for e in q.evidence})
    resolved = []
    for question in questions:
        needs = []
        for quote in question.evidence:
            ids = index.find_memories(quote, question.user or default_user)
            if isinstance(ids, str):
                raise GoldenError(f"graph question {question.id!r}: {ids}")
            needs.append(ids)
        resolved.append(ResolvedGraphQuestion(question, tuple(needs)))
    return resolved
