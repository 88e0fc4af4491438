"""The newest memories of some scopes, read without a search."""

import datetime as dt
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


def read_recent(scopes: Sequence[ServedScope], limit: int) -> list[ShownMemory]:
    """Returns what sources said last, newest first, ties by id; undated memories come last.

    Args:
        scopes: whose filters say what is shown.
        limit: how many at most.
    """
    found = [memory for served in scopes for memory in _of_scope(served, limit)]
    return sorted(found, key=lambda m: (-_seconds(m.observed_at), m.memory_id))[:limit]


def _seconds(time: dt.datetime | None) -> float:
    return time.timestamp() if time else float("-inf")


def _of_scope(served: ServedScope, limit: int) -> list[ShownMemory]:
    if (view := served.view()) is None:
        return []
    rows = np.flatnonzero(view.allowed(replace(served.filters, where=_STATED)))
    observed = np.nan_to_num(view.priors().observed[rows], nan=-np.inf)
    newest: list[str] = view.ids[rows[np.argsort(-observed, kind="stable")[:limit]]].tolist()
    found = served.memories(newest)
    shown = name_changes(served, found, reasons_of_latest(served, found.values()))
    return [shown[i] for i in newest if i in shown]
