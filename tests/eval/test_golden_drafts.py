import json

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import published
from palimpsest_eval.golden.questions import JUDGED_TABLES, GoldenSet, golden_hash, load_golden
from palimpsest_eval.golden.resolve import resolve
from palimpsest_eval.runs.drafts import draft_questions, init_golden, next_steps, write_drafts
from palimpsest_eval.runs.judge_build import judge_home
from tests.eval.home import COLLECTION, rows, tables


def with_sentences(*texts):
    """The hand-made build with one document of user ana, one memory a sentence."""
    t = tables()
    whole, at = "\n".join(texts), 0
    scope = {"collection": COLLECTION, "user_id": "ana", "document_id": "d1"}
    memories = []
    for i, text in enumerate(texts):
        memories.append({"memory_id": f"n{i}", **scope, "text": text, "char_start": at, "char_end": at + len(text)})
        at += len(text) + 1
    t["document_texts"] = rows("document_texts", {"document_id": "d1", "text": whole})
    t["memories"] = rows("memories", *memories)
    t["versions"] = rows(
        "versions",
        *(
            {
                "memory_id": m["memory_id"],
                "is_latest": m["memory_id"] != "n0",
                **{k: scope[k] for k in ("collection", "user_id")},
            }
            for m in memories
        ),
    )
    return t


def test_a_draft_asks_for_the_rarest_words_of_a_latest_memory_and_is_judged_by_its_sentence():
    t = with_sentences(
        "The retired sentence is about an old tower of bricks.",
        "The ferry to the island leaves at seven from pier nine.",
        "Too short.",
        "The ferry to the mainland needs a passport and two photographs.",
    )
    drafts = draft_questions(t, COLLECTION, "ana", 5)
    assert [d.evidence[0].quote for d in drafts] == [
        "The ferry to the island leaves at seven from pier nine.",
        "The ferry to the mainland needs a passport and two photographs.",
    ]
    assert drafts[0].question == 'What does "plan" say about island, leaves and nine?'
    assert (drafts[0].id, drafts[0].user, drafts[0].draft) == ("notes-001", None, True)
    assert drafts == draft_questions({n: f.reverse() for n, f in t.items()}, COLLECTION, "ana", 5)
    assert len(draft_questions(t, COLLECTION, "ana", 1)) == 1
    assert draft_questions(t, COLLECTION, "ben", 1)[0].user == "ana"


def test_no_draft_is_made_of_what_a_search_leaves_out_and_a_draft_names_its_project():
    t = with_sentences(
        "The retired sentence is about an old tower of bricks.",
        "The ferry to the island leaves at seven from pier nine.",
        "The doctor said that the allergy test came back positive.",
        "The ferry to the mainland needs a passport and two photographs.",
    )
    mine = pl.col("memory_id")
    t["memories"] = t["memories"].with_columns(user_visible=mine != "n1", pii=mine == "n2", project_id=pl.lit("alpha"))
    t["documents"] = t["documents"].with_columns(project_id=pl.lit("alpha"))
    [draft] = draft_questions(t, COLLECTION, "ana", 5)
    assert (draft.evidence[0].quote[:23], draft.project) == ("The ferry to the mainla", "alpha")


def test_every_draft_of_a_real_build_can_be_judged_and_the_gate_names_it(judged_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (path,) = init_golden(judged_home, None, 3)
    questions = load_golden(tmp_path / path)
    assert 0 < len(questions) <= 3 and all(q.draft for q in questions)
    assert resolve(GoldenSet("chats", tuple(questions), "ann"), published(judged_home).tables(JUDGED_TABLES))
    (decision,) = judge_home(judged_home).collections
    assert decision.warnings[0].startswith(f"{len(questions)} draft")
    assert "baseline accept" in decision.reasons[0]
    with pytest.raises(PalimpsestError, match="each has questions"):
        init_golden(judged_home, None, 3)
    with pytest.raises(PalimpsestError, match="already exists"):
        init_golden(judged_home, "chats", 3)
    with pytest.raises(PalimpsestError, match="no collection 'mails'; the build has chats"):
        init_golden(judged_home, "mails", 3)
    steps = next_steps(judged_home, [path])
    assert path in steps and f"palimpsest gate --home {judged_home.path} " in steps
    assert f"baseline accept --why 'first questions' --home {judged_home.path}" in steps
    assert "until step 3" in steps and "not published" in steps


def test_nothing_to_draft_from_is_an_error_and_the_mark_of_a_draft_no_part_of_the_question(tmp_path):
    with pytest.raises(PalimpsestError, match="no latest memory"):
        write_drafts(tmp_path / "golden/x.jsonl", draft_questions(with_sentences("Too short."), COLLECTION, "ana", 3))
    assert list(tmp_path.iterdir()) == []
    drafts = draft_questions(with_sentences("", "The ferry leaves the island at seven sharp."), COLLECTION, "ana", 1)
    write_drafts(tmp_path / "x.jsonl", drafts)
    edited = json.loads((tmp_path / "x.jsonl").read_text())
    del edited["draft"]
    (tmp_path / "y.jsonl").write_text(json.dumps(edited))
    assert golden_hash(load_golden(tmp_path / "x.jsonl")) == golden_hash(load_golden(tmp_path / "y.jsonl"))
