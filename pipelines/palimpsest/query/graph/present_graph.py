"""An answer over the graph as text for people."""

from palimpsest.query.graph.graph_answer import GraphAnswer

_MAX_LINES = 60  # of an answer; JSON has all
_MAX_DESCRIPTION = 300


def answer_text(answer: GraphAnswer) -> str:
    """Returns the lines of an answer, each with its day and its citations; of a node, what it is first."""
    if not answer.lines and not answer.nodes:
        return "nothing found in this scope; palimpsest scopes lists whose memories there are"
    lines = []
    if not answer.names:  # a neighborhood, not a question
        first = answer.nodes[0]
        also = f", also {', '.join(first.aliases)}" if first.aliases else ""
        read = "" if first.access_count is None else f", read {first.access_count} times"
        lines.append(
            f"{first.name} ({first.type}{also}): {first.memory_count} memories{read}, {len(answer.nodes)} nodes here"
        )
        if first.description:
            lines.append(f"  {' '.join(first.description.split())[:_MAX_DESCRIPTION]}")
    for line in answer.lines[:_MAX_LINES]:
        day = "" if line.time is None or (line.kind == "fact" and not answer.names) else f"{line.time.isoformat()}  "
        lines.append(f"{day}{line.cited}")
    if len(answer.lines) > _MAX_LINES:
        lines.append(f"and {len(answer.lines) - _MAX_LINES} more; --json has all")
    return "\n".join(lines)
