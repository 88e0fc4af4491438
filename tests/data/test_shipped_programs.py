"""The relation programs of data/programs: they load, their cards are what the files say, no test pair is in one."""

import json
from pathlib import Path

import pytest

from palimpsest.relations.labelers.lm_labeler import load_program
from palimpsest_eval.labels.saved_programs import card_markdown, read_program

DATA = Path(__file__).resolve().parents[2] / "data"
PROGRAMS = sorted((DATA / "programs/relation").glob("*.json"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_a_shipped_program_loads_and_its_card_is_true(path):
    saved = read_program(path.stem)
    ids = saved["card"]["compiled_from"]["demonstrations"]
    demos = load_program(saved["state"]).demos
    training = {
        row["id"]: row
        for file in (DATA / "golden/pairs").glob("*.jsonl")
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())
        if row["split"] == "train"
    }
    assert [(d["older"], d["newer"], d["label"]) for d in demos] == [
        (training[i]["older"], training[i]["newer"], training[i]["label"]) for i in ids
    ]
    assert path.with_suffix(".md").read_text(encoding="utf-8") == card_markdown(path.stem, saved["card"])


def test_there_is_a_program_and_none_is_the_default():
    assert PROGRAMS and not (DATA / "programs/relation/default.json").exists()
