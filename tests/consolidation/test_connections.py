"""Connections and notes: what several sessions have in common, with the memories they rest on."""

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.decide import confirm, undo
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from tests.small_corpus import build_home, write_chats

TURNS = [
    ("s1", "ann", "Ann", "Mira Quandt plays the cello at the harbour festival.", "2026-01-01T09:00:00Z"),
    ("s2", "ann", "Ann", "The landlord of the workshop is Mira Quandt.", "2026-02-01T09:00:00Z"),
    ("s1", "ann", "Ann", "The parcels for Ostrava Metals wait in the hall.", "2026-01-01T09:01:00Z"),
    ("s2", "ann", "Ann", "Ostrawa Metals paid the second invoice.", "2026-02-01T09:01:00Z"),
    ("s1", "ann", "Ann", "I collect stamps.", "2026-01-01T09:02:00Z"),
    ("s2", "ann", "Ann", "I collect old maps.", "2026-02-01T09:02:00Z"),
    ("s3", "ann", "Ann", "I collect tin toys.", "2026-03-01T09:02:00Z"),
]


def test_sessions_share_a_name_names_may_be_one_and_values_repeat(tmp_path, shared_vectors):
    home, corpus = Home(tmp_path / "home", shared_vectors), write_chats(tmp_path / "corpus", TURNS)
    build_home(home, corpus)
    texts = dict(published(home).tables(["memories"])["memories"].select("memory_id", "text").iter_rows())
    found = {(p.kind, p.why): p for p in consolidate(home).proposals}
    shared = found["connection", "shared name"]
    assert "Mira Quandt" in shared.description and all("Mira Quandt" in texts[i] for i in shared.memory_ids)
    note = found["note", "repeated slot"]
    assert {texts[i] for i in note.memory_ids} == {t[3] for t in TURNS if "collect" in t[3]}
    assert all(value in note.description for value in ("stamps", "old maps", "tin toys"))
    names = found["connection", "similar names"]
    confirm(home, [names.proposal_id])
    assert len(read_decisions(home.decisions).same) == 1
    build_home(home, corpus)
    entities = published(home).tables(["entities"])["entities"]
    assert entities["name"].str.contains("Metals").sum() == 1
    undo(home, [names.proposal_id])
    assert not read_decisions(home.decisions).same
