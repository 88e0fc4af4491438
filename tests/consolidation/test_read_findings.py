"""What an answer of a model may say of memories, and that a proposal of any text is read as it was written."""

from dataclasses import replace
from pathlib import Path

import pytest

from palimpsest.consolidation.lm_findings import read_findings
from palimpsest.consolidation.scope_memories import Memory
from palimpsest.core.errors import DamagedFile
from palimpsest.store.proposals import Proposal, proposals_path, read_proposals, write_proposals

SCOPE = ("notes", "ann", "")
TEXTS = {"m1": "Rye bread is from the market.", "m2": "The market opens at nine.", "m3": "My sister 海豚三号 came."}


def memory(memory_id: str, text: str, speaker: str | None = None) -> Memory:
    nothing = dict.fromkeys(("session_id", "title", "heading", "valid_until", "superseded_by", "observed_at"))
    nothing |= dict.fromkeys(("ingested_at", "at", "line", "importance_source"))
    numbers = {"seq": 0, "ordinal": 0, "confidence": 1.0, "importance": 0.5, "trust": 1.0}
    given = {"memory_id": memory_id, "text": text, "document_id": "d", "speaker": speaker, "unit": "turn"}
    return Memory(**given, **nothing, **numbers, is_latest=True)  # type: ignore[arg-type]


def found(statement: object) -> list[Proposal]:
    memories = {label: memory(label * 8, text, "Zqamalia" if label == "m3" else None) for label, text in TEXTS.items()}
    return read_findings(SCOPE, memories, {"notes": [{"statement": statement, "premises": ["m1", "m2"]}]}).proposals


@pytest.mark.parametrize(
    "statement",
    [
        "Zqamalia sells rye bread at the market.",
        "Rye bread 海豚三号.",
        "Rye bread \ud83d is from the market.",
        "Rye\u200b bread is from the market.",
        "The sister buys rye bread.",
        "Rye bread is sold at 31 markets.",
        ["Rye bread"],
        None,
    ],
)
def test_a_statement_has_nothing_of_a_memory_that_it_does_not_name(statement):
    assert found(statement) == []


def test_a_statement_of_its_premises_is_proposed():
    (note,) = found("Rye bread is sold from nine on.")
    assert note.memory_ids == ("m1" * 8, "m2" * 8)


@pytest.mark.parametrize(
    "answer", [{}, {"notes": "x"}, {"notes": [1]}, {"contradictions": [{"memories": [["m1"], 9**99]}]}]
)
def test_an_answer_of_any_form_is_read(answer):
    assert read_findings(SCOPE, {"m1": memory("a", "A text.")}, answer).proposals == []


PRUNE = Proposal("prune", "expired", SCOPE, ("a" * 16,), "a line\u2028of two", 0.5, drop="a" * 16)


def test_a_description_may_have_a_line_separator(tmp_path: Path):
    write_proposals(tmp_path, [PRUNE])
    assert list(read_proposals(tmp_path).values()) == [PRUNE]


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_ids": ()},
        {"drop": "b" * 16},
        {"kind": "contradiction"},
        {"names": ("c" * 16,)},
        {"value": 7.0},
        {"created_at": "x"},
        {"created_at": "2026-01-01"},
    ],
)
def test_a_proposal_that_names_what_its_kind_does_not_is_damage(tmp_path: Path, wrong: dict):
    write_proposals(tmp_path, [replace(PRUNE, **wrong)])
    with pytest.raises(DamagedFile, match=r"proposals\.jsonl"):
        read_proposals(tmp_path)
    assert proposals_path(tmp_path).exists()
