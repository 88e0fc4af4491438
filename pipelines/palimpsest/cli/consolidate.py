"""Commands of consolidation: what to propose, and what a person decides of it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from palimpsest.cli.shared import Call, CostParam, Output, common, visible
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted
from palimpsest.store.home import Home

if TYPE_CHECKING:
    from palimpsest.store.proposals import Proposal

_MAX_SHOWN, _MAX_TEXTS, _TEXT_CHARS = 20, 3, 120
_QUOTING = ("contradiction", "duplicate")
"""Kinds whose description has the texts."""


@click.group(invoke_without_command=True)
@common
@click.option("--collection", "collections", multiple=True, help="Only this collection. May be given again.")
@click.option("--all", "everything", is_flag=True, help="Look at every memory, not only at the last day and a sample.")
@click.option("--dry-run", is_flag=True, help="Print the calls of a language model and their cost; propose nothing.")
@click.option("--max-cost", type=CostParam(), help="The most that a language model may cost.")
@click.pass_context
def consolidate(
    context: click.Context,
    call: Call,
    collections: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    max_cost: float | None,
) -> None:
    """Look over what came in since yesterday, and propose: contradictions, duplicates, what to prune, confidence.

    Nothing is changed: review lists the proposals, confirm applies them from the next build on, undo takes that back.
    The first run of a home looks at every memory.
    """
    if context.invoked_subcommand is not None:
        return
    from palimpsest.consolidation.consolidate import consolidate as run
    from palimpsest.consolidation.consolidate import estimate

    if dry_run:
        calls, cost = estimate(call.home, everything=everything, only=collections)
        call.text(f"{counted(calls, 'call')} of a language model, at most {cost:.4f}")
        call.result({"lm_calls": calls, "cost": cost})
        return
    done = run(call.home, everything=everything, only=collections, max_cost=max_cost)
    call.text(f"{counted(len(done.proposals), 'open proposal')}, {done.new} new, {done.expired} no longer hold")
    if done.calls:
        call.text(f"{counted(done.calls, 'call')} of a language model, cost {done.cost:.4f}")
    if done.unread:
        call.text(f"unread: {counted(done.unread, 'group')} of memories have no answer of the model; run it again")
    show(call, call.home, done.proposals, _MAX_SHOWN)
    call.result(
        {
            "build_id": done.build_id,
            "new": done.new,
            "expired": done.expired,
            "everything": done.everything,
            "lm_calls": done.calls,
            "cost": done.cost,
            "unread": done.unread,
            "proposals": [p.to_json() for p in done.proposals],
        }
    )


def show(out: Output, home: Home, proposals: Sequence["Proposal"], limit: int) -> None:
    """Writes proposals as lines for people, those that are worth most first."""
    from palimpsest.consolidation.consolidate import by_worth, kinds_text, proposal_texts
    from palimpsest.query.request.types import shorten_text

    shown = by_worth(proposals)[:limit]
    texts = proposal_texts(home, shown)
    if len(proposals) > 1:
        out.text(kinds_text(proposals))
    for p in shown:
        sure = "" if p.kind == "confidence" else f", score {p.confidence:.2f}"
        out.text(f"{p.proposal_id}  {p.kind}, {p.why}{sure}{'' if p.state == 'open' else f', {p.state}'}")
        out.text(visible(f"    {p.description}"))
        if p.kind in _QUOTING:
            out.text("    " + " ".join(f"[memory:{i}]" for i in p.memory_ids))
            continue
        for i in p.memory_ids[:_MAX_TEXTS]:
            out.text(visible(f"    [memory:{i}] {shorten_text(texts.get(i, ''), _TEXT_CHARS)}"))
        if (more := len(p.memory_ids) - _MAX_TEXTS) > 0:
            out.text(f"    and {counted(more, 'memory')} more")
    if len(proposals) > limit:
        out.text(
            f"… and {len(proposals) - limit} more; palimpsest consolidate review --limit {len(proposals)} shows them"
        )


@consolidate.command(short_help="List proposals.")
@common
@click.option(
    "--state", type=click.Choice(["open", "confirmed", "applied", "rejected", "expired", "any"]), default="open"
)
@click.option("--kind", type=click.Choice(["contradiction", "duplicate", "prune", "connection", "confidence", "note"]))
@click.option("--limit", type=click.IntRange(1), default=_MAX_SHOWN, show_default=True)
@click.option("--ids", is_flag=True, help="Print every proposal's id, one a line, for `consolidate confirm -`.")
def review(call: Call, state: str, kind: str | None, limit: int, ids: bool) -> None:
    """List the proposals of the last runs, open ones unless --state says otherwise."""
    from palimpsest.consolidation.find_proposals import published_build, settled
    from palimpsest.store.proposals import read_proposals

    known = settled(read_proposals(call.home.path), published_build(call.home)).values()
    found = [p for p in known if state in ("any", p.state) and kind in (None, p.kind)]
    if ids:
        call.text("\n".join(p.proposal_id for p in found))
    else:
        show(call, call.home, found, limit)
        if not found:
            call.text("nothing to review")
    call.result({"proposals": [p.to_json() for p in found]})


@consolidate.command(short_help="Apply proposals, from the next build on.")
@common
@click.argument("proposal", nargs=-1, required=True)
@click.option("--keep", default="", metavar="MEMORY", help="The memory that stays, of one contradiction.")
def confirm(call: Call, proposal: tuple[str, ...], keep: str) -> None:
    """Apply proposals, from the next build on. PROPOSAL is an id; - reads ids from stdin.

    Of a contradiction, the memory that is not kept is retired; of a conditional one both stay. What is pruned is no
    longer served, and not deleted.
    """
    from palimpsest.consolidation.decide import confirm as decide

    ids = _ids(proposal)
    _check_keep(keep, ids)
    _decided(call, decide(call.home, ids, keep))


@consolidate.command(name="apply", short_help="Confirm the proposals that settings name.")
@common
@click.option("--dry-run", is_flag=True, help="List what is due; build and confirm nothing.")
@click.option("--max-cost", type=CostParam(), help="The most that a language model may cost in each trial build.")
def apply_(call: Call, dry_run: bool, max_cost: float | None) -> None:
    """Confirm the kinds of proposals that `consolidation.apply` of a collection names, once `grace_days` are over.

    A trial build is made for each kind. Where recall of the golden questions falls, or more stale results are among
    the first five, the proposals that cause it are refused: only a person confirms them.
    """  # noqa: DOC501 (the docstring is the help text)
    from palimpsest_eval.runs.apply_proposals import apply_proposals

    done = apply_proposals(call.home, dry_run=dry_run, max_cost=max_cost)
    show(call, call.home, done.confirmed, _MAX_SHOWN)
    call.text("\n".join(f"{i}: refused, {why}" for i, why in sorted(done.refused.items())))
    confirmed, refused = len(done.confirmed), len(done.refused)
    outcome = f"{confirmed} due" if dry_run else f"{confirmed} confirmed, {refused} refused"
    call.text(f"{outcome}, {counted(done.trials, 'trial build')}")
    call.result(
        {
            "proposals": [p.to_json() for p in done.confirmed],
            "refused": done.refused,
            "waiting": done.waiting,
            "trials": done.trials,
        }
    )
    if done.waiting:
        raise PalimpsestError(done.waiting)


@consolidate.command(short_help="Close proposals for good.")
@common
@click.argument("proposal", nargs=-1, required=True)
def reject(call: Call, proposal: tuple[str, ...]) -> None:
    """Close proposals for good: the same memories are not proposed for it again. PROPOSAL is an id; - reads stdin."""
    from palimpsest.consolidation.decide import reject as decide

    _decided(call, decide(call.home, _ids(proposal)))


@consolidate.command(short_help="Take back what was decided of proposals.")
@common
@click.argument("proposal", nargs=-1, required=True)
def undo(call: Call, proposal: tuple[str, ...]) -> None:
    """Take back what was decided of proposals, from the next build on: they are open again."""
    from palimpsest.consolidation.decide import undo as decide

    _decided(call, decide(call.home, _ids(proposal)))


def _check_keep(keep: str, ids: Sequence[str]) -> None:
    """Checks that --keep is given for one proposal.

    Raises:
        UsageError: it is given for several.
    """
    if keep and len(ids) > 1:
        raise click.UsageError("--keep is of one contradiction; confirm the others by themselves")


def _ids(named: Sequence[str]) -> list[str]:
    """Returns ids; `-` means the first word of each line of stdin."""
    piped = [line.split()[0] for line in sys.stdin if line.strip()] if "-" in named else []
    return [i for name in named for i in (piped if name == "-" else [name])]


def _decided(out: Output, proposals: Sequence["Proposal"]) -> None:
    lines = [f"{p.proposal_id}: {p.kind}, {p.why}: {p.state}" for p in proposals]
    out.text("\n".join([*lines, f"{len(proposals)} decided, from the next palimpsest build on"]))
    out.result({"proposals": [p.to_json() for p in proposals]})
