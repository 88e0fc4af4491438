"""Reads memories of a scope together with a language model, each group of similar ones in one call."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palimpsest.consolidation.lm.consolidation_program import (
    INSTRUCTIONS,
    answer_schema,
    consolidation_hash,
    load_consolidation,
)
from palimpsest.consolidation.lm.read_findings import Findings, read_findings
from palimpsest.consolidation.model_conflicts import MAX_CHARACTERS, Pair
from palimpsest.consolidation.scope_memories import Memory
from palimpsest.core.ids import ScopeKey, content_id
from palimpsest.core.progress import say
from palimpsest.lm.run_program import LmProgram, ProgramInput, ProgramRunner
from palimpsest.relations.classify.lm.ledger import Ledger, ledger_to_estimate
from palimpsest.relations.classify.lm.lm_settings import lm_settings
from palimpsest.relations.classify.lm.read_answer import contains_instructions
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal

if TYPE_CHECKING:
    import dspy

GROUP_MEMORIES = 24
"""Memories that are read in one call."""
MAX_GROUPS = 40
"""Calls of one run; the likeliest pairs are read first."""
MAX_ANSWER_TOKENS = 2000
_FIXED_TOKENS = 900


@dataclass(frozen=True)
class Group:
    """Memories of one scope that are read together, oldest first."""

    scope: ScopeKey
    memories: Mapping[str, Memory]

    @property
    def input(self) -> ProgramInput:
        """What the program reads."""
        ids = tuple(m.memory_id for m in self.memories.values())
        lines = [_line(label, m) for label, m in self.memories.items()]
        texts = tuple(m.text for m in self.memories.values())
        return ProgramInput(content_id(*self.scope, *ids), {"memories": "\n".join(lines)}, texts, ids)


@dataclass
class LmFindings:
    """What a model proposes, and what was paid for it.

    Attributes:
        proposals: by scope.
        dropped: parts of answers that the memories do not state, by reason.
        calls, cost: of calls made now.
        without_answer: groups that were not read, by reason.
    """

    proposals: dict[ScopeKey, list[Proposal]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    cost: float = 0.0
    without_answer: Counter[str] = field(default_factory=Counter)


ReadGroups = Callable[[Sequence[Group]], LmFindings]


def groups_of(pairs: Iterable[tuple[ScopeKey, Pair]]) -> list[Group]:
    """Returns groups that contain each pair, the likeliest pairs first, until `MAX_GROUPS` are full.

    Args:
        pairs: with their scopes, the likeliest first.
    """
    groups: list[tuple[ScopeKey, dict[str, Memory]]] = []
    open_group: dict[ScopeKey, dict[str, Memory]] = {}
    for scope, pair in pairs:
        if any(len(m.text) > MAX_CHARACTERS or contains_instructions(f"{m.speaker}\n{m.text}") for m in pair[:2]):
            continue  # one text with orders must not keep the model from reading the others
        group = open_group.get(scope)
        both = {m.memory_id: m for m in (pair.first, pair.second)}
        if group is None or len(group | both) > GROUP_MEMORIES:
            if len(groups) == MAX_GROUPS:
                continue
            group = open_group[scope] = {}
            groups.append((scope, group))
        group.update(both)
    return [Group(scope, _labelled(members.values())) for scope, members in groups]


def read_groups(home: Home, groups: Sequence[Group], max_cost: float | None = None) -> LmFindings:
    """Returns what the model of `PALIMPSEST_LM` proposes of each group; answers are in the ledger, and paid once.

    Raises:
        PalimpsestError: no model is set, or a budget without a price.
        ComponentFailed: most answers cannot be read.
    """
    by_id = {g.input.input_id: g for g in groups}
    with closing(Ledger(home.lm_ledger)) as ledger:
        runner = ProgramRunner(_program(by_id), lm_settings(), ledger, max_cost)
        run = runner.run([g.input for g in by_id.values()])
    out = LmFindings(calls=run.calls, cost=run.cost, without_answer=run.without_answer)
    for input_id, found in sorted(run.found.items()):
        out.proposals.setdefault(by_id[input_id].scope, []).extend(found.proposals)
        out.dropped.update(found.dropped)
    for reason, n in sorted(run.without_answer.items()):
        say(f"consolidation: {n} groups of memories were not read ({reason})")
    for reason, n in sorted(out.dropped.items()):
        say(f"consolidation: {n} findings were dropped ({reason})")
    return out


def estimate_groups(home: Home, groups: Sequence[Group]) -> tuple[int, float]:
    """Returns (calls, cost): how many calls have no answer in the ledger, and the most that these can cost.

    Raises:
        PalimpsestError: no model is set.
    """
    with ledger_to_estimate(home.lm_ledger) as ledger:
        return ProgramRunner(_program({}), lm_settings(), ledger).estimate([g.input for g in groups])


def _program(groups: Mapping[str, Group]) -> LmProgram[Findings]:
    def read(input_id: str, answer: "dspy.Prediction") -> Findings:
        group = groups[input_id]
        return read_findings(group.scope, group.memories, dict(answer.items()))

    return LmProgram(
        name="consolidation",
        unit="groups",
        program_hash=consolidation_hash(),
        instructions=INSTRUCTIONS,
        schema=answer_schema(),
        fixed_tokens=_FIXED_TOKENS,
        max_answer_tokens=MAX_ANSWER_TOKENS,
        without_lm="consolidation: {read_by: rules}",
        load=load_consolidation,
        read=read,
    )


def _labelled(memories: Iterable[Memory]) -> dict[str, Memory]:
    ordered = sorted(memories, key=lambda m: (m.at or 0, m.memory_id))
    return {f"m{n}": m for n, m in enumerate(ordered, 1)}


def _line(label: str, memory: Memory) -> str:
    date = f"{memory.observed_at:%Y-%m-%d}" if memory.observed_at else "undated"
    speaker = " ".join((memory.speaker or "").split())[:60]  # a name on several lines could look like another memory
    return f"[{label}] {date} {speaker}: {' '.join(memory.text.split())}"
