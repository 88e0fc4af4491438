"""The register of relations, the labelled pairs and the aliases; what can be counted is counted from the register."""

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

from tests.data.demo_corpus import (
    GOLDEN,
    documents,
    fold,
    overlap,
    questions,
    register,
    rows,
    texts,
    times_of_quote,
    words,
)

MIN_PAIRS = 600
MIN_RELATIONS = {"UPDATE": 40, "EXTEND": 30, "DERIVE": 20}
MIN_REGISTERED = {
    **{"back": 3, "late": 2, "specific": 10, "near_duplicate": 6, "multi_valued": 6, "homonym": 3},
    **{"plain": 60, "trap": 20},
}


def test_the_register_of_relations_quotes_its_sources():
    assert len({r["id"] for r in register()}) == len(register())
    for r in register():
        assert set(r) - {"kind"} == {"id", "collection", "user", "label", "fact", "newer", "older"}, r
        assert r.get("kind") is None or r["kind"] in MIN_REGISTERED, r
        newer = times_of_quote(r["collection"], r["user"], r["newer"])
        assert newer, r["newer"]
        for span in r["older"]:
            older = times_of_quote(r["collection"], r["user"], span)
            assert older, span
            if r["label"] == "UPDATE":
                assert min(w for w in older if w) < max(w for w in newer if w), r
        assert len(r["older"]) == (2 if r["label"] == "DERIVE" else 1), r


def test_enough_facts_change_are_extended_and_derived_and_some_change_twice_or_back():
    facts: dict[str, dict[tuple[str, str, str], set[str]]] = {label: defaultdict(set) for label in MIN_RELATIONS}
    for r in (r for r in register() if r["label"] in MIN_RELATIONS):
        facts[r["label"]][r["collection"], r["user"], r["fact"]].add(r["newer"]["quote"])
    assert all(len(facts[label]) >= n for label, n in MIN_RELATIONS.items()), {k: len(v) for k, v in facts.items()}
    assert sum(len(quotes) > 1 for quotes in facts["UPDATE"].values()) >= 6
    for r in (r for r in register() if r.get("kind") == "back"):
        assert r["older"][0]["quote"] in facts["UPDATE"][r["collection"], r["user"], r["fact"]], r


def test_the_register_holds_enough_of_what_must_not_be_taken_for_a_change():
    kinds = Counter(r["kind"] for r in register() if "kind" in r)
    assert all(kinds[kind] >= n for kind, n in MIN_REGISTERED.items()), kinds
    labels = {"back": "UPDATE", "late": "UPDATE", "plain": "UPDATE", "specific": "EXTEND"}
    for r in (r for r in register() if "kind" in r):
        assert r["label"] == labels.get(r["kind"], "NONE"), r
        (older,) = r["older"]
        if r["kind"] == "late":  # what replaced it had long been said when it was received
            received = datetime.fromisoformat(str(documents(r["collection"])[older["uri"]].metadata["received"]))
            assert max(w for w in times_of_quote(r["collection"], r["user"], r["newer"]) if w) < received.replace(
                tzinfo=UTC
            )
        elif r["kind"] == "near_duplicate":
            assert overlap(words(r["newer"]["quote"]), words(older["quote"])) >= 0.3, r
            assert r["newer"]["uri"] != older["uri"], r


def test_a_question_asks_for_each_change_in_plain_words_and_for_what_only_looks_like_one():
    def spans_of(question: dict[str, Any], field: str) -> set[tuple[str, str]]:
        return {(s["uri"], s["quote"]) for s in question.get(field, [])}

    for r in (r for r in register() if r.get("kind") in ("plain", "trap")):
        newer, older = (tuple(span[f] for f in ("uri", "quote")) for span in (r["newer"], r["older"][0]))
        assert newer[0] != older[0], r
        times = [times_of_quote(r["collection"], r["user"], span) for span in (r["newer"], r["older"][0])]
        assert min(w for w in times[0] if w) > max(w for w in times[1] if w), r
        of_user = [q for q in questions(r["collection"]) if q["user"] == r["user"] and "as_of" not in q]
        if r["kind"] == "plain":
            assert any(newer in spans_of(q, "evidence") and older in spans_of(q, "stale") for q in of_user), r
        else:
            assert any(older in spans_of(q, "evidence") for q in of_user), r


def test_every_pair_is_well_formed_and_none_repeats():
    pairs = rows(GOLDEN / "pairs.jsonl")
    assert len(pairs) >= MIN_PAIRS
    fields = {"id", "older", "newer", "older_date", "newer_date", "label", "group", "split", "source"}
    for p in pairs:
        assert set(p) == fields and p["label"] in {"UPDATE", "EXTEND", "DERIVE", "NONE"}, p
        assert p["split"] in {"train", "test"} and p["source"] in {"atlas", "diary", "hand"}, p
        assert datetime.fromisoformat(p["older_date"]) <= datetime.fromisoformat(p["newer_date"]), p
        assert p["label"] != "UPDATE" or p["older_date"] < p["newer_date"], p
        assert fold(p["older"]).casefold() != fold(p["newer"]).casefold(), p
    assert len({p["id"] for p in pairs}) == len(pairs)
    pair_counts = Counter(frozenset((fold(p["older"]).casefold(), fold(p["newer"]).casefold())) for p in pairs)
    assert not [k for k, n in pair_counts.items() if n > 1]
    assert all(n >= 120 for n in Counter(p["label"] for p in pairs).values())


def test_a_third_of_the_pairs_is_kept_for_testing_and_shares_no_subject_with_the_rest():
    pairs = rows(GOLDEN / "pairs.jsonl")
    groups: dict[str, set[str]] = {"train": set(), "test": set()}
    texts: dict[str, set[str]] = {"train": set(), "test": set()}
    for p in pairs:
        groups[p["split"]].add(p["group"])
        texts[p["split"]] |= {fold(p["older"]).casefold(), fold(p["newer"]).casefold()}
    assert not groups["train"] & groups["test"]
    bags = {split: [words(t) for t in sorted(texts[split])] for split in texts}
    assert not [(a, b) for a in bags["train"] for b in bags["test"] if overlap(a, b) >= 0.7]
    assert 0.31 <= sum(p["split"] == "test" for p in pairs) / len(pairs) <= 0.37


def test_aliases_occur_in_their_scope_and_no_name_is_two_things():
    owners: dict[tuple[str, str, str], str] = {}
    entities = rows(GOLDEN / "aliases.jsonl")
    for row in entities:
        collection, user = row["collection"], row["user"]
        scope_texts = texts(collection, user)
        for name in (*row["names"], *row["not"]):
            assert any(name in text for text in scope_texts), (name, row)
        for name in row["names"]:
            assert name not in row["not"], row
            assert owners.setdefault((collection, user, name), row["entity"]) == row["entity"], row
    assert len(owners) >= 80 and sum(len(row["names"]) > 1 for row in entities) >= 20
    scopes = defaultdict(set)
    for (collection, user, name), entity in owners.items():
        scopes[name].add((collection, user, entity))
    assert {"Jelena", "Dr. Hallam"} <= {name for name, things in scopes.items() if len(things) > 1}
    alike = [(a, b) for row in entities for a in row["names"] for b in row["not"] if words(a) & words(b)]
    assert len(alike) >= 10, "names that share a word and must not be merged"
