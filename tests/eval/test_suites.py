import json
from dataclasses import replace

import pytest
import yaml

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.context.quotes import Quote
from palimpsest_eval.golden.golden_run import time_kind
from palimpsest_eval.golden.retrieval_run import SearchSettings
from palimpsest_eval.metrics import MetricError
from palimpsest_eval.suites.run_suite import run_suite
from palimpsest_eval.suites.suite import collection_name, corpus_id, load_suite, suite_digest, write_collection
from tests.eval.home import FakeReader, Found, ticking

CORPUS = [
    {"_id": "a#1", "title": "Bees", "text": "bees make honey", "scope": "s1", "meta": {"speaker": "Ana"}},
    {"_id": "b", "title": "", "text": "the hive is blue", "scope": "s1", "meta": {"speaker": "Ben"}},
    {"_id": "c", "title": "", "text": "rain fell", "scope": "s2"},
]
QUERIES = [
    {"_id": "q1", "text": "honey?", "scope": "s1", "type": "fact"},
    {"_id": "q2", "text": "weather?", "scope": "s2", "type": "time"},
    {"_id": "q3", "text": "never judged", "scope": "s2"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\ta#1\t2\nq1\tb\t1\nq2\tc\t1\nq3\tc\t0\n"


def lines(items):
    return "".join(json.dumps(x) + "\n" for x in items)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "bees (small)"
    path.mkdir()
    (path / "corpus.jsonl").write_text(lines(CORPUS))
    (path / "queries.jsonl").write_text(lines(QUERIES))
    (path / "qrels.tsv").write_text(QRELS)
    return path


def found(row, score=1.0, **more):
    return Found(f"m-{row}", uri=f"corpus.jsonl#{row}", score=score, **more)


def test_a_suite_is_read_with_scopes_grades_and_types_and_odd_lines(folder):
    suite = load_suite(folder)
    assert suite.scopes == {"a#1": "s1", "b": "s1", "c": "s2"}
    assert suite.qrels["q1"] == {"a#1": 2, "b": 1}
    assert [q.query_id for q in suite.judged] == ["q1", "q2"]
    assert suite.ordered_turns, "most rows have a speaker"
    odd = {"_id": "d\u2028e", "text": "a\u2028b\u0085c", "scope": "s2"}
    (folder / "corpus.jsonl").write_text(lines(CORPUS) + json.dumps(odd, ensure_ascii=False) + "\n")
    (folder / "qrels.tsv").write_bytes((QRELS + "q2\td\u2028e\t1\n").replace("\n", "\r\n").encode())
    assert load_suite(folder).qrels["q2"] == {"c": 1, "d\u2028e": 1}


@pytest.mark.parametrize(("role", "turns"), [("assistant", True), ("Actor", False), ("", False), (3, False)])
def test_rows_with_a_role_of_a_chat_are_turns(folder, role, turns):
    rows = [{"_id": i, "text": "bees make honey", "scope": "s1", "meta": {"role": role}} for i in ("a#1", "b")]
    (folder / "corpus.jsonl").write_text(lines([*rows, CORPUS[2]]))
    assert load_suite(folder).ordered_turns is turns


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("corpus.jsonl", "", "corpus.jsonl: empty"),
        ("corpus.jsonl", lines(CORPUS) + "{", "corpus.jsonl line 4: not JSON"),
        ("corpus.jsonl", lines(CORPUS) + "3\n", "corpus.jsonl line 4: must be a JSON object"),
        ("corpus.jsonl", lines([*CORPUS, CORPUS[0]]), "corpus.jsonl line 4: _id 'a#1' is used twice"),
        ("corpus.jsonl", lines([{"text": "x"}]), "corpus.jsonl line 1: _id is required"),
        ("corpus.jsonl", lines([{"_id": "x"}]), "corpus.jsonl line 1: text is required"),
        ("corpus.jsonl", lines([{"_id": "x", "text": "y", "scope": 3}]), "corpus.jsonl line 1: scope must be"),
        (
            "corpus.jsonl",
            lines([{"_id": "x", "text": "y", "meta": []}, {"_id": "y", "text": "", "meta": [1]}]),
            "line 2: meta",
        ),
        ("queries.jsonl", "\n", "queries.jsonl: empty"),
        ("queries.jsonl", lines([QUERIES[0], QUERIES[0]]), "queries.jsonl line 2: _id 'q1' is used twice"),
        ("queries.jsonl", lines([{"_id": "q", "text": " "}]), "queries.jsonl line 1: text is required"),
        ("qrels.tsv", "", "qrels.tsv line 1: the header"),
        ("qrels.tsv", "q1\ta#1\t1\n", "qrels.tsv line 1: the header"),
        ("qrels.tsv", QRELS + "q1 c 1\n", "qrels.tsv line 6: 1 columns"),
        ("qrels.tsv", QRELS + "q2\tc\tmuch\n", "qrels.tsv line 6: score 'much' is not a whole number"),
        ("qrels.tsv", QRELS + "q2\tc\t-1\n", "qrels.tsv line 6: score -1 is negative"),
        ("qrels.tsv", QRELS + "q9\tc\t1\n", "qrels.tsv line 6: query 'q9' is not in queries.jsonl"),
        ("qrels.tsv", QRELS + "q2\tz\t1\n", "qrels.tsv line 6: row 'z' is not in corpus.jsonl"),
        ("qrels.tsv", QRELS + "q2\tb\t1\n", "qrels.tsv line 6: row 'b' is outside the scope"),
        ("qrels.tsv", QRELS + "q2\tc\t1\n", "qrels.tsv line 6: row 'c' is judged twice"),
    ],
)
def test_a_malformed_suite_names_file_and_line(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(PalimpsestError) as e:
        load_suite(folder)
    assert message in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_or_binary_file_is_named(folder, name):
    (folder / name).write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(PalimpsestError, match=name):
        load_suite(folder)
    (folder / name).unlink()
    with pytest.raises(PalimpsestError, match=name):
        load_suite(folder)


def test_extra_rows_join_the_corpus_and_its_digest_which_questions_do_not_change(folder, tmp_path):
    extra = tmp_path / "more.jsonl"
    extra.write_text(lines([{"_id": "d", "text": "one more", "scope": "s2"}]))
    assert load_suite(folder, extra).scopes["d"] == "s2"
    assert suite_digest(folder, extra) != suite_digest(folder)
    extra.write_text(lines([CORPUS[0]]))
    with pytest.raises(PalimpsestError, match=r"more\.jsonl line 1: _id 'a#1' is used twice"):
        load_suite(folder, extra)
    before = suite_digest(folder)
    (folder / "queries.jsonl").write_text(lines(QUERIES[:2]))
    assert suite_digest(folder) == before
    (folder / "corpus.jsonl").write_text(lines(CORPUS[:2]))
    assert suite_digest(folder) != before


def test_a_suite_is_laid_out_as_one_collection(folder, tmp_path):
    extra = tmp_path / "more.jsonl"
    extra.write_text(lines([{"_id": "d", "text": "one more", "meta": {"speaker": "Ben"}}]))
    (folder / "corpus.jsonl").write_text(lines(CORPUS).rstrip("\n"))
    suite = load_suite(folder, extra)
    corpus = write_collection(suite, tmp_path / "out")
    config = yaml.safe_load((corpus / collection_name(suite) / "collection.yaml").read_text())
    assert config["name"] == collection_name(suite) == "bees--small-"
    assert (config["unit"], config["user_id"]) == ("turn", "shared")
    rows = [json.loads(x) for x in (corpus / config["name"] / "corpus.jsonl").read_text().splitlines()]
    assert [r["_id"] for r in rows] == ["a#1", "b", "c", "d"]
    from palimpsest.store.collection_config import find_collections

    assert list(find_collections([corpus])) == ["bees--small-"]


def test_a_row_is_found_by_what_follows_the_first_hash_and_without_scope_as_the_shared_user(tmp_path):
    assert corpus_id("corpus.jsonl#/wiki/X#P1:0") == "/wiki/X#P1:0"
    assert corpus_id("notes.md") == ""
    (tmp_path / "corpus.jsonl").write_text(lines([{"_id": "a", "text": "x"}]))
    (tmp_path / "queries.jsonl").write_text(lines([{"_id": "q", "text": "y?"}]))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    reader = FakeReader({"y?": [found("a")]})
    run_suite(reader, load_suite(tmp_path))
    assert reader.queries[0][1][1] == "shared"


def test_a_run_is_scored_packed_and_timed_inside_each_querys_scope(folder, tmp_path):
    reader = FakeReader(
        {"honey?": [found("b", 0.9), found("a#1", 0.5)], "weather?": [found("c", 0.7)]}, {"honey?": ["m-b"]}
    )
    out = tmp_path / "per_query.jsonl"
    result = run_suite(reader, load_suite(folder), SearchSettings("hybrid", 300), clock=ticking(0.004))
    result.write_per_query(out)
    got = replace(result, build={"memories": 3}).to_json()
    assert got["queries"] == 2
    assert got["unjudged"] == 1
    assert got["metrics"]["R@5"] == 1.0
    assert got["metrics"]["P@5"] == pytest.approx((2 / 5 + 1 / 5) / 2)
    assert got["metrics"]["packed_recall"] == pytest.approx((0.5 + 1.0) / 2)
    gain, ideal = 1 + 2 / 1.584962500721156, 2 + 1 / 1.584962500721156
    assert got["metrics"]["nDCG@10"] == pytest.approx((gain / ideal + 1) / 2, abs=1e-6)
    assert got["latency_ms"] == {"p50": 4.0, "p95": 4.0, "p99": 4.0}
    assert got["by_type"]["time"]["queries"] == 1 and got["by_time"]["none"]["queries"] == 2
    assert got["build"] == {"memories": 3}
    assert {(text, user) for text, (_, user, _), _ in reader.queries} == {("honey?", "s1"), ("weather?", "s2")}
    assert all(
        f == {"k": 10, "all_results": True, "strategy": "hybrid", "budget_tokens": 300} for _, _, f in reader.queries
    )
    first = json.loads(out.read_text().splitlines()[0])
    assert (first["query_id"], first["ranked"], first["scores"]) == ("q1", ["b", "a#1"], [0.9, 0.5])
    assert first["metrics"]["packed_recall"] == 0.5
    assert first["ms"] == pytest.approx(4.0)
    json.dumps(got, allow_nan=False)


def test_a_row_that_is_quoted_in_part_counts_only_where_the_quote_has_its_evidence(tmp_path):
    text = "Bees fly.  The hive\nis blue. Honey keeps."
    (tmp_path / "corpus.jsonl").write_text(lines([{"_id": "a", "text": text}, {"_id": "b", "text": "is blue"}]))
    (tmp_path / "queries.jsonl").write_text(lines([{"_id": q, "text": q} for q in ("hive?", "honey?", "bees?")]))
    judged = "".join(f"{q}\ta\t1\n" for q in ("hive?", "honey?", "bees?"))
    (tmp_path / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    spans = "hive?\ta\t11\t28\nhoney?\ta\t30\t41\nhoney?\ta\t0\t8\n"
    (tmp_path / "evidence.tsv").write_text(f"query-id\tcorpus-id\tstart\tend\n{spans}")

    class Quoting(FakeReader):
        def search(self, text, scope, **filters):
            answer = super().search(text, scope, **filters)
            answer.quotes = (Quote("m-a", ((105, 128), (130, 142))),)
            return answer

    page = replace(found("a"), text=text, char_start=100)
    reader = Quoting({q: [page] for q in ("hive?", "honey?", "bees?")}, dict.fromkeys(("hive?", "honey?", "bees?"), ()))
    result = run_suite(reader, load_suite(tmp_path))
    assert {q.query_id: q.metrics["packed_recall"] for q in result.per_query} == {
        "hive?": 1.0,  # its words are in the first part, white space aside
        "honey?": 0.5,  # the other half is cut
        "bees?": 0.0,  # nobody judged which words answer, and the row is not whole
    }
    for line, problem in (
        ("hive?\tb\t0\t2", "row 'b' is not relevant"),
        ("hive?\ta\t40\t99", "no span of the text of row 'a'"),
        ("hive?\ta\t3", "line 2: need query-id"),
    ):
        (tmp_path / "evidence.tsv").write_text(f"query-id\tcorpus-id\tstart\tend\n{line}\n")
        with pytest.raises(PalimpsestError, match=problem):
            load_suite(tmp_path)


def test_a_row_whose_words_are_in_the_context_is_packed_though_it_was_folded_into_another(folder):
    class Folding(FakeReader):
        def search(self, text, scope, **filters):
            answer = super().search(text, scope, **filters)
            answer.context = "- the hive is blue [memory:m-b]"
            return answer

    rows = [found("b", text="the hive  is\nblue"), found("a#1", text="bees make honey")]
    reader = Folding({"honey?": rows, "weather?": [found("c")]}, {"honey?": [], "weather?": []})
    assert run_suite(reader, load_suite(folder)).metrics["packed_recall"] == pytest.approx(0.25)


def test_a_result_of_another_scope_or_a_suite_that_nothing_answers_or_nobody_judged_is_an_error(folder):
    reader = FakeReader({"honey?": [found("c")], "weather?": [found("c")]})
    with pytest.raises(MetricError, match="outside their query's scope"):
        run_suite(reader, load_suite(folder))
    with pytest.raises(MetricError, match="answered"):
        run_suite(FakeReader({}), load_suite(folder))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq3\tc\t0\n")
    with pytest.raises(MetricError, match="no judged query"):
        run_suite(FakeReader({}), load_suite(folder))


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who led the club from 2001 to 2004?", "range"), ("Who led it in the 1990s?", "range"),
        ("Who led it in May 2003?", "in"), ("Who has led it since 2001?", "since"), ("Who led it until 1999?", "until"),
        ("Who led it last year?", "relative"), ("As of 2004, who leads?", "as of"), ("Who led it?", "none"),
    ],
)  # fmt: skip
def test_questions_are_grouped_by_their_words_about_time(question, kind):
    assert time_kind(question) == kind
