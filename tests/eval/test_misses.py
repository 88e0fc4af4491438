import json

from palimpsest_eval.golden.golden_run import GoldenRun, search_golden
from palimpsest_eval.golden.misses import find_misses
from palimpsest_eval.golden.questions import GoldenSet, Question
from palimpsest_eval.golden.score_golden import run_golden
from tests.eval.home import FakeReader, tables


def question(name, uri, quote, **more):
    return Question(id=name, question=name, type="single", user="ana", evidence=[{"uri": uri, "quote": quote}], **more)


class Ranked(FakeReader):
    """Answers with other ids where vectors alone rank."""

    def __init__(self, answers, near=(), packed=None):
        super().__init__(answers, packed or {})
        self.near = near

    def search(self, text, scope, **filters):
        if filters["strategy"] == "flat":
            return FakeReader({text: self.near}).search(text, scope, **filters)
        return super().search(text, scope, **filters)


OTHERS = ["m1", "m3", "m4", "x1", "x2", "x3"]


def cause(reader, item=None):
    golden = GoldenSet("notes", (item or question("q", "plan.md", "The budget is ten"),), "ana")
    (miss,) = find_misses(reader, search_golden(reader, golden, tables()), tables(), ["q"])
    return miss.cause, miss.rank, miss.vector_rank


def test_each_cause_is_identified():
    assert cause(Ranked({"q": ["m2"]}, ["m2"])) == ("found", 1, None)
    assert cause(Ranked({"q": ["m2"]}, ["m2"], {"q": ["zz"]})) == ("cut by the budget", 1, None)
    assert cause(Ranked({"q": [*OTHERS, "m2"]}, ["m1", "m2"])) == ("lost in fusion", 7, 2)
    assert cause(Ranked({"q": OTHERS}, [*OTHERS, "m2"])) == ("not near", None, 7)
    monday = question("q", "plan.md", "The launch is on Monday")
    assert cause(Ranked({"q": OTHERS[1:]}), monday)[0] == "retired"
    then = question("q", "plan.md", "The launch is on Monday", as_of="2024-01-10")
    assert cause(Ranked({"q": ["m1"]}, ["m1"]), then)[0] == "found"


def test_questions_that_miss_come_worst_first_and_one_that_cannot_be_judged_hides_no_other():
    questions = [question("a", "plan.md", "nowhere"), question("q", "plan.md", "The budget is ten")]
    questions.append(Question(id="u", question="u", type="unanswerable", evidence=[]))
    reader, golden = Ranked({"q": OTHERS}, ["m1", "m2"]), GoldenSet("notes", tuple(questions), "ana")
    run = run_golden(reader, golden, tables(), diagnose=True)
    assert [(m.question_id, m.cause) for m in run.misses] == [("a", "not chunked"), ("q", "lost in fusion")]
    assert (run.misses[0].rank, run.misses[0].vector_rank) == (None, None) and "question 'a'" in run.errors[0]

    def values(recall, packed, ndcg):
        return {"R@5": recall, "packed_recall": packed, "nDCG@10": ndcg}

    run = GoldenRun(
        "c", per_query={"a": values(1, 1, 0.6), "b": values(1, 0, 1), "c": values(0, 1, 0), "d": values(0, 0, 0)}
    )
    assert run.missed_questions == ["d", "c", "b"]


def test_what_a_run_returned_is_not_searched_again_and_its_misses_survive_json():
    reader = Ranked({"q": OTHERS}, ["m2"])
    golden = GoldenSet("notes", (question("q", "plan.md", "The budget is ten"),), "ana")
    run = run_golden(reader, golden, tables(), diagnose=True)
    shown = [f for _, _, f in reader.queries if f["k"] == 10]
    assert len(shown) == 2, "one search warms up, one counts"
    again = GoldenRun.from_json(json.loads(json.dumps(run.to_json())))
    assert again.misses == run.misses and run.misses[0].cause == "lost in fusion"
    older = {k: v for k, v in run.to_json().items() if k != "misses"}
    assert GoldenRun.from_json(older).misses is None
