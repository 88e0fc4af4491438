"""Memories of different sessions that share a rare name and that nothing links, and names that may be one."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

from palimpsest.consolidation.scope_memories import ScopeMemories
from palimpsest.core.ids import entity_id
from palimpsest.entities.names.find_names import entity_key
from palimpsest.store.proposals import Proposal

MAX_MEMORIES = 5
"""A name that more memories have is not rare."""
PER_SCOPE = 20
"""Connections of a scope, the rarest names first; and as many pairs of names."""
MIN_NAME_CHARS = 6
"""Of shorter names a letter more or less makes another name: `Anna` and `Hanna`."""


def shared_names(scope: ScopeMemories) -> Iterator[Proposal]:
    """Yields a proposal for each rare name of several sessions whose memories nothing links, the rarest first."""
    found: list[tuple[int, tuple[str, ...], str]] = []
    seen: set[tuple[str, ...]] = set()
    for name, memory_ids in sorted(_mentioning(scope).items()):
        ids = tuple(sorted(memory_ids))
        memories = [scope.memories[i] for i in ids]
        sessions = {(m.document_id, m.session_id) for m in memories}
        is_rare = 2 <= len(ids) <= MAX_MEMORIES and len(sessions) == len(ids)
        is_linked = any(frozenset(pair) in scope.linked for pair in combinations(ids, 2))
        if is_rare and not is_linked and ids not in seen and scope.is_looked_at(*ids):
            seen.add(ids)
            found.append((len(ids), ids, name))
    for count, ids, name in sorted(found)[:PER_SCOPE]:
        yield Proposal(
            "connection",
            "shared name",
            scope.scope,
            ids,
            f"{count} sessions name {name}, and no relation links them",
            round(1.0 - count / 10, 2),
        )


def similar_names(scope: ScopeMemories, decided: frozenset[tuple[str, str]]) -> Iterator[Proposal]:
    """Yields a proposal for two names of a scope that differ in one letter or in signs, and that are two entities.

    Args:
        scope: the scope.
        decided: pairs of ids of names and nodes that people decided about, each ascending.
    """
    mentioning = _mentioning(scope)
    plain: dict[str, list[str]] = defaultdict(list)
    for name in sorted(mentioning):
        letters = "".join(c for c in entity_key(name) if c.isalnum())
        if len(letters) >= MIN_NAME_CHARS and not any(c.isdigit() for c in letters):
            for form in {letters, *(letters[:i] + letters[i + 1 :] for i in range(len(letters)))}:
                plain[form].append(name)
    pairs = {(a, b) for names in plain.values() if len(names) <= MAX_MEMORIES for a, b in combinations(names, 2)}
    yielded = 0
    for a, b in sorted(pairs):
        first, second = sorted(entity_id(*scope.scope, entity_key(n)) for n in (a, b))
        premises = (min(mentioning[a]), min(mentioning[b]))
        if first == second or (first, second) in decided or yielded == PER_SCOPE or not scope.is_looked_at(*premises):
            continue
        yielded += 1
        yield Proposal(
            "connection",
            "similar names",
            scope.scope,
            tuple(dict.fromkeys(premises)),
            f"{a} and {b} may be one name",
            0.6,
            names=(first, second),
        )


def _mentioning(scope: ScopeMemories) -> Mapping[str, set[str]]:
    """Returns the ids of the latest memories that mention each entity, by its name."""
    names = dict(scope.tables["entities"].select("entity_id", "name").iter_rows())
    latest = {m.memory_id for m in scope.latest}
    found: dict[str, set[str]] = defaultdict(set)
    for memory_id, entity in scope.tables["mentions"].select("memory_id", "entity_id").iter_rows():
        if memory_id in latest and entity in names:
            found[names[entity]].add(memory_id)
    return found
