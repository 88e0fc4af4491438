"""Short lines of facts and relations in a context, in the tokens that its memories leave."""

from collections.abc import Iterable
from dataclasses import replace

from palimpsest.query.context.lines import ContextLine, CountTokens, counted_citation
from palimpsest.query.context.pack import Packed

_HEADING = "Relations:"
_MAX_LINES = 20


def add_relation_lines(
    packed: Packed,
    lines: Iterable[tuple[str, tuple[str, ...]]],
    budget_tokens: int,
    count: CountTokens,
    sources: str = "short",
) -> Packed:
    """Returns a context with lines of relations after its memories.

    Nothing in it is displaced: each line is added in order where it still fits, and cites only memories that the
    context has, whole or in part. Without a line the context is the same.

    Args:
        packed: the context.
        lines: text and the memories it rests on, the most useful first.
        budget_tokens: of the whole context.
        count: counts the tokens of a text, without special ones.
        sources: how the context cites; one of `search_schema.SOURCES`.
    """
    known = {*packed.packed_ids, *(q.memory_id for q in packed.quotes)}
    heading = ContextLine(_HEADING, mark="", tokens=count(_HEADING))
    left = budget_tokens - packed.tokens - heading.tokens
    added: list[ContextLine] = []
    for text, memory_ids in lines:
        if not memory_ids or not known.issuperset(memory_ids) or len(added) == _MAX_LINES:
            continue
        tokens = count(" ".join([f"- {text}", *(counted_citation(sources, i) for i in memory_ids)]))
        if tokens <= left:
            left -= tokens
            added.append(ContextLine(text, cites=memory_ids, tokens=tokens))
    if not added:
        return packed
    return replace(packed, lines=(*packed.lines, heading, *added), tokens=budget_tokens - left)
