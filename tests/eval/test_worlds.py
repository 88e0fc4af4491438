"""Lists that chooser and judge are trained on: which candidates, which one is right, and which part of it."""

import datetime as dt
import random

import numpy as np

from palimpsest_eval.training.worlds import Change, ListMaker, Note, World, load_worlds

NOTES = [
    "The rent is 900 euros.", "We have two cats. I work at Acme.", "I live in Lisbon.", "I play chess on Fridays.",
    "I left Acme for Vireo.", "I moved to Porto.",
]  # fmt: skip
ENDED = {4: "I work at Acme.", 5: "I live in Lisbon."}


def world() -> World:
    notes = [Note(text, "Sam", dt.date(2026, 1, 1 + n)) for n, text in enumerate(NOTES)]
    return World("x-1", notes, [Change(4, 1, "I work at Acme."), Change(5, 2, None)], [(5, 0)])


def make(most: int = 5) -> ListMaker:
    other = World("x-2", [Note(f"It rains on day {n}.", "Ana", dt.date(2026, 1, 1 + n)) for n in range(12)], [], [])
    return ListMaker([world(), other], lambda texts: np.eye(len(texts), 20, dtype=np.float32) + 0.1, most)


def test_the_part_is_what_ends_however_notes_are_joined() -> None:
    rng, maker, joined, without = random.Random(0), make(), 0, 0
    for _ in range(300):
        for newer, ended in ENDED.items():
            found = maker.training_list(world(), newer, rng)
            texts = [o.text for o in found.older]
            if found.right is None:
                without += 1
                assert not any(ended in text for text in texts)
                continue
            start, end = found.part or (0, len(texts[found.right]))
            assert texts[found.right][start:end].lower().strip(" .") == ended.lower().rstrip(".")
            joined += len(texts[found.right]) > len(NOTES[1])
            assert [o.at for o in found.older if o.at] == sorted(o.at for o in found.older if o.at)
    assert joined > 20 and without > 20


def test_lists_of_a_build_are_the_nearest_notes_and_some_authors_train_nothing() -> None:
    found = make().full_list(world(), 4)
    assert [o.text for o in found.older] == NOTES[:4] and found.right == 1
    assert found.part and NOTES[1][slice(*found.part)] == "I work at Acme."
    worlds = load_worlds()
    kept = [w for w in worlds if w.is_held_out]
    assert 0.05 < len(kept) / len(worlds) < 0.3
    assert all(w.is_held_out for w in worlds if w.world_id.startswith("crm-"))
    rng, maker = random.Random(0), make()
    for newer in (1, 2, 3):
        for _ in range(50):
            found = maker.training_list(world(), newer, rng)
            assert found.right is None and found.older
