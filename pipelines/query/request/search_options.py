"""The keyword arguments of a search."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TypedDict

from palimpsest.query.request.arguments import When
from palimpsest.query.request.strategies import Weights


class SearchOptions(TypedDict, total=False):
    """The keyword arguments of a search; see `Reader.search` for what each does."""

    k: int
    hops: int
    strategy: str | Weights
    as_of: When | None
    history: bool
    type: str | None
    types: Sequence[str]
    tag: str | None
    tags: Sequence[str]
    where: str | None
    accessed_within: dt.timedelta | str | None
    min_score: float | None
    since: When | None
    until: When | None
    project: str | None
    session: str | None
    now: When | None
    budget_tokens: int
    explain: bool
    include_hidden: bool
    include_pii: bool
    turns: Sequence[str | Mapping[str, str]]
    brief: str
    paths: Sequence[str]
    abstain: bool
    compress: str
    subgraph: bool
    narrow: bool
    node_types: Sequence[str]
    depth: int
