"""Questions of relations and of change, and whether the first lines of an answer over the graph hold it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from palimpsest_eval.golden.questions import GoldenError, Quote, Tables, parse_question
from palimpsest_eval.golden.resolve import QuoteIndex
from palimpsest_eval.metrics import numbered_lines

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
