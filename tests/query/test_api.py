"""A search: its arguments, its answer, and where results end."""

import datetime as dt
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import get_args

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.cli.shared import STRATEGY
from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.query import Scope, SearchRequest, SearchResult, open_home, open_index, search
from palimpsest.query.ranking.merge import features, least_relevance, relevance
from palimpsest.query.request.search_request import OPTIONS, SearchOptions, StrategyName, offer
from palimpsest.query.request.strategies import STRATEGIES
from palimpsest.query.request.types import Memory
from palimpsest.query.rerank import MAX_TOKENS, AnswerReader, is_prose, memory_lines, pair_tokens
from palimpsest.query.scope.scope_query import Candidate
from palimpsest.query.search import STEPS
from tests.query.made import at, home, home_fixture, memory, read_index, reader_fixture, tables, write

MADE = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01")),
    memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01"), speaker="Ana", tags=["plan"]),
    memory("m3", "I keep bees and sell honey."),
    memory("m4", "Honey is sold at the market on Sundays.", observed_at=at("2024-02-10")),
    memory("b1", "Ben's secret word is zyxquorvine.", user_id="ben"),
    memory("b2", "Ben's launch is on Tuesday.", user_id="ben"),
]
ANA = Scope("notes", "ana")


reader = home_fixture(lambda: tables(MADE, [("m2", "m1")], [("m4", "m3", "EXTEND")]))


def ids(results):
    return [m.memory_id for m in results.memories]


@pytest.mark.parametrize("strategy", ["flat", "hybrid", "auto"])
def test_the_current_answer_comes_first_cited(reader, strategy):
    results = reader.search("When is the launch?", ANA, strategy=strategy)
    assert ids(results)[0] == "m2" and "m1" not in ids(results)
    best = results.memories[0]
    assert (best.uri, best.speaker, best.span, best.is_latest) == ("m2.md", "Ana", (0, 27), True)
    assert "- (2024-02-01, Ana) The launch moved to Friday. [memory:m2]" in results.context_with("full")
    replaced = "replaced: (2024-01-01, until 2024-02-01) The launch is on Monday. [memory:m1]"
    assert replaced in results.context_with("full")
    assert results.packed_ids[0] == "m2" and results.context_tokens <= 1200
    assert results.timings["total_ms"] >= results.timings["embed_ms"] > 0
    assert set(results.timings) == {*STEPS, "total_ms"}
    assert sum(results.timings[s] for s in STEPS) == pytest.approx(results.timings["total_ms"])
    assert results.build_id == "000001" and results.strategy == ("hybrid" if strategy == "auto" else strategy)


def test_as_of_history_and_filters_choose_what_is_answered(reader):
    assert ids(reader.search("When is the launch?", ANA, as_of="2024-01-15"))[0] == "m1"
    assert ids(reader.search("When is the launch?", ANA, as_of=dt.date(2024, 2, 1)))[0] == "m2"
    assert ids(reader.search("When is the launch?", ANA, as_of="2023-12-31")) == ["m3"]
    results = reader.search("When is the launch?", ANA, history=True)
    assert set(ids(results)[:2]) == {"m1", "m2"}
    assert results.packed_ids.index("m2") < results.packed_ids.index("m1")
    assert ids(reader.search("launch", ANA, tags=["plan"])) == ["m2"]
    assert ids(reader.search("launch", ANA, since="2024-02-10")) == ["m4"]
    assert ids(reader.search("launch", ANA, until="2024-02-01")) == ["m2"]
    assert ids(reader.search("launch", ANA, types=["episodic"])) == []
    assert ids(reader.search("launch", ANA, session="none")) == []


def test_no_request_returns_a_memory_of_another_user_and_an_unknown_one_gets_an_empty_answer(reader):
    for options in ({}, {"history": True, "hops": 2, "k": 100}, {"strategy": "flat"}, {"as_of": "2030-01-01"}):
        results = reader.search("secret word zyxquorvine", ANA, explain=True, **options)
        assert not {"b1", "b2"} & set(ids(results))
        assert "zyxquorvine" not in results.context
    assert ids(reader.search("secret word", Scope("notes", "ben")))[0] == "b1"
    results = reader.search("launch", Scope("notes", "nobody"))
    assert (results.memories, results.context, results.packed_ids) == ([], "", ())


def test_several_scopes_are_merged_and_the_best_of_each_stays_its_best(reader):
    both = reader.search("When is the launch?", [ANA, Scope("notes", "ben")], k=10)
    assert {"m2", "b2"} <= set(ids(both)[:3])
    alone = ids(reader.search("When is the launch?", ANA, k=10))
    assert next(m.memory_id for m in both.memories if m.user_id == "ana") == alone[0]


def test_explain_says_why_and_which_links_in_text_and_json(reader):
    found = {m.memory_id: m for m in reader.search("bees", ANA, explain=True, k=10).memories}
    assert re.fullmatch(r"-?\d+\.\d\d by itself \(meaning -?\d\.\d\d, words \d+\.\d\d\)", found["m3"].why)
    (link,) = found["m4"].path
    assert (link.source, link.kind, link.weight, found["m4"].hops) == ("m3", "EXTEND", pytest.approx(0.9), 1)
    gained = f"{found['m4'].graph_score:+.2f} over links: one of it and result 1 adds to the other (weight 0.90)"
    assert f"; {gained}; {found['m4'].score:.2f} in all" in found["m4"].why
    assert all(m.why == "" and m.path == () for m in reader.search("bees", ANA).memories)
    memories = reader.search("bees", ANA, explain=True, k=10).to_json()["memories"]
    (link,) = next(m for m in memories if m["memory_id"] == "m4")["path"]
    ends = {"source": "m3", "target": "m4", "kind": "EXTEND", "weight": 0.9, "via": "", "text": MADE[2]["text"]}
    assert link | {"weight": 0.9} == ends
    assert "path" not in reader.search("bees", ANA).to_json()["memories"][0]


def test_explained_terms_add_up_to_the_score_of_every_result_with_and_without_links(tmp_path):
    texts = ("I live in Porto.", "Which street is that?", "Rua do Ouro.", "Noted.", "It rains.", "We live in Rome.")
    talk = [memory(f"m{i}", t, unit="turn", session_id="s", ordinal=i, document_id="d") for i, t in enumerate(texts)]
    made = tables(talk, links=[("m4", "m0", "EXTEND")])
    write(made, tmp_path / "i.duckdb")
    results = []
    with open_index(tmp_path / "i.duckdb") as r:
        for strategy in STRATEGIES:
            results += r.search("Where do I live?", ANA, strategy=strategy, explain=True, k=10).memories
    assert any(m.path for m in results) and any("over links;" in m.why for m in results)
    for m in results:
        alone, *rest = re.findall(r"(-?\d+\.\d\d) by itself|; ([+-]\d+\.\d\d)[ ,]|(-?\d+\.\d\d) in all", m.why)
        parts = [float("".join(found)) for found in (alone, *rest)]
        assert round(sum(parts[:2]) if rest else parts[0], 2) == round(m.score, 2) == parts[-1], m.why


def test_the_same_question_gets_the_same_answer_within_its_budget(reader):
    one, other = (reader.search("launch honey", ANA, k=10) for _ in range(2))
    assert (one.memories, one.context) == (other.memories, other.context)
    results = reader.search("launch", ANA, budget_tokens=40)
    assert 0 < results.context_tokens <= 40 and len(results.packed_ids) < 3
    assert reader.search("launch", ANA, budget_tokens=0).context == ""
    texts = ["When is the launch?", "bees", "honey market", "Friday"] * 8
    alone = [reader.search(t, ANA).context for t in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda t: reader.search(t, ANA).context, texts)) == alone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k=0: must be 1 to 1000"),
        ({"hops": 3}, "hops=3"),
        ({"budget_tokens": -1}, "budget_tokens=-1"),
        ({"strategy": "magic"}, "strategy='magic': not one of auto, flat, hybrid"),
        ({"as_of": "yesterday"}, "as_of='yesterday': not a date"),
        ({"since": "2024-13-01"}, "since="),
        ({"since": "2024-03-01", "until": "2024-02-01"}, "must not be later than until"),
    ],
)
def test_a_wrong_argument_is_named_as_python_calls_it_with_its_fix(reader, options, message):
    with pytest.raises(PalimpsestError, match=re.escape(message)):
        reader.search("launch", ANA, **options)


def test_a_query_without_a_word_is_refused_and_hostile_ones_are_answered(reader):
    for text in ("", "   ", "\0", "\n\t", "%_\\", "🚀", "((((", "?"):
        with pytest.raises(PalimpsestError, match=r"is empty|has no words"):
            reader.search(text, ANA)
    odd = ("launch\0now", "\ud800 launch", "'; DROP TABLE memories; --", "%_\\ x", "🚀 launch", "((((a")
    for text in (*odd, "launch " * 50_000):
        assert len(reader.search(text, ANA).memories) == 3


@settings(max_examples=15, deadline=None)
@given(st.text(min_size=1, max_size=80))
def test_any_text_is_answered_from_the_scope_or_refused_as_without_words(reader, text):
    try:
        results = reader.search(text, ANA, hops=2)
    except PalimpsestError as e:
        assert str(e).startswith("text: ")
    else:
        assert {m.user_id for m in results.memories} <= {"ana"}


def test_a_home_names_what_to_run_and_a_reader_holds_its_build_until_it_is_refreshed(tmp_path):
    with pytest.raises(PalimpsestError, match=r"it has no published build; run palimpsest build --home"):
        open_home(tmp_path / "nowhere")
    (tmp_path / "published.json").write_text("{")
    with pytest.raises(PalimpsestError, match="damaged"):
        open_home(tmp_path)
    (tmp_path / "published.json").write_text('{"build": "000007"}')
    with pytest.raises(PalimpsestError, match="000007"):
        open_home(tmp_path)
    with pytest.raises(PalimpsestError, match="backend='redis'"):
        open_home(tmp_path, backend="redis")
    made = tables([memory("m1", "The launch is on Monday.")])
    with open_home(home(tmp_path, made)) as reader:
        home(tmp_path, tables([memory("m9", "The launch is on Sunday.")]), "000002")
        assert (ids(reader.search("launch", ANA)), reader.build_id) == (["m1"], "000001")
        assert reader.refresh() == "000002"
        assert (ids(reader.search("launch", ANA)), reader.build_id) == (["m9"], "000002")
    home(tmp_path, tables([memory("m1", "bees")]), strategies={"notes": "flat"})
    with open_home(tmp_path) as reader:
        assert reader.search("bees", ANA).strategy == "flat"
    (tmp_path / "published.json").unlink()
    with open_index(tmp_path / "builds" / "000001" / "index.duckdb") as reader:
        assert ids(reader.search("bees", ANA)) == ["m1"] and reader.refresh() == "000001"


def resolve(folder, made, collection=None, user=None, **collections):
    with open_home(home(folder, tables(made), collections=collections)) as reader:
        return reader.resolve_scope(collection, user)


def test_scopes_are_resolved_by_defaults_else_the_error_names_those_known(tmp_path):
    bees, rain = memory("m1", "bees"), memory("w1", "rain", collection="wiki", user_id="all")
    wiki = {"wiki": {"default": True, "user_id": "all"}}
    shared = {"notes": {"user_id": "shared"}}
    assert resolve(tmp_path / "a", [bees]) == Scope("notes", "ana")
    assert resolve(tmp_path / "b", [bees], **shared) == Scope("notes", "shared")
    assert resolve(tmp_path / "c", [bees, rain], **wiki) == Scope("wiki", "all")
    assert resolve(tmp_path / "d", [bees, rain], collection="notes", **wiki) == Scope("notes", "ana")
    for n, (made, named, message) in enumerate(
        (
            ([bees], {"user": "zoe"}, "user='zoe': not in collection notes; it has: ana"),
            ([bees, rain], {}, "collection: name one of: notes, wiki"),
            ([bees, rain], {"collection": "nots"}, "collection='nots': not in this build; it has: notes, wiki"),
            ([bees, memory("b1", "rain", "ben")], {}, "user: collection notes has no default user; it has: ana, ben"),
        )
    ):
        with pytest.raises(PalimpsestError, match=message):
            resolve(tmp_path / str(n), made, **named)


def test_a_long_memory_is_quoted_where_it_does_not_fit_and_the_answer_names_the_spans(tmp_path):
    filler = [f"Paragraph {i} is about the weather over the bay and the boats in it." for i in range(60)]
    page = " ".join([*filler[:30], "The lighthouse has not been staffed since 4 May 1987.", *filler[30:]])
    path = tmp_path / "i.duckdb"
    write(tables([memory("m1", page, char_start=10, char_end=10 + len(page))]), path)
    with open_index(path) as reader:
        found = reader.search("Since when is the lighthouse not staffed?", ANA, budget_tokens=120)
        whole = reader.search("Since when is the lighthouse not staffed?", ANA, budget_tokens=3000)
    assert whole.packed_ids == ("m1",) and whole.quotes == ()
    ((start, end),) = [s for q in found.quotes for s in q.spans if "1987" in page[s[0] - 10 : s[1] - 10]]
    assert "[…] " + page[start - 10 : end - 10] in found.context and found.packed_ids == ()
    assert found.to_json()["quotes"] == [{"memory_id": "m1", "spans": [list(s) for s in found.quotes[0].spans]}]
    with duckdb.connect(str(path)) as db:  # as an earlier version wrote it
        db.execute("DELETE FROM sentences").fetchall()
    with open_index(path) as reader:
        again = reader.search("Since when is the lighthouse not staffed?", ANA, budget_tokens=120)
        assert again.context == found.context


FACTS = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01")),
    memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01")),
    memory("m3", "The van is red.", observed_at=at("2024-02-02")),
]
reader_search_request = reader_fixture(lambda: tables(FACTS, [("m2", "m1")], [("m3", "m2", "EXTEND")]))


def test_a_request_in_json_is_the_request_that_a_search_makes():
    import jsonschema

    data = {"text": " When?\0", "k": 3, "as_of": "2024-01-15", "since": "2023-12-01", "history": True}
    data["strategy"] = "flat"
    jsonschema.validate(data, SearchRequest.json_schema())
    request = SearchRequest.from_json(json.loads(json.dumps(data)), ANA)
    assert request == SearchRequest.create(
        "When?", ANA, k=3, as_of=dt.date(2024, 1, 15), since=dt.date(2023, 12, 1), history=True, strategy="flat"
    )
    assert request.scopes == (ANA,) and request.as_of == dt.datetime.combine(request.as_of, dt.time.max, dt.UTC)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"text": "x", "limit": 3}, "limit: not a field of a search; the fields are text, project, session, k"),
        ({"k": 3}, "text: is missing"),
        ({"text": "x", "k": "3"}, "k='3': must be a valid integer"),
        ({"text": "x", "k": True}, "k=True: must be a valid integer"),
        ({"text": "x", "history": 1}, "history=1: must be a valid boolean"),
        ({"text": "x", "session": 5}, "session=5: must be a text"),
        ({"text": "x", "session": " "}, "session: is empty; give one, or leave it out"),
        ({"text": "x", "project": ""}, "project: is empty; give one, or leave it out"),
        (
            {"text": "x", "depth": 2},
            "strategy='auto': must be hierarchical with narrow, node_types, node_where or depth",
        ),
        ({"text": "x", "k": 0}, "k=0: must be 1 to 1000"),
        ({"text": "x", "until": "soon"}, "until='soon': not a date"),
        ({"text": "x", "scope": ["notes", "ben"]}, "scope: not a field of a search"),
    ],
)
def test_a_wrong_field_is_named_and_never_as_an_option_of_the_command_line(data, message):
    with pytest.raises(ArgumentError) as error:
        SearchRequest.from_json(data, ANA)
    assert str(error.value).startswith(message) and "--" not in str(error.value)


def test_the_schema_the_arguments_and_the_strategies_agree_and_the_service_asks_for_nothing_hidden():
    properties = SearchRequest.json_schema()["properties"]
    assert [*properties] == ["text", *OPTIONS]
    assert SearchRequest.create("x", ANA) == SearchRequest.from_json(
        {"text": "x"} | {n: p["default"] for n, p in properties.items() if n != "text"}, ANA
    )
    assert [*SearchOptions.__annotations__] == [*OPTIONS]
    served = {name for name, field in OPTIONS.items() if offer(field).served}
    assert served and served.isdisjoint({"include_hidden", "include_pii", "compress"})
    assert [*STRATEGY.choices] == [*get_args(StrategyName)]
    assert {*STRATEGY.choices} - {"auto"} <= {*STRATEGIES}


@pytest.mark.parametrize(
    "options", [{}, {"explain": True, "hops": 2}, {"history": True}, {"as_of": "2024-01-15"}, {"tags": ["none"]}]
)
def test_an_answer_in_json_follows_its_schema(reader_search_request, options):
    import jsonschema

    found = reader_search_request.run(SearchRequest.create("When is the launch?", ANA, **options))
    schema = SearchResult.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(json.dumps(found.to_json())), schema)
    again = reader_search_request.search("When is the launch?", ANA, **options)
    assert [m.memory_id for m in found.memories] == [m.memory_id for m in again.memories]


UNREAD = np.empty(0)


def candidates(*scores, vector=0.3):
    return [Candidate(f"m{i}", s, vector, 1.0, s) for i, s in enumerate(scores)]


def test_a_result_far_above_the_rest_or_that_answers_is_likelier_evidence():
    usual = [0.2 - 0.01 * i for i in range(20)]
    apart = relevance(candidates(6.0, *usual), UNREAD)
    assert apart[0] > 3 * apart[1] and np.all((apart > 0) & (apart < 1))
    assert relevance(candidates(0.3, *usual), UNREAD)[0] < apart[0]
    assert relevance([], UNREAD).shape == (0,)
    usual = candidates(*[2.0 - 0.01 * i for i in range(20)])
    read = relevance(usual, np.array([-4.0, 4.0, -4.0]))
    assert read[1] > 3 * read[0] and np.array_equal(read[3:], relevance(usual, UNREAD)[3:])
    assert np.allclose(relevance(usual[::-1], UNREAD)[::-1], relevance(usual, UNREAD))
    for count in (1, 2, 5, 40):
        read = features(candidates(*np.linspace(3, 0, count)))
        assert read.shape == (count, 11) and np.isfinite(read).all()
        assert read[0, 2] == read[0, 4] == read[0, 7] == read[0, 9] == 0


def test_the_reader_knows_an_answer_from_words_in_common_and_reads_no_code():
    def said(text, speaker="Ana"):
        return Memory("m", "notes", "ana", text, speaker=speaker, observed_at=at("2026-01-02"))

    notes = [said("Where do I live, you ask?"), said("I moved to Ghent in May."), said("The cat is asleep.")]
    assert AnswerReader().read("Where does Ana live?", notes).argmax() == 1
    assert AnswerReader().read("Where?", []).shape == (0,)
    alone = [AnswerReader().read("Where does Ana live?", [n])[0] for n in notes]
    assert alone == AnswerReader().read("Where does Ana live?", notes).tolist()
    long = AnswerReader().read("word " * 9_000, [said("word " * 9_000)])
    assert np.isfinite(long).all() and len(pair_tokens("word " * 9_000, "word " * 9_000)[0]) == MAX_TOKENS
    filler = "The bees hum at noon. The kettle is on the stove. " * 20
    hidden = said(f"{filler} I moved to Ghent in May. {filler}")
    assert AnswerReader().read("Where did Ana move?", [said(filler), hidden, said("The cat.")]).argmax() == 1
    assert max(len(pair_tokens("Where?", line)[0]) for line in memory_lines("Where?", hidden)) <= MAX_TOKENS
    assert memory_lines("How often?", said("Twice a year.")) == ["2026-01-02, Ana: Twice a year."]
    listed = replace(hidden, title="Meeting", heading="Meeting > Agenda > Elections")
    assert {line[:37] for line in memory_lines("How often?", listed)} == {"2026-01-02, Ana: Meeting > Elections:"}
    stored = lambda text: Memory("m", "notes", "ana", text)  # noqa: E731
    code, prose = stored("fn main() { let x = a[0]; }"), stored("The port of the server is 8090.")
    assert is_prose([prose, prose, code]) and is_prose([]) and not is_prose([code, code, prose])


def test_results_come_in_order_of_relevance_where_answers_are_read(tmp_path, monkeypatch):
    texts = ["Where do the owls nest, I wonder?", "The owls have their young in the barn.", "Bees hum at noon."]
    with read_index(tmp_path, tables([memory(f"m{i}", t) for i, t in enumerate(texts)])) as reader:
        assert reader.search("Where do the owls nest?", ANA).memories[0].memory_id == "m0"
    monkeypatch.setenv("PALIMPSEST_RERANKER", "answers")
    with open_index(tmp_path / "i.duckdb") as reader:
        found = reader.search("Where do the owls nest?", ANA).memories
    assert [m.relevance for m in found] == sorted((m.relevance for m in found), reverse=True)


def test_a_search_that_may_abstain_returns_nothing_where_nothing_is_likely(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "LIKELY", 0.9)
    texts = [f"Bees number {i} hum at noon." for i in range(12)]
    with read_index(tmp_path, tables([memory(f"m{i}", t) for i, t in enumerate(texts)])) as reader:
        found = reader.search("Who painted the portrait?", ANA, abstain=True)
        assert found.abstained and found.memories == [] and found.to_json()["abstained"] is True
        assert found.to_json()["answerable"] is False
        assert not reader.search("Who painted the portrait?", ANA).abstained


def test_results_end_below_the_least_relevance_but_the_best_is_returned(tmp_path, monkeypatch):
    texts = ["The owls nest in the barn.", *(f"Bees number {i} hum at noon." for i in range(12))]
    with read_index(tmp_path, tables([memory(f"m{i}", t) for i, t in enumerate(texts)])) as reader:
        assert len(reader.search("Where do the owls nest?", ANA).memories) == 10
        monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "100")
        found = reader.search("Where do the owls nest?", ANA)
        assert [m.memory_id for m in found.memories] == ["m0"] and found.packed_ids == ("m0",)
        every = reader.search("Where do the owls nest?", ANA, all_results=True)
        assert len(every.memories) == 10 and every.context == found.context
        assert every.to_json()["memories"][0]["relevance"] == round(every.memories[0].relevance, 6)
    monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "half")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_MIN_RELEVANCE: 'half' must be a whole number, 0 to 100"):
        least_relevance(0.5)


def test_what_says_the_same_is_one_result_with_its_days_and_how_often(tmp_path):
    said = [memory(f"m{i}", "The port is 8090.", observed_at=at(f"2026-01-0{i + 1}"), speaker="Dup") for i in range(3)]
    with read_index(tmp_path, tables([*said, memory("x", "Bees hum at noon.")])) as reader:
        found = reader.search("Which port is it?", ANA)
    assert len(found.memories[0].repeats) == 2 and len(found.memories) == 2
    assert "(2026-01-01 to 2026-01-03, Dup, 3 times) The port is 8090. [1]" in found.context
    best, other = (m.memory_id for m in found.memories)
    assert found.with_ids("It is 8090 [1], not [2, 9].") == f"It is 8090 [memory:{best}], not [2, 9]."
    assert found.with_ids("[1,2]") == f"[memory:{best}] [memory:{other}]"
