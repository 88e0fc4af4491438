"""Tiers of memory as a filter: personal, project and task. They follow from scope and type, and are stored nowhere.

| tier | memories |
|---|---|
| task | of type `task`, in any scope of the search |
| project | the others of a project |
| personal | the others of the user's general memory |
"""

from collections.abc import Sequence
from dataclasses import replace

from palimpsest.core.errors import ArgumentError
from palimpsest.core.memory_types import MEMORY_TYPES, TASK
from palimpsest.query.request.types import Filters, Scope

TIERS = ("personal", "project", "task")


def parse_tiers(tiers: Sequence[str]) -> tuple[str, ...]:
    """Returns tiers in the order of `TIERS`, without their case.

    Raises:
        ArgumentError: they are no list of texts, or one is no tier.
    """
    if isinstance(tiers, str) or not all(isinstance(tier, str) for tier in tiers):
        raise ArgumentError("tiers", f"must be a list of {', '.join(TIERS)}", tiers)
    found = {tier.strip().lower() for tier in tiers}
    if wrong := sorted(found - {*TIERS}):
        raise ArgumentError("tiers", f"must be of {', '.join(TIERS)}", wrong[0])
    return tuple(tier for tier in TIERS if tier in found)


def is_in_tiers(scope: Scope, memory_type: str, tiers: Sequence[str]) -> bool:
    """Returns whether a memory of a type is in one of the tiers; none means all."""
    return not tiers or ("task" if memory_type == TASK else _tier_of(scope)) in tiers


def narrow_to_tiers(filters: Filters, scope: Scope, tiers: Sequence[str]) -> Filters:
    """Returns the filters of one scope, narrowed to tiers; none means all."""
    types = [t for t in filters.types or MEMORY_TYPES if is_in_tiers(scope, t, tiers)]
    if not types:
        return replace(filters, accessed=frozenset())
    return filters if not tiers or types == [*MEMORY_TYPES] else replace(filters, types=tuple(types))


def _tier_of(scope: Scope) -> str:
    return "project" if scope.project_id else "personal"
