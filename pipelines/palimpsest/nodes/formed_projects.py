"""Projects: the project of a scope, and goals that people state."""

import json

import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.core.scopes import GENERAL, SCOPE, scope_parts
from palimpsest.nodes.descriptions import quotable, sentence_at
from palimpsest.store.tables import Schema
from palimpsest.text.normalize import fold

_END = r"([^.,;:!?\n]{4,80})"
_GOAL = (
    r"\b(?i:my|our|his|her|their)\s+(?:\w+\s+){0,2}goal\s+(?:for [^.,;]{2,30} )?"
    rf"(?:is|was|remains)\s+(?:still\s+|now\s+)?(?:to\s+)?{_END}",
    rf"(?i)\bgoal:\s*{_END}",
    r"\b(?:I am|I'm|I\u2019m|we are|we're|We are|We're|am|is|are)\s+(?:still\s+|now\s+)?"
    rf"(?:training for|working towards|aiming to|saving (?:up )?for|preparing for)\s+{_END}",
    rf"\b(?i:i|we)\s+(?:have\s+)?(?:decided|resolved|set out|signed up)\s+(?:to|for)\s+{_END}",
)
_MAX_NAME_CHARS = 60
_SCHEMA: Schema = {
    "node_id": pl.String,
    **dict.fromkeys(SCOPE, pl.String),
    "name": pl.String,
    **dict.fromkeys(("memory_id", "source", "description"), pl.String),
}


def find_projects(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, scope, name, memory_id, source, description), a row for each memory of a project, sorted.

    A scope with a `project_id` is a project, with all memories in it; a goal that a memory states is one with that
    memory. `source` is `scope` or `goal`.

    Args:
        memories: the memories table.
    """
    scoped = memories.filter(pl.col("project_id") != GENERAL).select(
        *SCOPE,
        "memory_id",
        name="project_id",
        key="project_id",
        source=pl.lit("scope"),
        description=pl.lit(None, pl.String),
    )
    shown = quotable(memories).lazy().select(*SCOPE, "memory_id", "text")
    stated = pl.concat(
        [shown.with_columns(phrase=pl.col("text").str.extract(p, 1)).drop_nulls("phrase") for p in _GOAL]
    ).collect()
    names = {p: _goal_name(p) for p in stated["phrase"].unique()}
    described = [
        sentence_at(t, t.index(p), t.index(p) + len(p)) for t, p in stated.select("text", "phrase").iter_rows()
    ]
    name = pl.col("phrase").replace_strict(names, default=None, return_dtype=pl.String)
    stated = stated.select(
        *SCOPE,
        "memory_id",
        name=name,
        key=name.str.to_lowercase(),
        source=pl.lit("goal"),
        description=pl.Series(described, dtype=pl.String),
    )
    found = pl.concat([scoped, stated]).filter(pl.col("name") != "").unique([*SCOPE, "key", "memory_id"], keep="first")
    keys = found.select(*SCOPE, "source", "key").unique().sort(pl.all())
    ids = [content_id("node", *scope_parts(*r[:3]), "project", *r[3:]) for r in keys.iter_rows()]
    keys = keys.with_columns(node_id=pl.Series(ids, dtype=pl.String))
    rows = found.join(keys, on=[*SCOPE, "source", "key"]).select(_SCHEMA.keys())
    return rows.sort("node_id", "memory_id", "name").unique(["node_id", "memory_id"], keep="first", maintain_order=True)


def project_nodes(projects: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, scope, name, description, metadata) of `find_projects`, sorted by id."""
    rows = projects.group_by("node_id", *SCOPE).agg(
        pl.col("name").min(), pl.col("source").first(), pl.col("description").sort_by("memory_id").last()
    )
    metadata = [json.dumps({"source": s}) for s in rows["source"]]
    return rows.drop("source").with_columns(metadata=pl.Series(metadata, dtype=pl.String)).sort("node_id")


def _goal_name(phrase: str) -> str:
    words = " ".join(phrase.split())
    if len(words) > _MAX_NAME_CHARS:
        words = words[:_MAX_NAME_CHARS].rsplit(" ", 1)[0]
    return words if len(fold(words).split()) > 1 else ""
