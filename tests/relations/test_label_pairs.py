import datetime as dt

import polars as pl
import pytest

from palimpsest.relations.candidates import candidate_pairs
from palimpsest.relations.labelers import label_pairs as label_pairs_module
from palimpsest.relations.labelers.label_pairs import label_pairs, relation_id
from palimpsest.relations.labelers.label_types import LabelResult
from palimpsest.relations.labelers.offline_labeler import offline_labeler
from palimpsest.store.builds import UnfinishedRows
from palimpsest.store.decisions import Decisions, RelationOverride
from palimpsest.store.tables import SCHEMAS
from tests.memories.frames import by_text, chunk, day, document, formed, word_vectors


class Counting:
    """A labeler of the test's own: says EXTEND, remembers its pairs, costs something."""

    name, reads_together = "counting", False

    def __init__(self, program="p1"):
        self.program_hash = program
        self.labelled = []

    def label(self, pairs):
        self.labelled += [(p.newer, p.older) for p in pairs]
        return [LabelResult("EXTEND", 0.5, {"newer": p.newer_context}, lm_calls=1, tokens=7, cost=0.25) for p in pairs]


def corpus(**title):
    docs = [document(f"{i}.md", source_time=day(i), **title) for i in range(3)]
    rows = [chunk(d, f"The Falcon deadline is {t}.") for d, t in zip(docs, ("3 May", "9 May", "12 May"), strict=True)]
    return formed(docs, rows)


def pairs_of(inputs):
    return candidate_pairs(inputs, word_vectors(inputs.memories))


def test_each_candidate_pair_becomes_one_relation_oldest_first_with_its_costs_part_and_likelihood():
    inputs = corpus()
    pairs, labeler = pairs_of(inputs), Counting()
    relations, usage = label_pairs(pairs, inputs.memories, labeler)
    assert relations.height == pairs.height == len(labeler.labelled) == 3
    assert relations.schema == pl.Schema(SCHEMAS["relations"])
    assert (usage["labelled"], usage["lm_calls"], usage["tokens"], usage["cost"], usage["EXTEND"]) == (
        3, 3, 21, 0.75, 3,
    )  # fmt: skip
    assert set(relations["decided_at"]) == {None} and set(relations["labeler"]) == {"counting"}
    inputs = corpus()
    labeler = Reading()
    relations, _ = label_pairs(pairs_of(inputs), inputs.memories, labeler)
    of_newest = [older for newer, older in labeler.labelled if "12 May" in newer]
    assert of_newest == ["The Falcon deadline is 3 May.", "The Falcon deadline is 9 May."]
    assert set(relations["part"]) == {"[[0, 3]]"} and set(relations["likelihood"]) == {0.1}


class Reading(Counting):
    """Labels a pair by all pairs of its newer memory, and says which."""

    reads_together = True

    def label(self, pairs):
        super().label(pairs)
        together = {p.newer: sorted(q.older for q in pairs if q.newer == p.newer) for p in pairs}
        return [LabelResult("EXTEND", 0.5, {"with": together[p.newer]}, likelihood=0.1, part=((0, 3),)) for p in pairs]


def test_a_memory_whose_candidates_change_is_labelled_again_where_they_are_read_together():
    inputs = corpus()
    pairs = pairs_of(inputs).sort("newer_id", "older_id")
    (newest,) = pairs.group_by("newer_id").len().filter(pl.col("len") == 2)["newer_id"]
    fewer = pairs.filter(~((pl.col("newer_id") == newest) & pl.int_range(pl.len()).over("newer_id").eq(0)))
    first, _ = label_pairs(fewer, inputs.memories, Reading())
    again, usage = label_pairs(pairs, inputs.memories, Reading(), first)
    assert (usage["labelled"], usage["carried"]) == (2, 1)
    assert again.equals(label_pairs(pairs, inputs.memories, Reading())[0])
    _, apart = label_pairs(pairs, inputs.memories, Counting(), label_pairs(fewer, inputs.memories, Counting())[0])
    assert (apart["labelled"], apart["carried"]) == (1, 2)


def test_a_confirmed_update_stays_in_the_list_of_its_memory_and_changes_no_other_label():
    inputs = corpus()
    pairs = pairs_of(inputs).sort("newer_id", "older_id")
    first, _ = label_pairs(pairs, inputs.memories, Reading())
    newer, older = next(n for n in pairs.select("newer_id", "older_id").rows() if n[0] == pairs["newer_id"].mode()[0])
    decided = Decisions(relations=(RelationOverride(relation_id(newer, older), newer, older, "UPDATE"),))
    again, usage = label_pairs(pairs, inputs.memories, Reading(), first, decided)
    assert (usage["labelled"], usage["carried"], usage["decided_by_people"]) == (0, 2, 1)
    from_new, _ = label_pairs(pairs, inputs.memories, Reading(), None, decided)
    others = pl.col("labeler") != "person"
    assert again.filter(others).equals(from_new.filter(others)) and from_new.height == 3


def test_another_program_or_input_is_requested_again_and_a_decided_pair_is_not():
    inputs = corpus()
    pairs = pairs_of(inputs)
    first, _ = label_pairs(pairs, inputs.memories, offline_labeler())
    again, usage = label_pairs(pairs, inputs.memories, offline_labeler(), first)
    assert again.equals(first) and (usage["labelled"], usage["carried"]) == (0, 3)
    inputs = corpus()
    pairs = pairs_of(inputs)
    first, _ = label_pairs(pairs, inputs.memories, Counting())
    _, other = label_pairs(pairs, inputs.memories, Counting("p2"), first)
    assert other["labelled"] == 3
    renamed = corpus(title="Renamed")
    assert by_text(renamed.memories) == by_text(inputs.memories)
    again, usage = label_pairs(pairs, renamed.memories, Counting(), first)
    assert usage["labelled"] == 3 and "Renamed" in again["evidence"][0]


class Days(Counting):
    """Says of which days a pair is, and in which order."""

    def label(self, pairs):
        days = [[p.older_at.day, p.newer_at.day] for p in pairs]
        return [LabelResult("NONE", 0.9, {"days": d, "order": p.order}) for d, p in zip(days, pairs, strict=True)]


def test_days_are_those_of_the_speakers_clock_and_the_order_is_that_of_instants():
    said = dt.datetime(2026, 3, 1, 18, tzinfo=dt.UTC), dt.datetime(2026, 3, 2, 7, 30, tzinfo=dt.UTC)
    docs = [document(f"{time.day}.md", source_time=time) for time in said]
    inputs = formed(docs, [chunk(d, f"The Falcon deadline is {i} May.") for i, d in enumerate(docs, 3)])
    pairs = pairs_of(inputs)
    in_utc, _ = label_pairs(pairs, inputs.memories, Days())
    assert in_utc["evidence"].to_list() == ['{"days": [1, 2], "order": 1}']
    elsewhere = inputs.memories.with_columns(utc_offset=pl.lit(-480, pl.Int64))
    relations, usage = label_pairs(pairs, elsewhere, Days(), in_utc)
    assert relations["evidence"].to_list() == ['{"days": [1, 1], "order": 1}'] and usage["labelled"] == 1


def test_only_new_pairs_are_labelled_lost_ones_dropped_and_no_pairs_have_no_relations():
    inputs = corpus()
    pairs = pairs_of(inputs)
    first, _ = label_pairs(pairs[:2], inputs.memories, Counting())
    labeler = Counting()
    second, usage = label_pairs(pairs[1:], inputs.memories, labeler, first)
    assert len(labeler.labelled) == 1 and usage["carried"] == 1
    assert second.equals(label_pairs(pairs[1:], inputs.memories, Counting())[0])
    inputs = corpus()
    relations, usage = label_pairs(pairs_of(inputs).clear(), inputs.memories, offline_labeler())
    assert relations.is_empty() and relations.schema == pl.Schema(SCHEMAS["relations"]) and usage["labelled"] == 0


def test_many_pairs_are_labelled_in_parts_that_a_stopped_build_goes_on_from(tmp_path, monkeypatch):
    monkeypatch.setattr(label_pairs_module, "_FIRST_PART", 1)
    monkeypatch.setattr(label_pairs_module, "_PART_S", 0.0)
    inputs = corpus()
    pairs, unfinished = pairs_of(inputs), UnfinishedRows(tmp_path / "rows", "relations")
    whole, whole_usage = label_pairs(pairs, inputs.memories, Counting())

    class Stopped(Counting):
        def label(self, pairs):
            if self.labelled:
                raise KeyboardInterrupt
            return super().label(pairs)

    with pytest.raises(KeyboardInterrupt):
        label_pairs(pairs, inputs.memories, Stopped(), save=unfinished.add)
    labeler = Counting()
    relations, usage = label_pairs(pairs, inputs.memories, labeler, unfinished.read(), save=unfinished.add)
    labelled = len(labeler.labelled)
    assert relations.equals(whole) and 0 < labelled < 3
    assert (usage["labelled"], usage["carried"], usage["EXTEND"]) == (labelled, 3 - labelled, whole_usage["EXTEND"])
    assert label_pairs(pairs, inputs.memories, Counting("p2"), unfinished.read())[1]["labelled"] == 3


def test_rows_that_were_being_written_when_the_machine_stopped_are_not_read(tmp_path):
    inputs = corpus()
    relations, _ = label_pairs(pairs_of(inputs), inputs.memories, Counting())
    unfinished = UnfinishedRows(tmp_path / "rows", "relations")
    assert unfinished.read().is_empty()
    for part in relations.iter_slices(1):
        unfinished.add(part)
    (tmp_path / "rows" / "000002.parquet").write_bytes(b"PAR1")
    assert unfinished.read().equals(pl.concat([relations[:1], relations[2:]]))
