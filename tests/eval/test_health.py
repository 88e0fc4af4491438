from datetime import UTC, datetime

import polars as pl

from palimpsest_eval.gate.health import memory_health, over_limits
from tests.eval.home import rows, tables


def test_health_counts_what_the_hand_made_build_holds_and_the_longest_paths_of_updates():
    got = memory_health(tables())
    assert {k: got[k] for k in ("documents", "memories", "latest", "retired", "retired_by_update")} == {
        "documents": 3, "memories": 6, "latest": 5, "retired": 1, "retired_by_update": 1,
    }  # fmt: skip
    assert got["retired_with_their_source"] == 0 and got["chains"] == {2: 1} and got["rejects"] == 0
    assert (got["without_topic"], got["without_topic_share"], got["undated"]) == (4, 0.8, 0)
    scope = {"collection": "notes", "user_id": "ana", "project_id": ""}
    assert got["largest_topics"] == [scope | {"label": "launch", "memories": 1}]
    assert memory_health({})["retired_share"] == 0.0
    pairs = [("c", "b"), ("b", "a"), ("c", "x"), ("n", "o"), ("p", "o")]
    made = [
        {"relation_id": f"{n}{o}", "newer_id": n, "older_id": o, "label": "UPDATE"} for n, o in [*pairs, ("y", "z")]
    ]
    assert memory_health(tables() | {"relations": rows("relations", *made)})["chains"] == {2: 3, 3: 1}
    circle = [{"relation_id": "1", "newer_id": "a", "older_id": "b", "label": "UPDATE"}]
    circle += [{"relation_id": "2", "newer_id": "b", "older_id": "a", "label": "UPDATE"}]
    assert memory_health(tables() | {"relations": rows("relations", *circle)})["chains"] == {}


def test_repeats_are_counted_in_a_scope_what_expired_is_known_and_a_share_over_its_limit_reported():
    t = tables()
    texts = {"m2": "Same  words", "m4": "same words", "m5": "same words"}
    t["memories"] = t["memories"].with_columns(
        text=pl.col("memory_id").replace_strict(texts, default=pl.col("text"), return_dtype=pl.String)
    )
    assert memory_health(t)["duplicates"] == 1
    t = tables()
    t["memories"] = t["memories"].with_columns(
        valid_until=pl.when(pl.col("memory_id") == "m2").then(pl.lit(datetime(2024, 3, 1, tzinfo=UTC)))
    )
    assert memory_health(t, datetime(2024, 4, 1, tzinfo=UTC))["expired"] == 1
    assert memory_health(t, datetime(2024, 2, 1, tzinfo=UTC))["expired"] == 0
    assert "expired" not in memory_health(t)
    health = memory_health(tables())
    assert over_limits(health, {"without_topic_share": 0.8, "retired_share": 0.2}) == []
    assert over_limits(health, {"without_topic_share": 0.5}) == [
        "memory health: without_topic_share 0.800 is over 0.500"
    ]
