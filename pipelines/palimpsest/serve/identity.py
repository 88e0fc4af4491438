"""Who calls: what a verified token says, and which scopes follow from it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from palimpsest.query.request.types import Scope

Permission = Literal["read", "write", "delete"]
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
MAX_USER_CHARS = 256


class BadClaims(ValueError):
    """The claims of a token are not those of a user."""


@dataclass(frozen=True)
class Identity:
    """A caller.

    Attributes:
        user: `sub`: whose memories are read and written.
        projects: names in `projects`: what is read besides the user's general memory.
        permissions: words of `scope`; without that claim only read.
        expires_at: `exp`, seconds since 1970.
    """

    user: str
    projects: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset({"read"})
    expires_at: float = math.inf

    def scopes(self, known: Iterable[Scope], shared: Mapping[str, str]) -> list[Scope]:
        """Returns the scopes that the caller may read, among those of a build.

        Args:
            known: all scopes of the build.
            shared: collections that every caller may read, with the user of their memories without an owner.
        """

        def is_mine(scope: Scope) -> bool:
            return scope.user_id == self.user and (not scope.project_id or scope.project_id in self.projects)

        return [s for s in known if is_mine(s) or (shared.get(s.collection) == s.user_id and not s.project_id)]


def identity_of(claims: Mapping[str, object]) -> Identity:
    """Returns the caller that verified claims name.

    Raises:
        BadClaims: `sub` is no user id, or `projects` or `scope` is malformed.
    """
    user, projects, scope = claims.get("sub"), claims.get("projects", []), claims.get("scope", "read")
    if not isinstance(user, str) or not user.strip() or len(user) > MAX_USER_CHARS or not user.isprintable():
        raise BadClaims("sub")
    if not isinstance(projects, list) or not all(isinstance(p, str) and p for p in projects):
        raise BadClaims("projects")
    if not isinstance(scope, str):
        raise BadClaims("scope")
    exp = claims.get("exp")
    expires_at = float(exp) if isinstance(exp, int | float) else math.inf
    return Identity(user, frozenset(projects), frozenset(scope.split()) & frozenset(PERMISSIONS), expires_at)
