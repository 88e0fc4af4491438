import datetime as dt
import json
import re
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.core.errors import PalimpsestError
from palimpsest.query import Scope, open_home, open_index
from palimpsest.query.request.strategies import STRATEGIES
from palimpsest.query.search import STEPS
from tests.query.made import at, home, memory, tables, write

MADE = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01")),
    memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01"), speaker="Ana", tags=["plan"]),
    memory("m3", "I keep bees and sell honey."),
    memory("m4", "Honey is sold at the market on Sundays.", observed_at=at("2024-02-10")),
    memory("b1", "Ben's secret word is zyxquorvine.", user_id="ben"),
    memory("b2", "Ben's launch is on Tuesday.", user_id="ben"),
]
ANA = Scope("notes", "ana")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    made = tables(MADE, [("m2", "m1")], [("m4", "m3", "EXTEND")])
    with open_home(home(tmp_path_factory.mktemp("home"), made)) as reader:
        yield reader


def ids(results):
    return [m.memory_id for m in results.memories]


@pytest.mark.parametrize("strategy", ["flat", "hybrid", "auto"])
def test_the_current_answer_comes_first_cited(reader, strategy):
    results = reader.search("When is the launch?", ANA, strategy=strategy)
    assert ids(results)[0] == "m2" and "m1" not in ids(results)
    best = results.memories[0]
    assert (best.uri, best.speaker, best.span, best.is_latest) == ("m2.md", "Ana", (0, 27), True)
    assert "- (2024-02-01, Ana) The launch moved to Friday. [memory:m2]" in results.context_with("full")
    assert "replaced: (2024-01-01, until 2024-02-01) The launch is on Monday. [memory:m1]" in results.context_with(
        "full"
    )
    assert results.packed_ids[0] == "m2" and results.context_tokens <= 1200
    assert results.timings["total_ms"] >= results.timings["embed_ms"] > 0
    assert set(results.timings) == {*STEPS, "total_ms"}
    assert sum(results.timings[s] for s in STEPS) == pytest.approx(results.timings["total_ms"])
    assert results.build_id == "000001" and results.strategy == ("hybrid" if strategy == "auto" else strategy)


def test_as_of_answers_with_what_was_current_then(reader):
    assert ids(reader.search("When is the launch?", ANA, as_of="2024-01-15"))[0] == "m1"
    assert ids(reader.search("When is the launch?", ANA, as_of=dt.date(2024, 2, 1)))[0] == "m2"
    assert ids(reader.search("When is the launch?", ANA, as_of="2023-12-31")) == ["m3"]


def test_history_shows_every_version_newest_first_in_the_context(reader):
    results = reader.search("When is the launch?", ANA, history=True)
    assert set(ids(results)[:2]) == {"m1", "m2"}
    assert results.packed_ids.index("m2") < results.packed_ids.index("m1")


def test_filters_narrow_the_scope(reader):
    assert ids(reader.search("launch", ANA, tags=["plan"])) == ["m2"]
    assert ids(reader.search("launch", ANA, since="2024-02-10")) == ["m4"]
    assert ids(reader.search("launch", ANA, until="2024-02-01")) == ["m2"]
    assert ids(reader.search("launch", ANA, types=["episodic"])) == []
    assert ids(reader.search("launch", ANA, session="none")) == []


def test_no_request_returns_a_memory_of_another_user(reader):
    for options in ({}, {"history": True, "hops": 2, "k": 100}, {"strategy": "flat"}, {"as_of": "2030-01-01"}):
        results = reader.search("secret word zyxquorvine", ANA, explain=True, **options)
        assert not {"b1", "b2"} & set(ids(results))
        assert "zyxquorvine" not in results.context
    assert ids(reader.search("secret word", Scope("notes", "ben")))[0] == "b1"


def test_an_unknown_user_gets_an_empty_answer(reader):
    results = reader.search("launch", Scope("notes", "nobody"))
    assert (results.memories, results.context, results.packed_ids) == ([], "", ())


def test_several_scopes_are_merged_and_the_best_of_each_stays_its_best(reader):
    both = reader.search("When is the launch?", [ANA, Scope("notes", "ben")], k=10)
    assert {"m2", "b2"} <= set(ids(both)[:3])
    alone = ids(reader.search("When is the launch?", ANA, k=10))
    assert next(m.memory_id for m in both.memories if m.user_id == "ana") == alone[0]


def test_explain_says_why_and_which_links(reader):
    found = {m.memory_id: m for m in reader.search("bees", ANA, explain=True, k=10).memories}
    assert re.fullmatch(r"-?\d+\.\d\d by itself \(meaning -?\d\.\d\d, words \d+\.\d\d\)", found["m3"].why)
    (link,) = found["m4"].path
    assert (link.source, link.kind, link.weight, found["m4"].hops) == ("m3", "EXTEND", pytest.approx(0.9), 1)
    gained = f"{found['m4'].graph_score:+.2f} over links: one of it and result 1 adds to the other (weight 0.90)"
    assert f"; {gained}; {found['m4'].score:.2f} in all" in found["m4"].why
    assert all(m.why == "" and m.path == () for m in reader.search("bees", ANA).memories)


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


def test_explain_has_the_same_links_in_json_as_in_text(reader):
    memories = reader.search("bees", ANA, explain=True, k=10).to_json()["memories"]
    (link,) = next(m for m in memories if m["memory_id"] == "m4")["path"]
    assert link | {"weight": 0.9} == {
        "source": "m3",
        "target": "m4",
        "kind": "EXTEND",
        "weight": 0.9,
        "via": "",
        "text": MADE[2]["text"],
    }
    assert "path" not in reader.search("bees", ANA).to_json()["memories"][0]


def test_the_same_question_gets_the_same_answer(reader):
    one, other = (reader.search("launch honey", ANA, k=10) for _ in range(2))
    assert (one.memories, one.context) == (other.memories, other.context)


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


@pytest.mark.parametrize("text", ["", "   ", "\0", "\n\t", "%_\\", "🚀", "((((", "?"])
def test_a_query_without_a_word_is_refused(reader, text):
    with pytest.raises(PalimpsestError, match=r"is empty|has no words"):
        reader.search(text, ANA)


@pytest.mark.parametrize(
    "text",
    ["launch\0now", "\ud800 launch", "'; DROP TABLE memories; --", "launch " * 200_000, "%_\\ x", "🚀 launch", "((((a"],
)
def test_hostile_queries_are_answered(reader, text):
    assert len(reader.search(text, ANA).memories) == 3


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1, max_size=80))
def test_any_text_is_answered_from_the_scope_or_refused_as_without_words(reader, text):
    try:
        results = reader.search(text, ANA, hops=2)
    except PalimpsestError as e:
        assert str(e).startswith("text: ")
    else:
        assert {m.user_id for m in results.memories} <= {"ana"}


def test_the_budget_holds_and_zero_packs_nothing(reader):
    results = reader.search("launch", ANA, budget_tokens=40)
    assert 0 < results.context_tokens <= 40 and len(results.packed_ids) < 3
    assert reader.search("launch", ANA, budget_tokens=0).context == ""


def test_eight_clients_get_the_answers_that_one_gets(reader):
    texts = ["When is the launch?", "bees", "honey market", "Friday"] * 8
    alone = [reader.search(t, ANA).context for t in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda t: reader.search(t, ANA).context, texts)) == alone


def test_a_home_without_a_published_build_says_what_to_run(tmp_path):
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


def test_a_reader_holds_its_build_until_it_is_refreshed(tmp_path):
    made = tables([memory("m1", "The launch is on Monday.")])
    with open_home(home(tmp_path, made)) as reader:
        home(tmp_path, tables([memory("m9", "The launch is on Sunday.")]), "000002")
        assert (ids(reader.search("launch", ANA)), reader.build_id) == (["m1"], "000001")
        assert reader.refresh() == "000002"
        assert (ids(reader.search("launch", ANA)), reader.build_id) == (["m9"], "000002")


def test_the_index_of_a_build_that_is_not_published_opens_by_path(tmp_path):
    home(tmp_path, tables([memory("m1", "bees")]))
    (tmp_path / "published.json").unlink()
    with open_index(tmp_path / "builds" / "000001" / "index.duckdb") as reader:
        assert ids(reader.search("bees", ANA)) == ["m1"] and reader.refresh() == "000001"


def resolve(folder, made, collection=None, user=None, **collections):
    with open_home(home(folder, tables(made), collections=collections)) as reader:
        return reader.resolve_scope(collection, user)


def test_the_only_collection_and_its_default_user_are_meant(tmp_path):
    made = [memory("m1", "bees")]
    assert resolve(tmp_path / "a", made) == Scope("notes", "ana")
    assert resolve(tmp_path / "b", made, notes={"user_id": "shared"}) == Scope("notes", "shared")
    with pytest.raises(PalimpsestError, match="user='zoe': not in collection notes; it has: ana"):
        resolve(tmp_path / "c", made, user="zoe")


def test_of_several_collections_the_default_is_used_else_the_error_names_them(tmp_path):
    made = [memory("m1", "bees"), memory("w1", "rain", collection="wiki", user_id="all")]
    wiki = {"default": True, "user_id": "all"}
    assert resolve(tmp_path / "a", made, wiki=wiki) == Scope("wiki", "all")
    assert resolve(tmp_path / "b", made, collection="notes", wiki=wiki) == Scope("notes", "ana")
    with pytest.raises(PalimpsestError, match="collection: name one of: notes, wiki"):
        resolve(tmp_path / "c", made)
    with pytest.raises(PalimpsestError, match="collection='nots': not in this build; it has: notes, wiki"):
        resolve(tmp_path / "d", made, collection="nots")


def test_a_collection_of_several_users_without_a_default_asks_for_one(tmp_path):
    made = [memory("m1", "bees"), memory("b1", "rain", user_id="ben")]
    with pytest.raises(PalimpsestError, match="user: collection notes has no default user; it has: ana, ben"):
        resolve(tmp_path, made)


def test_what_the_build_recorded_decides_auto(tmp_path):
    folder = home(tmp_path, tables([memory("m1", "bees")]), strategies={"notes": "flat"})
    with open_home(folder) as reader:
        assert reader.search("bees", ANA).strategy == "flat"
    assert json.loads((folder / "published.json").read_text()) == {"build": "000001"}


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
        assert (
            reader.search("Since when is the lighthouse not staffed?", ANA, budget_tokens=120).context == found.context
        )
