from palimpsest.eval.golden.golden_run import GateRun
from palimpsest.eval.golden.misses import missed, why_missed
from palimpsest.eval.golden.questions import Question
from tests.eval.home import FakeReader, tables


def question(name, uri, quote, **more):
    return Question(id=name, question=name, type="single", user="ana", evidence=[{"uri": uri, "quote": quote}], **more)


class Ranked(FakeReader):
    """Answers with other ids where vectors alone are asked."""

    def __init__(self, answers, near=(), packed=None):
        super().__init__(answers, packed or {})
        self.near = near

    def search(self, text, scope, **filters):
        if filters["strategy"] == "flat":
            return FakeReader({text: self.near}).search(text, scope, **filters)
        return super().search(text, scope, **filters)


OTHERS = ["m1", "m3", "m4", "x1", "x2", "x3"]


def cause(reader, asked=None):
    (miss,) = why_missed(reader, [asked or question("q", "plan.md", "The budget is ten")], tables(), "notes", "ana")
    return miss.cause, miss.rank, miss.vector_rank


def test_each_cause_is_told_apart():
    assert cause(Ranked({"q": ["m2"]}, ["m2"])) == ("found", 1, 1)
    assert cause(Ranked({"q": ["m2"]}, ["m2"], {"q": ["zz"]})) == ("cut by the budget", 1, 1)
    assert cause(Ranked({"q": [*OTHERS, "m2"]}, ["m1", "m2"])) == ("lost in fusion", 7, 2)
    assert cause(Ranked({"q": OTHERS}, [*OTHERS, "m2"])) == ("not near", None, 7)
    assert cause(Ranked({"q": OTHERS}), question("q", "plan.md", "nowhere")) == ("not chunked", None, None)
    monday = question("q", "plan.md", "The launch is on Monday")
    assert cause(Ranked({"q": OTHERS[1:]}), monday)[0] == "retired"
    then = question("q", "plan.md", "The launch is on Monday", as_of="2024-01-10")
    assert cause(Ranked({"q": ["m1"]}, ["m1"]), then)[0] == "found"


def test_one_question_that_cannot_be_judged_hides_no_other():
    asked = [question("a", "plan.md", "nowhere"), question("q", "plan.md", "The budget is ten")]
    asked.append(Question(id="u", question="u", type="unanswerable", evidence=[]))
    told = why_missed(Ranked({"q": ["m2"]}, ["m2"]), asked, tables(), "notes", "ana")
    assert [(m.question_id, m.cause) for m in told] == [("a", "not chunked"), ("q", "found")]


def test_questions_that_miss_come_worst_first():
    def values(recall, packed, ndcg):
        return {"R@5": recall, "packed_recall": packed, "nDCG@10": ndcg}

    run = GateRun(
        "c", per_query={"a": values(1, 1, 0.6), "b": values(1, 0, 1), "c": values(0, 1, 0), "d": values(0, 0, 0)}
    )
    assert missed(run) == ["d", "c", "b"]
