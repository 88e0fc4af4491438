import datetime as dt

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.core.ids import content_id
from palimpsest.relations.versions import versions
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import conform, empty
from tests.memories.frames import day, document, documents


def memory(doc, name, at=None, ordinal=0, **more):
    return {
        "memory_id": name,
        "collection": "c",
        "user_id": doc["user_id"],
        "document_id": doc["document_id"],
        "ordinal": ordinal,
        "text": name,
        "observed_at": at if at is not None else doc.get("source_time"),
        **more,
    }


def update(newer, older, label="UPDATE"):
    return {
        "relation_id": content_id(newer, older),
        "collection": "c",
        "user_id": "u",
        "newer_id": newer,
        "older_id": older,
        "label": label,
    }


def frame(table, rows):
    return conform(table, pl.DataFrame(rows, infer_schema_length=None)) if rows else empty(table)


def computed(docs, memories, updates=(), stated=(), decisions=None):
    stated = [
        {"collection": "c", "user_id": (*s, "u")[2], "newer_uri": s[0], "older_uri": s[1], "label": "UPDATE"}
        for s in stated
    ]
    return versions(
        frame("memories", memories),
        frame("relations", list(updates)),
        documents(*docs),
        frame("document_relations", stated),
        decisions,
    )


def latest(*args, **kwargs):
    return set(computed(*args, **kwargs).filter("is_latest")["memory_id"])


def row(result, name):
    return result.row(by_predicate=pl.col("memory_id") == name, named=True)


def dated(uri, n, **more):
    return document(uri, source_time=day(n), **more)


def test_only_an_update_by_a_later_observation_retires_and_dates_the_end():
    a, b = dated("a", 1), dated("b", 5)
    result = computed([a, b], [memory(a, "A"), memory(b, "B")], [update("B", "A")])
    old, new = row(result, "A"), row(result, "B")
    assert (old["is_latest"], old["valid_from"], old["valid_until"], old["superseded_by"]) == (
        False, day(1), day(5), "B",
    )  # fmt: skip
    assert (new["is_latest"], new["valid_from"], new["valid_until"], new["superseded_by"]) == (True, day(5), None, None)
    early, late = dated("arrived-last", 1), dated("arrived-first", 5)
    assert latest([early, late], [memory(early, "A"), memory(late, "B")], [update("A", "B")]) == {"A", "B"}
    a, b, c = dated("a", 1), dated("b", 1), document("c")
    rows = [memory(a, "A"), memory(b, "B"), memory(c, "C")]
    assert latest([a, b, c], rows, [update("A", "B"), update("B", "C"), update("C", "A")]) == {"A", "B", "C"}
    a, b = dated("a", 1), dated("b", 5)
    for label in ("EXTEND", "DERIVE", "NONE"):
        assert latest([a, b], [memory(a, "A"), memory(b, "B")], [update("B", "A", label)]) == {"A", "B"}


def test_a_memory_whose_parts_end_one_after_the_other_ends_with_the_last_of_them():
    docs = [dated(name.lower(), n) for name, n in (("A", 1), ("B", 5), ("C", 9), ("D", 12))]
    old, *newer = (memory(d, name) for d, name in zip(docs, "ABCD", strict=True))
    old["text"] = "Bread and salt."
    parts = [
        update(n["memory_id"], "A") | {"part": p}
        for n, p in zip(newer, ("[[0, 5]]", "[[6, 15]]", "[[0, 5]]"), strict=True)
    ]
    result = row(computed(docs, [old, *newer], parts), "A")
    assert (result["is_latest"], result["valid_until"], result["superseded_by"]) == (False, day(9), "C")
    assert row(computed(docs, [old, *newer], [parts[0], parts[2]]), "A")["is_latest"]


def test_in_one_document_or_a_chain_one_is_latest_and_each_superseded_by_the_closest():
    for doc in (document("a"), dated("a", 3)):
        rows = [memory(doc, "A", ordinal=0), memory(doc, "B", ordinal=1)]
        assert latest([doc], rows, [update("B", "A"), update("A", "B")]) == {"B"}
    docs = [dated(n, i) for i, n in enumerate("abc")]
    rows = [memory(d, d["uri"].upper()) for d in docs]
    result = computed(docs, rows, [update("B", "A"), update("C", "B"), update("C", "A")])
    assert set(result.filter("is_latest")["memory_id"]) == {"C"}
    assert (row(result, "A")["superseded_by"], row(result, "B")["superseded_by"]) == ("B", "C")
    docs = [dated(n, i) for i, n in enumerate(("a1", "b", "a2"))]
    rows = [memory(d, d["uri"]) for d in docs]
    assert latest(docs, rows, [update("b", "a1"), update("a2", "b")]) == {"a2"}


def test_an_updater_that_was_deleted_edited_out_or_vanished_retires_nothing():
    a, b = dated("a", 1), dated("b", 5)
    assert latest([a, b], [memory(a, "A"), memory(b, "B")], [update("B", "A")]) == {"B"}
    assert latest([a], [memory(a, "A")], [update("B", "A")]) == {"A"}
    a, old, new = dated("a", 1), dated("b", 5, current=False), dated("b", 6, seq=2)
    old["superseded_by"] = new["document_id"]
    rows = [memory(a, "A"), memory(old, "B"), memory(new, "B2")]
    result = computed([a, old, new], rows, [update("B", "A")])
    assert set(result.filter("is_latest")["memory_id"]) == {"A", "B2"}
    assert row(result, "A")["superseded_by"] is None
    gone = dated("b", 5, current=False)
    assert latest([a, gone], [memory(a, "A"), memory(gone, "B")], [update("B", "A")]) == {"A"}


def test_what_was_edited_out_is_superseded_by_the_new_version_or_by_something_closer():
    old, new = dated("b", 5, current=False), dated("b", 6, seq=2)
    old["superseded_by"] = new["document_id"]
    rows = [memory(old, "B"), memory(new, "B2")]
    plain = row(computed([old, new], rows), "B")
    assert (plain["is_latest"], plain["superseded_by"], plain["valid_until"]) == (False, new["document_id"], day(6))
    assert row(computed([old, new], rows, [update("B2", "B")]), "B")["superseded_by"] == "B2"
    old, new = document("b", current=False), document("b", seq=2)
    old["superseded_by"] = new["document_id"]
    rows = [memory(old, "B", ordinal=7), memory(new, "B2", ordinal=0)]
    assert row(computed([old, new], rows, [update("B2", "B")]), "B")["superseded_by"] == "B2"
    gone = dated("a", 1, current=False)
    kept = row(computed([gone], [memory(gone, "A")]), "A")
    assert (kept["is_latest"], kept["superseded_by"], kept["valid_until"]) == (False, None, None)


def test_what_was_edited_out_ends_at_the_first_later_version_that_is_dated_after_it():
    old, undated, new = dated("b", 5, current=False), document("b", seq=2, current=False), dated("b", 9, seq=3)
    old["superseded_by"], undated["superseded_by"] = undated["document_id"], new["document_id"]
    rows = [memory(old, "B"), memory(new, "B2")]
    ended = row(computed([old, undated, new], rows), "B")
    assert (ended["superseded_by"], ended["valid_until"]) == (undated["document_id"], day(9))
    old, new, other = dated("chat", 1, current=False), dated("chat", 1, seq=2), dated("later", 8)
    old["superseded_by"] = new["document_id"]
    rows = [memory(old, "M", at=day(4)), memory(new, "K"), memory(other, "N")]
    ended = row(computed([old, new, other], rows, [update("N", "M")]), "M")
    assert (ended["superseded_by"], ended["valid_until"]) == ("N", day(8))
    assert row(computed([old, new, other], rows), "M")["valid_until"] is None


def test_a_stated_replacement_retires_a_whole_document_and_none_by_one_that_is_gone_or_in_a_circle():
    old, new = dated("old", 9), dated("new", 2)
    rows = [memory(old, "A"), memory(old, "B", ordinal=1), memory(new, "C")]
    result = computed([old, new], rows, stated=[("new", "old")])
    assert set(result.filter("is_latest")["memory_id"]) == {"C"}
    assert set(result.filter(~pl.col("is_latest"))["superseded_by"]) == {new["document_id"]}
    assert row(result, "A")["valid_until"] == day(9), "never before it began"
    old, new = dated("old", 1), dated("new", 2, current=False)
    rows = [memory(old, "A"), memory(new, "C")]
    assert latest([old, new], rows, stated=[("new", "old")]) == {"A"}
    assert latest([old], rows[:1], stated=[("new", "old"), ("old", "old")]) == {"A"}
    docs = [dated(n, i) for i, n in enumerate("abcd")]
    rows = [memory(d, d["uri"]) for d in docs]
    circle = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")]
    assert latest(docs, rows, stated=circle) == {"a", "b", "c"}
    a, b, c = dated("a", 1), dated("b", 2), dated("c", 3)
    rows = [memory(a, "A"), memory(b, "B"), memory(c, "C")]
    assert latest([a, b, c], rows, [update("B", "A")], stated=[("c", "b")]) == {"C"}


def test_nothing_is_retired_across_users_or_by_an_undone_relation_and_stated_times_are_kept():
    a, b = dated("a", 1), dated("b", 5, user="other")
    rows = [memory(a, "A"), memory(b, "B")]
    assert latest([a, b], rows, [update("B", "A")]) == {"A", "B"}
    assert latest([a, b], rows, stated=[("b", "a"), ("b", "a", "other")]) == {"A", "B"}
    a, b = dated("a", 1), dated("b", 5)
    rows, link = [memory(a, "A"), memory(b, "B")], update("B", "A")
    assert latest([a, b], rows, [link], decisions=Decisions(undone=frozenset({link["relation_id"]}))) == {"A", "B"}
    a = dated("a", 1)
    kept = row(computed([a], [memory(a, "A", valid_from=day(3), valid_until=day(8))]), "A")
    assert (kept["is_latest"], kept["valid_from"], kept["valid_until"]) == (True, day(3), day(8))


@st.composite
def worlds(draw):
    docs, memories = [], []
    for n in range(draw(st.integers(1, 6))):
        user = draw(st.sampled_from(["u", "v"]))
        at = draw(st.one_of(st.none(), st.integers(0, 3).map(day)))
        doc = document(f"d{n}", user=user, source_time=at, current=draw(st.booleans()))
        docs.append(doc)
        memories += [memory(doc, f"{n}-{i}", ordinal=i) for i in range(draw(st.integers(1, 2)))]
    names = st.sampled_from([m["memory_id"] for m in memories])
    updates = [update(a, b) for a, b in draw(st.sets(st.tuples(names, names), max_size=10))]
    uris = st.sampled_from([d["uri"] for d in docs])
    stated = sorted(draw(st.sets(st.tuples(uris, uris, st.sampled_from(["u", "v"])), max_size=3)))
    return docs, memories, updates, stated


@settings(max_examples=60)
@given(worlds())
def test_latest_iff_live_and_neither_updated_by_a_live_newer_memory_nor_in_a_replaced_document(world):
    docs, memories, updates, stated = world
    result = computed(docs, memories, updates, stated)
    assert result["memory_id"].to_list() == sorted(m["memory_id"] for m in memories)
    doc = {d["document_id"]: d for d in docs}
    of = {m["memory_id"]: (m, doc[m["document_id"]]) for m in memories}

    def beats(newer, older):
        (m, d), (n, e) = of[newer], of[older]
        if not d["is_current"] or d["user_id"] != e["user_id"]:
            return False
        times = m["observed_at"], n["observed_at"]
        if None not in times and times[0] != times[1]:
            return times[0] > times[1]
        return d is e and times[0] == times[1] and m["ordinal"] > n["ordinal"]

    reach = {(new, old, user) for new, old, user in stated if new != old}
    live = {(d["uri"], d["user_id"]) for d in docs if d["is_current"]}
    direct = {(new, old, user) for new, old, user in reach if (new, user) in live}
    closed = set(direct)
    for _ in range(4):
        closed |= {(a, d, u) for a, b, u in closed for c, d, v in closed if (b, u) == (c, v)}
    replaced = {(old, user) for new, old, user in direct if (old, new, user) not in closed}
    by_uri = {(d["uri"], d["user_id"]): d for d in docs}
    closest: dict[tuple[str, str], tuple] = {}
    for new, old, user in direct:
        if (old, user) in replaced and (old, new, user) not in closed:
            by = by_uri[new, user]
            at = by["source_time"] or dt.datetime.max.replace(tzinfo=dt.UTC)
            closest[old, user] = min(closest.get((old, user), (at, by["document_id"])), (at, by["document_id"]))

    def overruled(newer, older):
        """What is stated overrides dates: a replaced document's memory does not retire one of what replaced it."""
        of_newer = closest.get((of[newer][1]["uri"], of[newer][1]["user_id"]))
        return of_newer is not None and of_newer[1] == of[older][1]["document_id"]

    for name, is_latest in result.select("memory_id", "is_latest").iter_rows():
        d = of[name][1]
        newer_ids = [u["newer_id"] for u in updates if u["older_id"] == name and not overruled(u["newer_id"], name)]
        updated = any(beats(newer, name) for newer in newer_ids)
        assert is_latest == (d["is_current"] and not updated and (d["uri"], d["user_id"]) not in replaced)


@settings(max_examples=25)
@given(worlds(), st.randoms(use_true_random=False))
def test_row_order_changes_nothing(world, random):
    docs, memories, updates, stated = world
    expected = computed(docs, memories, updates, stated)
    for rows in (docs, memories, updates, stated):
        random.shuffle(rows)
    assert computed(docs, memories, updates, stated).equals(expected)


@settings(max_examples=30)
@given(worlds())
def test_a_superseder_is_of_the_same_scope_and_an_interval_is_never_inverted(world):
    docs, memories, updates, stated = world
    result = computed(docs, memories, updates, stated)
    user = {m["memory_id"]: m["user_id"] for m in memories} | {d["document_id"]: d["user_id"] for d in docs}
    for r in result.to_dicts():
        assert r["superseded_by"] is None or user[r["superseded_by"]] == r["user_id"]
        assert not (r["valid_from"] and r["valid_until"]) or r["valid_from"] <= r["valid_until"]


@settings(max_examples=30)
@given(worlds(), st.data())
def test_deleting_an_updater_never_retires_and_undoing_equals_never_having_related(world, data):
    docs, memories, updates, _ = world
    before = latest(docs, memories, updates)
    victim = data.draw(st.sampled_from([m["memory_id"] for m in memories]))
    rest = [m for m in memories if m["memory_id"] != victim]
    assert before - {victim} <= latest(docs, rest, updates)
    undone = data.draw(st.sets(st.sampled_from([u["relation_id"] for u in updates]))) if updates else set()
    kept = [u for u in updates if u["relation_id"] not in undone]
    assert latest(docs, memories, updates, decisions=Decisions(undone=frozenset(undone))) == latest(
        docs, memories, kept
    )
