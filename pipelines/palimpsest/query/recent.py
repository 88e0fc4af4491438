"""The newest memories of some scopes, read without a search."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np

from palimpsest.core.ids import REFLECTION
from palimpsest.query.context.changes import name_changes, reasons_of_latest
from palimpsest.query.request.search_request import When
from palimpsest.query.request.types import ShownMemory
from palimpsest.query.request.where import parse_where
from palimpsest.query.scope.served_scope import ServedScope


class Narrowed(TypedDict, total=False):
    """What narrows a list of memories, as the fields of the same names of `SearchRequest` narrow a search."""

    session: str | None
    types: Sequence[str]
    tags: Sequence[str]
    since: When | None
    until: When | None
    history: bool


_STATED = parse_where(f'unit != "{REFLECTION}"', "where")  # formed memories repeat what sources say


def read_recent(scopes: Sequence[ServedScope], limit: int, offset: int = 0) -> list[ShownMemory]:
    """Returns what sources said last, newest first, ties by id; undated memories come last.

    Args:
        scopes: whose filters say what is shown.
        limit: how many at most.
        offset: how many newer ones are left out; no text of them is read.
    """
    newest = sorted(
        (age, memory_id, n) for n, served in enumerate(scopes) for age, memory_id in _ages(served, offset + limit)
    )[offset : offset + limit]
    shown = {n: _shown(served, [i for _, i, of in newest if of == n]) for n, served in enumerate(scopes)}
    return [shown[n][i] for _, i, n in newest if i in shown[n]]


def _ages(served: ServedScope, limit: int) -> list[tuple[float, str]]:
    """Returns the newest memories of a scope: how much older than 1970 each is, in seconds, and its id."""
    if (view := served.view()) is None:
        return []
    rows = np.flatnonzero(view.allowed(replace(served.filters, where=_STATED)))
    ages = -np.nan_to_num(view.priors().observed[rows], nan=-np.inf)
    order = np.argsort(ages, kind="stable")[:limit]
    return list(zip(ages[order].tolist(), view.ids[rows[order]].tolist(), strict=True))


def _shown(served: ServedScope, ids: list[str]) -> dict[str, ShownMemory]:
    found = served.memories(ids) if ids else {}
    return name_changes(served, found, reasons_of_latest(served, found.values())) if found else {}
