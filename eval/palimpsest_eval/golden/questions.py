"""Golden questions: judged by uri and quote, so that they outlive chunking, ids and builds (decision 9)."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.message import Message
from palimpsest_eval.metrics import numbered_lines

UNANSWERABLE = "unanswerable"
FOLLOW_UPS = "follow_ups"
"""Folder of the follow-up questions, below that of the golden sets."""
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Kind = TypeVar("_Kind", bound=BaseModel)


class GoldenError(PalimpsestError):
    """A golden question cannot be judged; the message names it."""


class Quote(BaseModel):
    """Words of a source: `uri` relative to the collection, `<file>#<session_id>` for a conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    uri: _Text
    quote: _Text


class Question(BaseModel):
    """One line of `data/golden/<collection>.jsonl`; docs/golden.md describes the fields.

    Each item of `evidence` is one thing that must be found. `kind` is why an unanswerable question has no answer.
    `draft` marks a question as `gate --init` wrote it. `turns` are what was written before a follow-up question.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: _Text
    question: _Text
    type: _Text
    kind: Literal["near_miss", "false_premise", "other_user", "outdated", "underspecified"] | None = None
    user: _Text | None = None
    project: _Text | None = None
    as_of: date | None = None
    evidence: tuple[Quote, ...]
    stale: tuple[Quote, ...] = ()
    turns: tuple[_Text, ...] = ()
    draft: bool = False

    @property
    def answerable(self) -> bool:
        """Whether the question has evidence; one that has none must be of type `unanswerable`."""
        return self.type != UNANSWERABLE

    @property
    def filters(self) -> dict[str, date | str | tuple[Message, ...]]:
        """The arguments of `Reader.search` that the question names in addition to its user."""
        given: dict[str, date | str | tuple[Message, ...] | None] = {
            "as_of": self.as_of,
            "project": self.project,
            "turns": tuple(Message.of_text(turn) for turn in self.turns) or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class GoldenSet:
    """The golden questions of one collection; `default_user` is the user of the questions that name none."""

    collection: str
    questions: tuple[Question, ...]
    default_user: str = ""

    @property
    def hash(self) -> str:
        """16 hex digits over the questions; see `golden_hash`."""
        return golden_hash(self.questions)


def golden_path(data: Path, collection: str) -> Path:
    """Returns the path of a collection's golden set below the project's data folder."""
    return data / "golden" / f"{collection}.jsonl"


def load_questions(data: Path, collection: str) -> list[Question] | None:
    """Reads a collection's golden set and its follow-up questions, sorted by id; None where it has neither.

    Raises:
        GoldenError: as `load_golden` does, or an id is in both files.
        PalimpsestError: a file is not UTF-8.
    """
    path = golden_path(data, collection)
    questions, follow_ups = load_golden(path), load_golden(path.parent / FOLLOW_UPS / path.name)
    if questions is None or follow_ups is None:
        return follow_ups if questions is None else questions
    if both := sorted({q.id for q in questions} & {q.id for q in follow_ups}):
        raise GoldenError(f"{FOLLOW_UPS}/{path.name}: id {both[0]!r} is in {path.name} too; rename one")
    return sorted([*questions, *follow_ups], key=lambda q: q.id)


def load_golden(path: Path) -> list[Question] | None:
    """Reads a golden set, sorted by id; None where there is no such file.

    Raises:
        GoldenError: a line is not a question, an id is used twice, a question has no evidence and is not
            `unanswerable` (or the reverse), or the file is empty; the message names file, line and field.
        PalimpsestError: the file is not UTF-8.
    """
    if not path.exists():
        return None
    questions: dict[str, Question] = {}
    for where, line in numbered_lines(path):
        question = parse_question(Question, where, line)
        if question.id in questions:
            raise GoldenError(f"{where}: id {question.id!r} is used twice; rename one")
        if question.answerable and question.kind:
            raise GoldenError(f"{where}: kind: only a question of type {UNANSWERABLE!r} has one; remove it")
        if question.answerable != bool(question.evidence):
            raise GoldenError(
                f"{where}: question {question.id!r} must have evidence, or type {UNANSWERABLE!r} and none"
            )
        questions[question.id] = question
    if not questions:
        raise GoldenError(f"{path.name}: has no questions; add one or remove the file")
    return [questions[i] for i in sorted(questions)]


def parse_question(kind: type[_Kind], where: str, line: str) -> _Kind:
    """Parses one line of a set of questions; `where` names its file and number.

    Raises:
        GoldenError: the line is no question of this kind; the message names file, line and field.
    """
    try:
        return kind.model_validate_json(line)
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(p) for p in first["loc"]) or "line"
        raise GoldenError(f"{where}: {field}: {first['msg'][0].lower() + first['msg'][1:]}") from None


def golden_hash(questions: Iterable[Question]) -> str:
    """Returns 16 hex digits over the questions, whatever their order, the file's whitespace and the mark of drafts."""
    # A question without a project, a kind or turns hashes as before there were any: older baselines stay valid.
    rows = sorted(
        json.dumps(
            q.model_dump(
                mode="json", exclude={"draft", *(n for n in ("project", "kind", "turns") if not getattr(q, n))}
            ),
            sort_keys=True,
        )
        for q in questions
    )
    return hashlib.blake2b("\n".join(rows).encode(), digest_size=8).hexdigest()


# The tables of a build as evaluation reads them.

JUDGED_TABLES = ("documents", "document_texts", "notes", "memories", "versions")

Tables = Mapping[str, pl.DataFrame]


def collection_tables(tables: Tables, collection: str) -> dict[str, pl.DataFrame]:
    """Returns the rows of one collection; a table without that column is returned as it is."""
    return {
        n: t.filter(pl.col("collection") == collection) if "collection" in t.columns else t for n, t in tables.items()
    }


def retired_ids(tables: Tables) -> frozenset[str]:
    """Returns the ids of the memories that are not latest; none without a versions table."""
    versions = tables.get("versions")
    return frozenset() if versions is None else frozenset(versions.filter(~pl.col("is_latest"))["memory_id"])
