"""Short lines of facts and relations in a context, in the tokens that its memories leave."""

from collections.abc import Iterable
from dataclasses import replace

from palimpsest.query.context.pack import CountTokens, Packed

_HEADING, _SOURCES = "Relations:", "Sources:"
_MAX_LINES = 20


def add_relation_lines(
    packed: Packed, lines: Iterable[tuple[str, tuple[str, ...]]], budget_tokens: int, count: CountTokens
) -> Packed:
    """Returns a context with lines of relations between its memories and its sources.

    Nothing in it is displaced: each line is added in order where it still fits, and cites only memories that the
    context has, whole or in part. Without a line the context is the same.

    Args:
        packed: the context.
        lines: text and the memories it rests on, the most useful first.
        budget_tokens: of the whole context.
        count: counts the tokens of a text, without special ones.
    """
    known = {*packed.packed_ids, *(q.memory_id for q in packed.quotes)}
    left = budget_tokens - packed.tokens - count(_HEADING)
    added: list[str] = []
    for text, memory_ids in lines:
        if not memory_ids or not known.issuperset(memory_ids) or len(added) == _MAX_LINES:
            continue
        line = " ".join([f"- {text}", *(f"[memory:{i}]" for i in memory_ids)])
        if (tokens := count(line)) <= left:
            left -= tokens
            added.append(line)
    if not added:
        return packed
    # No line of a memory is `Sources:`, because each starts with a mark.
    memories, _, sources = packed.text.partition(f"\n{_SOURCES}\n")
    text = "\n".join([memories, _HEADING, *added, _SOURCES, sources])
    return replace(packed, text=text, tokens=budget_tokens - left)
