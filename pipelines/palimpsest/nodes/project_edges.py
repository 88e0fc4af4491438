"""Edges of projects: to the events that a project or goal is reached by, and to the categories that a goal is about."""

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.nodes.node_edges import MAX_EVIDENCE, edge_rows

BY_NAME = 0.7
"""Weight of an edge that rests on a name in common."""


def milestone_edges(events: pl.DataFrame, projects: pl.DataFrame, goals: pl.DataFrame) -> list[pl.DataFrame]:
    """Returns `part_of` edges of events to projects.

    An event is part of a project that has a memory of it, and of a goal whose name has the name of its subject.

    Args:
        events: as `dated_events` returns them.
        projects: as `find_projects` returns them.
        goals: as `named_in_goals` returns them.
    """
    dated = events.select(*SCOPE, "subject_id", "memory_ids", source_id="node_id")
    stated = dated.explode("memory_ids").rename({"memory_ids": "memory_id"})
    own = stated.join(projects.select("memory_id", target_id="node_id"), on="memory_id")
    own = own.group_by("source_id", "target_id", *SCOPE).agg(
        memory_ids=pl.col("memory_id").unique().sort().head(MAX_EVIDENCE), weight=pl.lit(1.0)
    )
    named = dated.join(goals.select(subject_id="entity_id", target_id="node_id"), on="subject_id")
    named = named.with_columns(weight=pl.lit(BY_NAME))
    return [edge_rows(own, "part_of", "event of project"), edge_rows(named, "part_of", "event of a goal's subject")]


def goal_category_edges(goals: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Returns `related_to` edges of goals to the categories of what their names have; a goal is no member of one.

    Args:
        goals: as `named_in_goals` returns them.
        members: (node_id, entity_id) of categories.
    """
    of_category = members.select("entity_id", target_id="node_id").unique()
    rows = goals.rename({"node_id": "source_id"}).join(of_category, on="entity_id")
    rows = rows.group_by("source_id", "target_id", *SCOPE).agg(
        memory_ids=pl.col("memory_id").unique().sort().head(MAX_EVIDENCE), weight=pl.lit(BY_NAME)
    )
    return edge_rows(rows, "related_to", "goal names a member")


def named_in_goals(projects: pl.DataFrame, entities: pl.DataFrame, mentions: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, memory_id, scope, entity_id) of entities whose name is in the name of a goal, as whole words.

    Args:
        projects: as `find_projects` returns them.
        entities: (entity_id, name).
        mentions: the mentions table; only an entity that the memory of the goal names counts.
    """
    named = (
        projects.filter(source="goal")
        .select("node_id", "memory_id", *SCOPE, goal=words_of("name"))
        .join(mentions.select("memory_id", "entity_id").unique(), on="memory_id")
        .join(entities.select("entity_id", entity=words_of("name")), on="entity_id")
    )
    is_in = pl.col("goal").str.contains(pl.col("entity"), literal=True)
    return named.filter(is_in).drop("goal", "entity").sort("node_id", "memory_id", "entity_id")


def words_of(column: str) -> pl.Expr:
    """Returns the words of a name in small letters, with a space before and after each."""
    words = pl.col(column).str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", " ").str.strip_chars()
    return pl.concat_str(pl.lit(" "), words, pl.lit(" "))
