import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest_eval.golden.questions import (
    GoldenError,
    GoldenSet,
    Question,
    golden_hash,
    load_golden,
    load_questions,
)
from palimpsest_eval.golden.resolve import FoldedText, ResolvedQuestion, resolve
from tests.eval.home import COLLECTION, tables


def question(id="q1", evidence=(("news.md", "moved to Friday"),), stale=(), user="ana", **more):
    def quotes(pairs):
        return [{"uri": u, "quote": q} for u, q in pairs]

    given = {"id": id, "question": "when is the launch?", "type": "single", "user": user} | more
    return Question(**given, evidence=quotes(evidence), stale=quotes(stale))


def found(*questions, user="ana", over=None):
    return resolve(GoldenSet(COLLECTION, questions, user), over or tables())


def test_a_quote_is_found_across_line_breaks_and_met_by_each_memory_that_holds_it():
    [judged] = found(question(stale=[("plan.md", "launch is on Monday")]))
    assert judged.needs == (frozenset({"m3"}),)
    assert judged.stale == {"m1"}
    [judged] = found(question(evidence=[("news.md", "Friday. Bring")]))
    assert judged.needs == (frozenset({"m3", "m4"}),)
    assert judged.rank_needs(["m4", "m9", "m3"]) == ["need:0", "m9", "m3"]
    assert found(question(evidence=[("chat.jsonl#s1", "keep bees")], user="ben"))[0].needs == (frozenset({"m5"}),)
    assert found(question(evidence=[("chat.jsonl", "keep bees")], user="ben"))[0].needs == (frozenset({"m5"}),)
    assert found(question(user=None), user="ana")[0].user_id == "ana"


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ([("news.md", "moved to Sunday")], "news.md does not hold 'moved to Sunday'"),
        ([("gone.md", "anything")], "no document 'gone.md'"),
        ([("chat.jsonl#s2", "keep bees")], "no document 'chat.jsonl#s2'"),
        ([("chat.jsonl#s1", "keep bees")], "belongs to user 'ben', not 'ana'"),
    ],
)
def test_a_question_that_cannot_be_judged_is_named_with_its_reason(evidence, message):
    with pytest.raises(GoldenError, match="question 'q7'") as e:
        found(question("q1"), question("q7", evidence=evidence))
    assert message in str(e.value)
    assert "q1" not in str(e.value)


def in_project(tables, document_id, project):
    mine = pl.col("document_id") == document_id
    return {
        n: f.with_columns(project_id=pl.when(mine).then(pl.lit(project)).otherwise("project_id"))
        if n in ("documents", "memories")
        else f
        for n, f in tables.items()
    }


def test_a_question_of_a_project_is_judged_by_the_project_and_the_general_memory():
    over = in_project(tables(), "d2", "alpha")
    both = [("news.md", "moved to Friday"), ("plan.md", "ten thousand euros")]
    [judged] = found(question(evidence=both, project="alpha"), over=over)
    assert set(judged.needs) == {frozenset({"m3"}), frozenset({"m2"})}
    assert judged.question.filters == {"project": "alpha"}
    for project in (None, "beta"):
        with pytest.raises(GoldenError, match=r"news\.md belongs to project 'alpha'; set the question's project"):
            found(question(project=project), over=over)


def test_a_quote_of_no_memory_or_of_another_collections_document_is_an_error():
    bare = tables()
    bare["memories"] = bare["memories"].filter(pl.col("memory_id") != "m3")
    with pytest.raises(GoldenError, match="no memory covers"):
        found(question(), over=bare)
    two = tables()
    other = two["documents"].filter(pl.col("document_id") == "d2").with_columns(collection=pl.lit("other"))
    two["documents"] = pl.concat([two["documents"].filter(pl.col("document_id") != "d2"), other])
    with pytest.raises(GoldenError, match=r"no document 'news\.md'"):
        found(question(), over=two)


def test_rows_in_any_order_give_the_same_needs_one_that_holds_another_is_met_with_it_and_an_answer_is_not_stale():
    [judged] = found(question(evidence=[("news.md", "Bring cake")], stale=[("news.md", "moved to Friday. Bring")]))
    assert judged.stale == {"m3"}, "m4 holds part of the stale quote, but the answer too"
    turned = {name: t.reverse() for name, t in tables().items()}
    monday = question(stale=[("plan.md", "Monday")])
    assert found(monday, over=turned) == found(monday)
    judged = found(question(evidence=[("news.md", "moved to Friday"), ("news.md", "Friday. Bring")]))[0]
    assert judged.needs == (frozenset({"m3"}),)


def test_packed_recall_takes_the_whole_memory_or_the_words_themselves():
    judged = found(question(evidence=[("news.md", "moved to Friday"), ("plan.md", "ten thousand euros")]))[0]
    assert judged.needs_in_context(["m3"], "").count(True) == 1
    assert judged.needs_in_context([], "- budget: ten  thousand\neuros [memory:x]").count(True) == 1
    assert judged.needs_in_context(["m2"], "the launch moved to Friday") == [True, True]
    assert judged.needs_in_context(["m1"], "nothing") == [False, False]


@given(st.lists(st.sampled_from("abcdef"), unique=True))
def test_each_need_is_met_once_at_its_first_memory(ranked):
    needs = (frozenset("a"), frozenset("bc"), frozenset("de"))
    judged = ResolvedQuestion(question=question(), user_id="ana", needs=needs, quotes=(frozenset(),) * 3)
    names = judged.rank_needs(ranked)
    assert len(names) == len(ranked) == len(set(names))
    for i, need in enumerate(needs):
        met = [r for r, m in enumerate(ranked) if m in need]
        assert [r for r, n in enumerate(names) if n == f"need:{i}"] == met[:1]


@given(st.text(alphabet="ab \n\t", max_size=30), st.integers(0, 30), st.integers(1, 30))
def test_a_folded_match_points_at_the_same_words(text, start, length):
    quote = text[start : start + length]
    if quote.split():
        spans = FoldedText(text).find(quote)
        assert spans
        assert all(" ".join(text[a:b].split()) == " ".join(quote.split()) for a, b in spans)


def line(**over):
    base = {"id": "a", "question": "what?", "type": "single", "evidence": [{"uri": "u", "quote": "q"}]}
    return json.dumps({k: v for k, v in (base | over).items() if v is not None})


def test_a_golden_set_is_read_sorted_and_hashed_by_content(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text(line(id="b") + "\n\n" + line(id="a", as_of="2024-03-01") + "\n")
    one = load_golden(path)
    assert [q.id for q in one] == ["a", "b"]
    path.write_text(line(as_of="2024-03-01") + "\n" + line(id="b"))
    assert golden_hash(load_golden(path)) == golden_hash(one)
    path.write_text(line(as_of="2024-03-02") + "\n" + line(id="b"))
    assert golden_hash(load_golden(path)) != golden_hash(one)
    assert load_golden(tmp_path / "none.jsonl") is None
    assert golden_hash([question()]) == "845cdba425403d92"
    assert golden_hash([question(project="alpha")]) != golden_hash([question()])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no questions"), (line() + "\n" + line(), "line 2: id 'a' is used twice"),
        (line(question=None), "line 1: question"), (line(evidence=[]), "must have evidence"),
        (line(type="unanswerable"), "must have evidence"), (line(kind="outdated"), "kind"),
        (line(type="unanswerable", evidence=[], kind="other"), "kind"),
        (line(evidence=[{"uri": "u", "quote": " "}]), "line 1: evidence.0.quote"),
        (line(surprise=1), "line 1: surprise"), (line() + "\nnot json", "line 2"),
    ],
)  # fmt: skip
def test_a_malformed_golden_set_names_line_and_field(tmp_path, content, message):
    path = tmp_path / "notes.jsonl"
    path.write_text(content)
    with pytest.raises(GoldenError) as e:
        load_golden(path)
    assert message in str(e.value)
    assert "\n" not in str(e.value)


def test_follow_up_questions_are_read_from_a_file_of_their_own(tmp_path):
    folder = tmp_path / "golden"
    (folder / "follow_ups").mkdir(parents=True)
    first, second = (question(i).model_dump(mode="json", exclude_none=True) for i in ("q2", "q1"))
    second["turns"] = ["Who launches?", "Ana."]
    (folder / "notes.jsonl").write_text(json.dumps(first), encoding="utf-8")
    (folder / "follow_ups/notes.jsonl").write_text(json.dumps(second), encoding="utf-8")
    questions = load_questions(tmp_path, "notes")
    assert [(q.id, q.turns) for q in questions] == [("q1", ("Who launches?", "Ana.")), ("q2", ())]
    assert [turn.content for turn in questions[0].filters["turns"]] == ["Who launches?", "Ana."]
    assert golden_hash(questions[:1]) != golden_hash([question("q1")])
    assert load_questions(tmp_path, "other") is None
    (folder / "follow_ups/notes.jsonl").write_text(json.dumps(first), encoding="utf-8")
    with pytest.raises(GoldenError, match=r"follow_ups/notes\.jsonl: id 'q2' is in notes\.jsonl too"):
        load_questions(tmp_path, "notes")
