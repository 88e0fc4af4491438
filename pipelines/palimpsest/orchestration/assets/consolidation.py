"""Group `consolidation`: what the night shift proposes of the published build."""

from collections import Counter

import dagster as dg

from palimpsest.orchestration.assets.resources import HOME, LM, LOCK_WAIT_S, OWNERS, POOL, HomeResource, retried


@dg.asset(group_name="consolidation", kinds={"python"}, owners=OWNERS, tags={POOL: LM}, pool=LM, deps=["published"])
def proposals(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Contradictions, duplicates, what to prune, confidence, connections and notes, for a person to confirm."""
    from palimpsest.consolidation.consolidate import consolidate

    with retried(context), home.home().lock(LOCK_WAIT_S):
        done = consolidate(home.home())
    context.log.info(f"{len(done.proposals)} open proposals, {done.new} new, {done.expired} no longer hold")
    counts: dict[str, int | str] = dict(sorted(Counter(str(p.kind) for p in done.proposals).items()))
    counts |= {"build": done.build_id, "open": len(done.proposals), "new": done.new, "expired": done.expired}
    return dg.MaterializeResult(metadata=counts)


@dg.asset(group_name="consolidation", kinds={"python"}, owners=OWNERS, tags={POOL: LM}, pool=LM, deps=[proposals])
def applied_proposals(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """The kinds of proposals that settings name, confirmed where no golden question gets worse; none by default."""
    from palimpsest_eval.runs.apply_proposals import apply_proposals

    with retried(context), home.home().lock(LOCK_WAIT_S):
        done = apply_proposals(home.home(), max_cost=home.money)
    for proposal_id, why in sorted(done.refused.items()):
        context.log.warning(f"proposal {proposal_id} is refused: {why}")
    if done.waiting:
        context.log.info(done.waiting)
    counts = {"confirmed": len(done.confirmed), "refused": len(done.refused), "trials": done.trials}
    return dg.MaterializeResult(metadata=counts)


@dg.asset(
    group_name="consolidation", kinds={"python"}, owners=OWNERS, tags={POOL: HOME}, pool=HOME, deps=[applied_proposals]
)
def housekeeping(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """What the policies do not keep is removed: closed logs, orphaned vectors, old runs of Dagster, leftovers."""
    from palimpsest.build.housekeeping import keep_house

    with home.home().lock(LOCK_WAIT_S):
        done = keep_house(home.home())
    context.log.info(", ".join(f"{r.part}: {r.items}" for r in done.removed))
    return dg.MaterializeResult(metadata={f"{r.part}_removed": r.items for r in done.removed} | done.sizes)


@dg.asset(
    group_name="consolidation", kinds={"python"}, owners=OWNERS, tags={POOL: HOME}, pool=HOME, deps=[housekeeping]
)
def backup_file(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """A dated backup of the home in the folder that a variable names, and no more of them than policy; none without."""
    from palimpsest.build.backup import FOLDER_VARIABLE, backup_dated, series_from_environment
    from palimpsest.store.backup_archive import PASSWORD_VARIABLE, read_password

    if (series := series_from_environment()) is None:
        context.log.info(f"{FOLDER_VARIABLE} is not set: no backup")
        return dg.MaterializeResult(metadata={"files": 0})
    done = backup_dated(home.home(), *series, read_password(None, PASSWORD_VARIABLE))
    context.log.info(f"{done.backup.file}: {done.backup.files} files; {len(done.removed)} older ones removed")
    size = {"bytes": done.backup.bytes, "files": done.backup.files, "removed": len(done.removed)}
    return dg.MaterializeResult(metadata={"file": done.backup.file, **size})
