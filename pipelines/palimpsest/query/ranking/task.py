"""What is known of the task behind a question favors candidates: those like its brief, and those of its files.

No memory becomes or stops being a candidate by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from palimpsest.query.ranking.candidate import Candidate
from palimpsest.query.ranking.fusion import z_values
from palimpsest.query.scope.scope_query import ScopeQuery

BRIEF_WEIGHT = 0.5
PATH_WEIGHT = 1.0
"""In z-scores: of likeness to the brief, and the bonus of a memory whose source has a path of the task."""

_SAME_FOLDER = 0.5


@dataclass(frozen=True)
class Task:
    """What a request says of its task.

    Attributes:
        vector: unit vector of the brief; None without one.
        terms: distinct terms of the brief.
        paths: files of the task, as the caller names them.
    """

    vector: np.ndarray | None
    terms: Sequence[str]
    paths: Sequence[str]


def favor_task(query: ScopeQuery, candidates: Sequence[Candidate], task: Task) -> list[Candidate]:
    """Returns the candidates with what the task adds to their scores, best first, ties by id.

    Args:
        query: the query of their scope.
        candidates: as `rank` returns them.
        task: the brief and the paths.
    """
    ids = [c.memory_id for c in candidates]
    added = np.zeros(len(ids))
    if ids and task.vector is not None:
        scores = query.served.scores(task.vector, task.terms, ids)
        parts = [z_values(column) for column in scores.T]
        added += BRIEF_WEIGHT * np.mean(parts, axis=0)
    if ids and task.paths:
        memories = query.served.memories(ids)
        uris = [m.uri or "" if (m := memories.get(i)) else "" for i in ids]
        added += PATH_WEIGHT * np.array([path_match(uri, task.paths) for uri in uris])
    favored = [
        replace(c, score=c.score + plus, base=c.base + plus) for c, plus in zip(candidates, added.tolist(), strict=True)
    ]
    return sorted(favored, key=lambda c: (-c.score, c.memory_id))


def path_match(uri: str, paths: Sequence[str]) -> float:
    """Returns how well a source's uri fits the nearest of some paths, 0 to 1.

    A path and a uri are alike by the parts they share at their ends, since either may begin at another folder; two
    files of one folder share half.
    """
    return max((_one_match(uri, path) for path in paths), default=0.0) if uri else 0.0


def _one_match(uri: str, path: str) -> float:
    mine, given = (
        [p.casefold() for p in PurePosixPath(t.replace("\\", "/")).parts if p not in ("/", ".")] for t in (uri, path)
    )
    if not mine or not given:
        return 0.0
    if mine[-1] == given[-1]:
        shorter = min(len(mine), len(given))
        same = next((i for i in range(shorter) if mine[-1 - i] != given[-1 - i]), shorter)
        return same / shorter
    in_folder = len(mine) > 1 and (mine[:-1] == given[:-1] or mine[:-1] == given)
    return _SAME_FOLDER if in_folder else 0.0
