"""Scopes, filters, tiers and what is withheld hold for every text of an answer."""

import datetime as dt
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from palimpsest.cli.query import query, scopes
from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import SCOPE as SCOPE_scopes
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import Scope, SearchRequest, open_home, open_index
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.graph.graph_answer import answer_text
from palimpsest.query.ranking.merge import pool_stats
from palimpsest.query.ranking.scoring import score_stats
from palimpsest.query.reader import Reader
from palimpsest.query.request.search_request import narrow_to_tiers, parse_datetime
from palimpsest.query.request.types import CollectionInfo, Filters
from palimpsest.query.request.where import parse_where
from palimpsest.query.result import results_text
from palimpsest.query.scope.resolve_scopes import check_names
from palimpsest.query.scope.view import Withheld
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from palimpsest.store.usage_log import UsageLog
from palimpsest_eval.golden.answers import check_citations
from tests.query.filtered import ANA, BEN, HEADER, PASSING, made_tables, write_filtered
from tests.query.graphed import graph_tables
from tests.query.made import at, index_fixture, memory, reader_fixture, tables, write
from tests.query.made import home as home_scopes

EVERY = "m1 m2 m3 m4 m5"


reader = reader_fixture(made_tables, **HEADER)


def found(reader, scope=ANA, text="When is the exam?", **options):
    return " ".join(sorted(m.memory_id for m in reader.search(text, scope, k=10, hops=0, **options).memories))


@pytest.mark.parametrize(("where", "passing"), PASSING)
def test_where_filters_by_fields_of_memories_and_of_their_documents(reader, where, passing):
    assert found(reader, where=where) == passing


def test_filters_hold_for_every_text_and_combine(reader):
    result = reader.search("When is the exam?", ANA, k=1, where='category = "academic"', history=True, explain=True)
    assert "office" not in result.context and "red" not in result.context and "euros" not in result.context
    assert found(reader, types=["task", "letter"]) == "m2"
    assert found(reader, types=["task", "document"]) == EVERY
    assert found(reader, tags=["urgent", "old"]) == "m2 m3"
    assert found(reader, types=["task"], tags=["plan"]) == "m2"
    assert found(reader, types=["document"], tags=["plan"], where="year > 2000", until="2024-12-31") == "m1"
    assert found(reader, where='category = "academic"', since="2024-01-15", until="2024-12-31") == "m2"
    assert found(reader, where='category = "academic"', as_of="2024-01-15") == "m1"
    filters = reader.search("exam", ANA, where=" year > 2000 ", tags=["plan"]).to_json()["filters"]
    assert filters["where"] == "year > 2000" and filters["tags"] == ["plan"] and filters["below_min_score"] == 0
    backend = reader.backend
    texts = ("category = 7", "category = true", "category = 7.0")
    masks = [backend.view(ANA).allowed(Filters(where=parse_where(text))) for text in texts]
    assert masks[0].tolist() == masks[2].tolist() and masks[0].any() and not masks[1].any()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("categry = 1", "no memory here has a field 'categry'; did you mean category"),
        ("zyqsecret = 'academic'", "no memory here has a field 'zyqsecret'"),
        ("qqqq = 1", "fields are author.name, category, due, grade"),
        ('year = "2024"', 'year is a number, and "2024" is a text; compare it with a value such as 3'),
        ("stressor = 1", "stressor is true or false, and 1 is a number"),
        ("observed_at > 5", "observed_at is a date, and 5 is a number"),
        ('speaker = "Mia" and page = true', "page is a number, and true is true or false"),
        ("category = ", "it ends at character 12, where a value"),
        ("category == 1", "'=' is at character 11, where a value"),
        ("category ~ 1", "'~ 1' at character 10 is not understood"),
        ("stressor > true", "true and false are compared by = or !="),
        ("year = 2024 year = 2", "'year' is at character 13, where and, or, or the end is expected"),
        ("(year = 2024", "where and, or, or ) is expected"),
        ("year = 2024-13-01", "2024-13-01 is not a date"),
        ("", "where a condition such as"),
        ("not " * 30 + "year = 1", "has more than 20 levels"),
        ("(" * 30 + "year = 1" + ")" * 30, "has more than 20 levels"),
        (" and ".join(["year = 1"] * 51), "has more than 50 conditions"),
        ("year = 1 " + " " * 2000, "has 2,009 characters; write at most 2,000"),
        ("year = 1; DROP TABLE memories", "is not understood"),
    ],
)
def test_a_wrong_where_is_one_line_that_names_the_place_and_the_fix(reader, where, message):
    with pytest.raises(ArgumentError) as error:
        reader.search("exam", ANA, where=where)
    assert message in str(error.value) and "\n" not in str(error.value) and error.value.argument == "where"


def test_fields_that_only_withheld_or_foreign_memories_have_are_unknown(reader):
    assert found(reader, BEN, where='zyqsecret = "academic"') == "b1"
    with pytest.raises(ArgumentError) as error:
        reader.search("exam", BEN, where="category = 1 and stressor = true and zzz = 1")
    assert "zyqsecret" not in str(error.value).split("did you mean")[0]
    with pytest.raises(ArgumentError, match="did you mean"):
        reader.search("exam", ANA, where="zyqsecre = 1 or categorie = 2", since="2024-02-01")


def test_min_score_is_the_cosine_of_the_best_window(reader):
    everything = reader.search("When is the exam?", ANA, k=10, hops=0)
    scores = sorted(m.vector_score for m in everything.memories)
    result = reader.search("When is the exam?", ANA, k=10, hops=0, min_score=scores[2])
    assert sorted(m.vector_score for m in result.memories) == scores[2:]
    assert result.filters["below_min_score"] == 2 and result.filters["min_score"] == scores[2]
    nothing = reader.search("When is the exam?", ANA, min_score=1.0)
    assert nothing.memories == [] and nothing.context == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_score": 2}, "min_score=2: must be -1 to 1"),
        ({"min_score": float("nan")}, "min_score=nan: must be -1 to 1"),
        ({"min_score": True}, "min_score=True: must be a valid number"),
        ({"types": "task"}, "types='task': must be a list of texts"),
        ({"tags": [""]}, "tags: has an empty name"),
    ],
)
def test_a_wrong_filter_is_named(options, message):
    with pytest.raises(ArgumentError, match=message):
        SearchRequest.create("exam", ANA, **options)


def test_a_request_in_json_has_the_filters_of_a_search():
    data = {"text": "exam", "types": ["task", "chunk"], "tags": ["a", "b"], "where": "year > 1", "min_score": 0.2}
    request = SearchRequest.from_json(data, ANA)
    assert request.types == ("chunk", "task") and request.tags == ("a", "b") and request.min_score == 0.2
    again = {"types": ["chunk", "task"], "tags": ("b", "a"), "where": "year > 1", "min_score": 0.2}
    assert request == SearchRequest.create("exam", ANA, **again)
    with pytest.raises(ArgumentError, match="types='task': must be a list of texts"):
        SearchRequest.from_json(data | {"types": "task"}, ANA)


TURN = {"unit": "turn", "document_id": "d", "tags": ["old"], "type": "episodic"}
FACTS = [
    memory("m1", "The launch is on Monday zqone.", observed_at=at("2024-01-01"), session_id="s1", **TURN),
    memory("m2", "The launch moved to Friday zqtwo.", observed_at=at("2024-03-01"), session_id="s2"),
    memory("m3", "The launch needs a van zqthree.", observed_at=at("2024-01-02"), session_id="s1", ordinal=1, **TURN)
    | {"ordinal": 1},
    memory("m4", "The van of the launch is red zqfour.", observed_at=at("2024-04-01"), session_id="s2"),
]
EVIDENCE = {"rule": "slot:day", "from": "Monday zqone", "to": "Friday zqtwo", "newer": [11, 32], "older": [11, 29]}


def served():
    mentions = [("m3", "Zqthree Van"), ("m4", "Zqthree Van"), ("m2", "Other")]
    made = tables(FACTS, [("m2", "m1")], [("m4", "m3", "EXTEND")], mentions)
    relations = made["relations"].with_columns(evidence=pl.lit(json.dumps(EVIDENCE)), labeler=pl.lit("offline"))
    return made | {"relations": relations}


reader_served = reader_fixture(served)


def all_texts(reader_served, **filters):
    found = reader_served.search("When is the launch, and which van?", ANA, k=10, explain=True, **filters)
    return results_text(found, True) + json.dumps(found.to_json())


@pytest.mark.parametrize("more", [{}, {"history": True}, {"strategy": "graph"}, {"strategy": "flat"}])
@pytest.mark.parametrize(
    ("filters", "shown", "hidden"),
    [
        ({}, ["zqtwo", "zqthree", "zqfour"], []),
        ({"session": "s2"}, ["zqtwo", "zqfour"], ["zqone", "zqthree"]),
        ({"since": "2024-02-01"}, ["zqtwo", "zqfour"], ["zqone", "zqthree"]),
        ({"until": "2024-03-15"}, ["zqtwo", "zqthree"], ["zqfour"]),
        ({"types": ["document"]}, ["zqtwo", "zqfour"], ["zqone", "zqthree"]),
        ({"tags": ["old"]}, ["zqthree"], ["zqtwo", "zqfour"]),
        ({"as_of": "2024-02-01"}, ["zqone", "zqthree"], ["zqtwo", "zqfour"]),
    ],
)
def test_a_filter_holds_for_every_text_of_an_answer(reader_served, filters, shown, hidden, more):
    text = all_texts(reader_served, **filters, **more).casefold()
    assert all(word in text for word in shown)
    assert not [word for word in hidden if word in text]


def test_without_a_filter_replaced_memories_are_in_the_answer(reader_served):
    assert "replaced: (2024-01-01, until 2024-03-01) The launch is on Monday zqone." in all_texts(reader_served)


TODAY = datetime(2026, 5, 1, tzinfo=UTC)
SCOPE = Scope("notes", "ana")
OPTIONS = [
    {},
    {"strategy": "flat"},
    {"strategy": "graph"},
    {"history": True},
    {"explain": True, "hops": 2},
    {"as_of": "2026-02-15"},
    {"now": "2030-01-01"},
    {"now": "2020-01-01"},
    {"since": "2026-01-01"},
]


def withheld():
    """Each of three facts has an open version that replaced, or was replaced by, one that is withheld."""
    january, february = {"observed_at": at("2026-01-01")}, {"observed_at": at("2026-02-01")}
    made = [
        memory("old", "The door code is 1111 zqexpired.", retention_until=at("2026-04-01"), **january),
        memory("new", "The door code is zqrecent.", retention_until=at("2026-06-01"), **february),
        memory("shown", "Mia lives in Leiden.", **january),
        memory("hidden", "Mia lives in Utrecht zqhidden.", user_visible=False, **february),
        memory("person", "Mia's passport is NX 12 zqpii.", pii=True, **january),
        memory("passport", "The passport of Mia is at home.", **february),
    ]
    mentions = [(m, "mia") for m in ("person", "passport", "shown", "hidden")]
    return tables(made, updates=[("new", "old"), ("hidden", "shown"), ("passport", "person")], mentions=mentions)


index = index_fixture(withheld)


def everything(reader: Reader, **options: object) -> str:
    """All that an answer holds, as text."""
    out = ""
    for question in ("What is the door code?", "Where does Mia live?", "Where is Mia's passport?"):
        results = reader.search(question, SCOPE, k=10, **options)
        out += repr(results)
    return out + repr([reader.history_of(SCOPE, i) for i in ("old", "new", "shown", "hidden", "person", "passport")])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_withheld_memories_are_in_no_part_of_an_answer(index, options):
    reader = Reader(DuckDBBackend(index), clock=lambda: TODAY)
    text = everything(reader, **options)
    assert not [word for word in ("zqexpired", "zqhidden", "zqpii") if word in text]
    assert "zqrecent" in text


def test_hidden_and_personal_memories_are_returned_on_request_and_expired_ones_by_the_clock_alone(index):
    reader = Reader(DuckDBBackend(index), clock=lambda: TODAY)
    text = everything(reader, history=True, include_hidden=True, include_pii=True)
    assert "zqhidden" in text and "zqpii" in text and "zqexpired" not in text
    assert "zqhidden" not in repr(reader.search("Where does Mia live?", SCOPE, k=10, history=True, include_pii=True))
    backend = DuckDBBackend(index)
    before = Reader(backend, clock=lambda: at("2026-03-31"))
    assert "zqexpired" in everything(before, history=True)
    after = Reader(backend, clock=lambda: at("2026-06-01"))
    assert "zqrecent" not in everything(after, now="2026-02-15", as_of="2026-02-15", history=True)


def test_who_passes_is_kept_from_query_to_query_as_long_as_no_retention_ends():
    ends = (TODAY, TODAY + timedelta(days=2))
    withheld = Withheld(ends)
    hours = [Filters(clock=TODAY + timedelta(hours=h)) for h in (1, 47, 48, 99)]
    assert [withheld.narrowed(f).clock for f in hours] == [ends[0], ends[0], ends[1], ends[1]]
    nothing = Withheld()
    assert nothing.narrowed(replaced := Filters(clock=TODAY, include_pii=True)) == Filters() != replaced
    assert nothing.conditions(Filters()) == ()


TEXTS = {
    "personal": ("The harbor list is in the drawer.", {}),
    "project": ("The harbor list is in the annex.", {"project": "alpha"}),
    "task": ("Check the harbor list of the annex.", {"project": "alpha", "type": "task"}),
    "own task": ("Print the harbor list at home.", {"type": "task"}),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory, shared_vectors):
    home = Home(tmp_path_factory.mktemp("tiers") / "home", shared_vectors)
    for text, options in TEXTS.values():
        ingest_text(home, text, user="ann", **options)
    run_without_dagster(home, make_plan(home, None))
    ingest_text(home, "The harbor list of the attic waits.", user="ann", project="alpha", type="task")
    return home


@pytest.mark.parametrize(
    ("tiers", "names"),
    [
        ((), {"personal", "project", "task", "own task"}),
        (("personal",), {"personal"}),
        (("PROJECT",), {"project"}),
        (("task",), {"task", "own task"}),
        (("personal", "task"), {"personal", "task", "own task"}),
    ],
)
def test_a_tier_narrows_every_text_of_an_answer(home, tiers, names):
    with open_home(home.path) as reader:
        scopes = reader.resolve_scopes("inbox", "ann", "alpha")
        answer = reader.search("Where is the harbor list?", scopes, tiers=tiers, k=10, include_pending=True)
    built = {m.text for m in answer.memories if not m.is_pending}
    assert built == {TEXTS[name][0] for name in names}
    assert all(
        text in answer.context if name in names else text not in answer.context for name, (text, _) in TEXTS.items()
    )
    assert len(answer.pending) == (not tiers or "task" in tiers)


def test_a_tier_and_types_both_apply():
    scope = Scope("c", "u")
    assert narrow_to_tiers(Filters(types=("task",)), scope, ("personal",)).accessed == frozenset()
    assert narrow_to_tiers(Filters(types=("task", "summary")), scope, ("personal",)).types == ("summary",)
    assert narrow_to_tiers(Filters(), scope, ("personal", "task")) == Filters()
    with pytest.raises(ArgumentError, match="tiers='team'"):
        SearchRequest.create("harbor", scope, tiers=["team"])


@pytest.fixture
def home_read(tmp_path, monkeypatch):
    monkeypatch.delenv("PALIMPSEST_USAGE_DAYS", raising=False)
    write_filtered(tmp_path / "builds" / "000001" / "index.duckdb")
    (tmp_path / "published.json").write_text(json.dumps({"build": "000001"}))
    return tmp_path


def found_read(reader, scope=ANA, **options):
    return sorted(m.memory_id for m in reader.search("When is the exam?", scope, k=10, hops=0, **options).memories)


def test_what_was_read_lately_is_found_and_reads_get_too_old(home_read):
    with open_home(home_read) as reader:
        assert found_read(reader, accessed_within="30d") == []
        assert found_read(reader, where='category = "academic"') == ["m1", "m2"]
        assert found_read(reader, accessed_within="30d") == ["m1", "m2"]
        assert found_read(reader, accessed_within=dt.timedelta(hours=1), where="stressor = true") == ["m1"]
        assert found_read(reader, BEN, accessed_within="30d") == [], "another scope's reads are not this one's"
    with open_home(home_read) as later:
        assert found_read(later, accessed_within="12h") == ["m1", "m2"]
        answer = later.search("exam", ANA, accessed_within="30d", history=True)
        assert answer.to_json()["filters"]["accessed_within_s"] == 30 * 86_400
        assert "office" not in answer.context
    with open_home(home_read) as reader:
        found_read(reader)
    late = lambda: dt.datetime.now(dt.UTC) + dt.timedelta(days=40)  # noqa: E731
    with open_home(home_read) as opened:
        reader = Reader(opened.backend, home_read, clock=late, usage=UsageLog(home_read, 90, late))
        assert found_read(reader, accessed_within="30d") == [] and found_read(reader, accessed_within="45d") != []


def test_the_log_has_no_word_of_a_question_and_a_wrong_time_span_is_named(home_read):
    with open_home(home_read) as reader:
        reader.search("exam zyqquestion", ANA)
    written = b"".join(p.read_bytes() for p in (home_read / "usage").iterdir())
    assert b"m1" in written and b"zyqquestion" not in written and b"exam" not in written
    with open_home(home_read) as reader:
        for value, message in SPANS:
            with pytest.raises(ArgumentError, match=message):
                found_read(reader, accessed_within=value)


def test_reads_are_not_counted_where_they_are_off(home_read, monkeypatch):
    with open_home(home_read, count_reads=False) as reader:
        found_read(reader)
    monkeypatch.setenv("PALIMPSEST_USAGE_DAYS", "0")
    with open_home(home_read) as reader:
        found_read(reader)
        with pytest.raises(ArgumentError, match="no reads are counted here: PALIMPSEST_USAGE_DAYS is 0"):
            found_read(reader, accessed_within="30d")
    with open_index(home_read / "builds" / "000001" / "index.duckdb") as reader, pytest.raises(ArgumentError):
        found_read(reader, accessed_within="30d")
    assert not (home_read / "usage").exists()


SPANS = [
    ("30", "not a time span; write 12h, 30d or 4w"),
    ("30 days", "not a time span"),
    ("0d", "must be above 0"),
    (dt.timedelta(days=-1), "must be above 0"),
    ("999999w", "must be above 0 and at most 36,500 days"),
    ("91d", "reads are kept for 90 days"),
]


def test_a_node_has_the_reads_of_its_memories_that_are_visible(tmp_path):
    write(graph_tables(), tmp_path / "builds" / "000001" / "index.duckdb")
    (tmp_path / "published.json").write_text(json.dumps({"build": "000001"}))
    with open_home(tmp_path) as reader:
        reader.search("Where does Ida live?", ANA, k=10, hops=0, include_hidden=True, history=True)
        of_ida = {hidden: reader.graph(ANA, include_hidden=hidden).node("Ida").nodes[0] for hidden in (False, True)}
        assert (of_ida[False].access_count, of_ida[True].access_count) == (3, 4)
        answer = reader.graph(ANA).node("Ghent")
        assert ", read 1 time" in answer_text(answer) and answer.to_json()["nodes"][0]["access_count"] == 1
    with open_home(tmp_path, count_reads=False) as reader:
        assert reader.graph(ANA).node("Ghent").nodes[0].access_count is None


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_cannot_have_is_an_error_of_its_argument(text):
    with pytest.raises(ArgumentError, match="outside the years 1 to 9999 in UTC; write a date within them"):
        parse_datetime("as_of", text, end_of_day=True)


def test_names_that_select_scopes_must_be_known():
    collections = {name: CollectionInfo(name, user_id="ana") for name in ("a", "b")}
    scopes = [Scope("a", "ben"), Scope("b", "eva", "p")]
    for collection, user in ((None, None), ("a", None), (None, "eva"), ("a", "ben"), ("b", "ana")):
        check_names(collections, scopes, collection, user)
    with pytest.raises(ArgumentError, match="collection='c': not in this build; it has: a, b"):
        check_names(collections, scopes, "c", None)
    with pytest.raises(ArgumentError, match="user='eva': not in collection a; it has: ana, ben"):
        check_names(collections, scopes, "a", "eva")
    with pytest.raises(ArgumentError, match="user='zoe': not in this build; it has: ana, ben, eva"):
        check_names(collections, scopes, None, "zoe")


MADE = [
    memory("a1", "The database of the project is Postgres.", project_id="alpha"),
    memory("b1", "The database of the project is SQLite.", project_id="beta"),
    memory("g1", "The office with the database is in Leiden."),
    memory("g2", "Lunch is at noon."),
    memory("w1", "A database is a store.", collection="wiki"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    collections = {"notes": {"default": True, "user_id": "ana"}, "wiki": {"user_id": "ana"}}
    return home_scopes(tmp_path_factory.mktemp("scopes") / "h", tables(MADE), collections=collections)


@pytest.fixture(scope="module")
def reader_scopes(folder):
    with open_home(folder) as r:
        yield r


def found_scopes(reader_scopes, scope, **filters):
    return sorted(m.memory_id for m in reader_scopes.search("which database?", scope, k=10, **filters).memories)


def test_a_search_in_a_project_sees_the_project_and_the_general_memory_and_nothing_else(reader_scopes):
    assert found_scopes(reader_scopes, reader_scopes.resolve_scopes(project="alpha")) == ["a1", "g1", "g2"]
    assert found_scopes(reader_scopes, ("notes", "ana"), project="beta") == ["b1", "g1", "g2"]
    assert found_scopes(reader_scopes, ("notes", "ana", "beta")) == ["b1"]
    assert found_scopes(reader_scopes, reader_scopes.resolve_scope()) == ["g1", "g2"]
    assert found_scopes(reader_scopes, reader_scopes.resolve_scopes(all_projects=True)) == ["a1", "b1", "g1", "g2"]
    assert found_scopes(reader_scopes, reader_scopes.resolve_scopes(all_collections=True)) == ["g1", "g2", "w1"]
    answer = reader_scopes.search("which database?", reader_scopes.resolve_scopes(all_projects=True))
    assert "… and " in answer.context and all(f"] {i}.md" in results_text(answer) for i in ("a1", "b1", "g1", "g2"))
    every = reader_scopes.resolve_scopes(all_collections=True, project="alpha")
    assert every == [Scope("notes", "ana"), Scope("notes", "ana", "alpha"), Scope("wiki", "ana")]


def test_a_user_without_a_collection_is_read_where_all_memories_of_the_user_are_as_the_inbox_stores_them(tmp_path):
    made = [memory("n1", "The office is in Leiden."), memory("w1", "A database.", collection="wiki", user_id="bo")]
    made += [
        memory("x1", "A sail.", collection="yard", user_id="cy"),
        memory("x2", "C.", collection="wiki", user_id="cy"),
    ]
    settings = {"notes": {"default": True, "user_id": "ana"}, "wiki": {"user_id": "bo"}, "yard": {"user_id": "cy"}}
    path = home_scopes(tmp_path / "h", tables(made), collections=settings)
    with open_home(path) as reader:
        assert reader.resolve_scopes(user="bo") == [Scope("wiki", "bo")]
        assert reader.resolve_scope().collection == "notes"
        with pytest.raises(ArgumentError, match=r"^collection: cy has memories in wiki, yard; name one of them$"):
            reader.resolve_scopes(user="cy")
    said = CliRunner().invoke(query, ["which database?", "--user", "bo", "--home", str(path)])
    assert "in collection wiki, user bo; --collection names another: notes, yard" in said.stderr
    assert "A database." in said.stdout and "collection wiki" not in said.stdout


def test_an_answer_has_the_scope_of_each_memory_and_valid_citations(reader_scopes):
    answer = reader_scopes.search("which database?", reader_scopes.resolve_scopes(project="alpha"), k=5)
    assert "(undated, project alpha)" in results_text(answer)
    assert "[memory:a1] a1.md, chars 0-40, project alpha" in answer.context_with("full")
    general = [line for line in answer.context_with("full").splitlines() if line.startswith("[memory:g1]")]
    assert len(general) == 1 and "project" not in general[0]
    memories = {m["memory_id"]: m for m in answer.to_json()["memories"]}
    assert [memories["a1"][c] for c in SCOPE_scopes] == ["notes", "ana", "alpha"] and memories["g1"]["project_id"] == ""

    def find_error(memory_id, text, source):
        return None if source and source["uri"] == f"{memory_id}.md" and source["spans"] else memory_id

    known = SimpleNamespace(find_error=find_error)
    assert check_citations(answer.context_with("full"), known)[1] == []


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"project": "gamma"}, "project='gamma': not in collection notes for user ana; projects there: alpha, beta"),
        ({"user": "zoe"}, "user='zoe': not in collection notes; it has: ana"),
        ({"collection": "x"}, "collection='x': not in this build; it has: notes, wiki"),
        ({"project": "alpha", "all_projects": True}, "all_projects: excludes a project"),
        ({"user": "zoe", "all_collections": True}, "user='zoe': in no collection; users: ana"),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_those_known(reader_scopes, named, message):
    with pytest.raises(ArgumentError) as caught:
        reader_scopes.resolve_scopes(**named)
    assert str(caught.value) == message


def test_the_command_line_searches_and_lists_scopes(folder):
    def run(command, *args):
        return CliRunner().invoke(command, [*args, "--home", str(folder), "--json"])

    listed = json.loads(run(scopes).stdout.splitlines()[-1])["scopes"]
    sizes = {(s["collection"], s["project_id"]): s["memories"] for s in listed}
    assert sizes == {("notes", ""): 2, ("notes", "alpha"): 1, ("notes", "beta"): 1, ("wiki", ""): 1}
    answer = json.loads(run(query, "which database?", "--project", "alpha").stdout.splitlines()[-1])
    assert {m["project_id"] for m in answer["memories"]} == {"alpha", ""}
    assert run(query, "database", "--project", "gamma").exit_code != 0


def test_a_question_without_a_word_is_refused(reader_scopes):
    with pytest.raises(ArgumentError, match="text: has no words"):
        reader_scopes.search("?!", reader_scopes.resolve_scope())
    assert reader_scopes.search("\u6771\u4eac", reader_scopes.resolve_scope()).memories


def test_a_project_of_one_memory_is_found_next_to_a_large_general_memory(tmp_path):
    """Its z-scores alone are all 0: a scope of one memory has no deviation."""
    general = [memory(f"g{i:03}", f"The parking space number {i} belongs to the team.") for i in range(120)]
    own = [memory("p1", "The database of the project is Postgres.", project_id="alpha")]
    with open_home(
        home_scopes(tmp_path / "h", tables([*general, *own]), collections={"notes": {"user_id": "ana"}})
    ) as reader_scopes:
        for strategy in ("flat", "hybrid", "auto"):
            answer = reader_scopes.search("which database?", ("notes", "ana"), project="alpha", strategy=strategy)
            assert answer.memories[0].memory_id == "p1"
            answer = reader_scopes.search(
                "whose is parking space 7?", ("notes", "ana"), project="alpha", strategy=strategy
            )
            assert answer.memories[0].memory_id != "p1"


def test_merged_score_stats_are_those_of_all_scores_and_scopes_have_their_columns():
    a, b = np.array([0.1, 0.4, 0.7]), np.array([0.9])
    both = score_stats(np.concatenate([a, b]))
    pool = pool_stats([(3, score_stats(a)), (1, score_stats(b))])
    assert (pool.mean, pool.std) == (pytest.approx(both.mean), pytest.approx(both.std))
    assert Scope._fields == SCOPE_scopes
