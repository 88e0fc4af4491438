"""Standing answers: which memories answered the standing questions of a build, and what changed since the one before.

A build stores ids only. Texts are read when an answer is shown, behind the filters of the reader, so that what is
hidden, deleted or past its retention by then is not shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from palimpsest.core.files import read_json_object, write_json
from palimpsest.core.ids import JsonObject
from palimpsest.query.ranking.merge import LIKELY
from palimpsest.query.request.types import Memory, Scope, cited_line, one_line
from palimpsest.query.scope.served_scope import ServedScope

STANDING_FILE = "standing.json"
"""Name of the file in the folder of a build."""

_RESTORE = "run palimpsest build again"
_MAX_CHARS = 300  # of a line


@dataclass(frozen=True)
class StoredAnswer:
    """What a build found for one standing question of one user.

    Attributes:
        collection, user_id, question_id: whose and which; unique together.
        question: its text.
        k: how many results it is answered with.
        memory_ids: the results, best first.
        relevance: of the most relevant result, 0 to 1; an answer below `LIKELY` is marked as weak.
    """

    collection: str
    user_id: str
    question_id: str
    question: str
    k: int
    memory_ids: tuple[str, ...]
    relevance: float

    @property
    def key(self) -> tuple[str, str, str]:
        """Whose answer it is, and to which question."""
        return self.collection, self.user_id, self.question_id

    @property
    def is_weak(self) -> bool:
        """Whether no result is likely evidence."""
        return self.relevance < LIKELY


@dataclass(frozen=True)
class StandingAnswer:
    """A stored answer as a reader sees it.

    Attributes:
        stored: what the build found.
        memories: those that may be shown, best first.
        added: ids of those that the build before did not have.
        removed: ids that only the build before had.
    """

    stored: StoredAnswer
    memories: tuple[Memory, ...]
    added: frozenset[str]
    removed: tuple[str, ...]

    def lines(self) -> list[str]:
        """Returns a line for each memory, marked `+` where it is new, and one for those that are gone."""
        shown = []
        for m in self.memories:
            text = one_line(f"{m.speaker}: {m.text}" if m.speaker else m.text)
            text = text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
            mark = "+" if m.memory_id in self.added else " "
            shown.append(f"{mark} {cited_line(text, [m.memory_id], m.observed_at)}")
        return shown + ([f"- {len(self.removed)} of the build before"] if self.removed else [])

    def to_json(self) -> JsonObject:
        """Returns the answer as JSON values."""
        return {
            "collection": self.stored.collection,
            "user": self.stored.user_id,
            "id": self.stored.question_id,
            "question": self.stored.question,
            "relevance": round(self.stored.relevance, 6),
            "is_weak": self.stored.is_weak,
            "memory_ids": [m.memory_id for m in self.memories],
            "added": sorted(self.added),
            "removed": list(self.removed),
        }


def write_stored(folder: Path, answers: Sequence[StoredAnswer]) -> None:
    """Writes the answers of a build into its folder; removes the file where there are none."""
    path = folder / STANDING_FILE
    if not answers:
        path.unlink(missing_ok=True)
        return
    write_json(path, {"answers": [asdict(a) for a in sorted(answers, key=lambda a: a.key)]})


def read_stored(folder: Path) -> dict[tuple[str, str, str], StoredAnswer]:
    """Returns the answers of the build in a folder, by key.

    Raises:
        DamagedFile: the file is damaged.
    """
    found: Mapping[str, Any] = read_json_object(folder / STANDING_FILE, _RESTORE) or {}
    names = [f.name for f in fields(StoredAnswer)]  # what another version of the product wrote beside them is ignored
    rows = [{name: a[name] for name in names} for a in found.get("answers", ()) if a.keys() >= set(names)]
    answers = [StoredAnswer(**{**a, "memory_ids": tuple(a["memory_ids"])}) for a in rows]
    return {a.key: a for a in answers}


def read_standing(folder: Path, scopes: Sequence[ServedScope]) -> list[StandingAnswer]:
    """Returns the standing answers of a build for some scopes of a user, and what changed since the build before.

    Args:
        folder: of the build, beside those of earlier ones.
        scopes: the scopes; their filters say what is shown.
    """
    stored = read_stored(folder)
    if not stored:
        return []
    earlier = [p for p in sorted(folder.parent.iterdir()) if p.is_dir() and p.name < folder.name]
    before = read_stored(earlier[-1]) if earlier else {}
    owners = {(s.scope.collection, s.scope.user_id) for s in scopes}
    return [_shown(a, before.get(key), scopes) for key, a in stored.items() if (a.collection, a.user_id) in owners]


def _shown(answer: StoredAnswer, before: StoredAnswer | None, scopes: Sequence[ServedScope]) -> StandingAnswer:
    found: dict[str, Memory] = {}
    for served in scopes:
        if _is_of(served.scope, answer):
            passing = served.passing(answer.memory_ids)
            found |= served.memories([i for i in answer.memory_ids if i in passing])
    earlier = set(before.memory_ids) if before else set(answer.memory_ids)
    shown = tuple(found[i] for i in answer.memory_ids if i in found)
    return StandingAnswer(
        answer,
        shown,
        frozenset(m.memory_id for m in shown) - earlier,
        tuple(sorted(earlier - set(answer.memory_ids))),
    )


def _is_of(scope: Scope, answer: StoredAnswer) -> bool:
    return (scope.collection, scope.user_id) == (answer.collection, answer.user_id)
