"""Standing questions of a collection: `questions.yaml` beside its collection.yaml. Each build answers them."""

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash

QUESTIONS_FILE = "questions.yaml"
MAX_QUESTIONS = 50
"""Standing questions of a collection: each is searched for every user at each build."""


class StandingQuestion(BaseModel):
    """A question that each build answers for a user, or for every user of the collection."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
    user: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] | None = None
    k: int = Field(default=5, ge=1, le=20)


_QUESTIONS = TypeAdapter(tuple[StandingQuestion, ...])


def load_standing_questions(folder: Path) -> tuple[StandingQuestion, ...]:
    """Reads `<folder>/questions.yaml`, a list of questions; none where there is no such file.

    Raises:
        PalimpsestError: a question is wrong, an id is used twice, or there are too many; the message names the file,
            the question, the field and the fix.
    """
    path = folder / QUESTIONS_FILE
    if not path.is_file():
        return ()
    try:
        found = _QUESTIONS.validate_python(yaml.safe_load(path.read_text(encoding="utf-8")) or ())
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as e:
        raise PalimpsestError(f"{QUESTIONS_FILE}: {_problem(e)} ({path})") from None
    ids = [q.id for q in found]
    if twice := sorted({i for i in ids if ids.count(i) > 1}):
        raise PalimpsestError(f"{QUESTIONS_FILE}: id {twice[0]!r} is used twice; rename one ({path})")
    if len(found) > MAX_QUESTIONS:
        raise PalimpsestError(f"{QUESTIONS_FILE}: has {len(found)} questions; write at most {MAX_QUESTIONS} ({path})")
    return found


def standing_questions_key(folder: Path) -> tuple[str, ...]:
    """Returns the hash of the file; empty where there is none."""
    path = folder / QUESTIONS_FILE
    return (file_hash(path),) if path.is_file() else ()


def _problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"not valid YAML: {' '.join(str(error).split())[:200]}"
    first = error.errors()[0]
    number, *field = first["loc"] or ("",)
    if not isinstance(number, int):
        return "must be a list of questions, each with id and question"
    return f"question {number + 1}: {'.'.join(map(str, field))}: {first['msg'][0].lower()}{first['msg'][1:]}"
