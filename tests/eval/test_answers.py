from types import SimpleNamespace

import polars as pl
import pytest

from palimpsest.query.embed_query import count_tokens
from palimpsest_eval.golden.answers import Sources, check_citations, duplicate_share, irrelevant_share
from palimpsest_eval.golden.questions import GoldenSet, Question
from palimpsest_eval.golden.score_golden import run_golden
from tests.eval.home import FakeReader, Found, rows, tables

SOURCES = Sources(tables())
GOOD = (
    "- (2024-02-01) The launch moved to Friday. [memory:m3]\n"
    "  replaced: (2024-01-01, until 2024-02-01) The launch is on Monday. [memory:m1]\n"
    "Sources:\n[memory:m3] news.md, page 2, chars 0-30\n[memory:m1] plan.md, chars 0-24"
)


def test_a_line_also_of_parts_holds_when_its_span_holds_its_words_and_what_is_left_out_is_marked():
    assert check_citations(GOOD, SOURCES) == (2, [])
    assert check_citations(GOOD.replace("  replaced: ", "  context: "), SOURCES) == (2, [])
    assert check_citations("", SOURCES) == (0, [])
    assert check_citations(PARTS, SOURCES) == (1, [])
    for old, new, why in (
        ("The […] moved", "The moved", "holds other words"),
        ("to […] [", "to [", "holds other words"),
        ("11-21", "11-25", "holds other words"),
        ("0-3, 11-21", "11-21, 0-3", "names another place"),
        ("11-21", "11-33", "names another place"),
        (", chars 0-3, 11-21", "", "names another place"),
    ):
        (error,) = check_citations(PARTS.replace(old, new), SOURCES)[1]
        assert why in error


PARTS = "- (2024-02-01) The […] moved to […] [memory:m3]\nSources:\n[memory:m3] news.md, page 2, chars 0-3, 11-21"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("moved to Friday. [", "moved to Sunday. [", "m3: news.md:0-30 holds other words"),
        ("- (2024-02-01) The", "- and (2024-02-01) The", "m3: news.md:0-30 holds other words"),
        ("Monday. [memory:m1]", "Monday.", "a line is not cited"),
        ("Monday. [memory:m1]", "Monday. [memory:zz]", "zz is no memory of the build"),
        ("\n[memory:m1] plan.md, chars 0-24", "", "m1 is not among the sources"),
        ("plan.md, chars 0-24", "plan.md, chars 0-25", "m1 names another place than plan.md:0-24"),
        ("[memory:m1] plan.md", "[memory:m1] news.md", "m1 names another place than plan.md:0-24"),
        ("\nSources:\n", "\n", "a line is not cited"),
    ],
)
def test_an_invalid_citation_is_reported(old, new, why):
    assert why in check_citations(GOOD.replace(old, new), SOURCES)[1]


def test_a_repeat_in_the_same_words_or_one_that_packing_folded_counts_once_each():
    def result(i, text):
        return SimpleNamespace(memory_id=i, text=text)

    best = [
        result("a", "The launch moved."),
        result("b", "the LAUNCH moved"),
        result("c", "Bring cake."),
        result("d", "Bees"),
    ]
    assert duplicate_share(best, {}, 5) == 0.25
    assert duplicate_share(best, {"a": ("b", "d")}, 5) == 0.5
    assert duplicate_share(best, {"a": ("d",)}, 3) == pytest.approx(1 / 3)
    assert duplicate_share([], {}, 5) == 0.0


def question(name, quote, stale=None, **more):
    uri = {"moved": "news.md", "Bring": "news.md", "budget": "plan.md", "is on": "plan.md"}
    quoted = [{"uri": next(u for k, u in uri.items() if k in q), "quote": q} for q in (quote, stale) if q]
    fields = {"id": name, "question": name, "type": "updated", "user": "ana", "evidence": quoted[:1]}
    return Question(**fields, stale=quoted[1:], **more)


def test_the_run_reports_current_facts_false_retirements_repeats_and_citations():
    questions = [
        question("launch", "The launch moved to Friday", "The launch is on Monday"),
        question("launch missed", "The launch moved to Friday", "The launch is on Monday"),
        question("cake", "Bring cake"),
        question("monday", "The launch is on Monday"),
        question("then", "The launch is on Monday", as_of="2024-01-15"),
        Question(id="none", question="none", type="unanswerable", user="ana", evidence=[]),
    ]
    reader = FakeReader(
        {
            "launch": [Found("m3", text="x"), Found("m4", text="X")],
            "launch missed": ["m1", "m2"],
            "cake": ["m4"],
            "none": ["m2"],
        },
    )
    run = run_golden(reader, GoldenSet("notes", tuple(questions), "ana"), tables())
    assert run.current == {"launch": 1.0, "launch missed": 0.0}
    assert run.retired == {"launch": 0.0, "launch missed": 0.0, "cake": 0.0, "monday": 1.0}
    assert run.per_query["launch"]["duplicates@5"] == 0.5
    assert run.quality == {
        "current_fact_recall": 0.5, "false_retirement": 0.25, "duplicate_share": pytest.approx(0.2),
        "unanswerable_answered": 1.0, "abstention_recall": 0.0, "leaks": 0.0,
    }  # fmt: skip


def test_one_citation_that_does_not_hold_closes_the_gate():
    from palimpsest_eval.gate.decide import decide

    class Lying(FakeReader):
        def search(self, text, scope, **filters):
            answer = super().search(text, scope, **filters)
            answer.context = GOOD.replace("Friday", "Sunday")
            return answer

    run = run_golden(Lying({"cake": ["m4"]}), GoldenSet("notes", (question("cake", "Bring cake"),), "ana"), tables())
    assert run.quality["citation_validity"] == 0.5
    reasons = decide(run, None, True).reasons
    assert any(
        r.startswith("invariant 8 (citations): 1 of 2 quoted lines do not hold: question 'cake'") for r in reasons
    )


def test_irrelevant_tokens_are_those_of_memories_that_no_evidence_is_in():
    context = (
        "- (2024-02-01) The launch moved to Friday. [memory:m2]\n"
        "  replaced: The launch is on Monday. [memory:m1]\n"
        "  context: Bring cake. [memory:m4]\n"
        "Sources:\n[memory:m2] a.md, chars 0-9"
    )
    launch = count_tokens("(2024-02-01) The launch moved to Friday.")
    monday, cake = count_tokens("The launch is on Monday."), count_tokens("Bring cake.")
    assert irrelevant_share(context, {"m2"}) == pytest.approx((monday + cake) / (launch + monday + cake))
    assert irrelevant_share(context, {"m1", "m2", "m4"}) == 0.0 and irrelevant_share(context, set()) == 1.0
    assert irrelevant_share("", {"m2"}) == 0.0


def test_a_question_with_five_pieces_of_evidence_is_judged_by_precision():
    quotes = ["The launch moved to Friday", "The launch is on Monday", "Bring cake"]
    sources = [e.model_dump() for name in quotes for e in question("q", name).evidence]
    broad = Question(id="broad", question="broad", type="multi_hop", user="ana", evidence=(sources * 2)[:5])
    few = Question(id="few", question="few", type="multi_hop", user="ana", evidence=sources)
    reader = FakeReader({"broad": ["m3", "m2", "m1", "m4"], "few": ["m2"]})
    run = run_golden(reader, GoldenSet("notes", (broad, few), "ana"), tables())
    assert run.precision == {"broad": pytest.approx(0.6)} and run.quality["broad_P@5"] == pytest.approx(0.6)


def formed_sources(quote="The launch moved\n  to Friday. "):
    """Sources of a build in which m3 is formed of its span."""
    made = tables()
    is_formed = pl.col("memory_id") == "m3"
    statement = "Ana says: The launch moved to Friday."
    made["memories"] = made["memories"].with_columns(
        unit=pl.when(is_formed).then(pl.lit("reflection")).otherwise("unit"),
        text=pl.when(is_formed).then(pl.lit(statement)).otherwise("text"),
    )
    item = {"document_id": "d2", "char_start": 0, "char_end": 30, "statement": statement, "quote": quote}
    return Sources(made | {"notes": rows("notes", item)})


def test_a_line_of_a_formed_memory_shows_its_statement_and_its_span_holds_the_quote_that_this_rests_on():
    shown = GOOD.replace("The launch moved", "Ana says: The launch moved")
    assert check_citations(shown, formed_sources()) == (2, [])
    other_statement = shown.replace("to Friday", "to Sunday")
    for context, sources in ((other_statement, formed_sources()), (shown, formed_sources("The launch stays."))):
        assert check_citations(context, sources) == (2, ["m3: news.md:0-30 holds other words"])
