import datetime as dt
import json

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query import open_home, open_index
from palimpsest.query.graph.graph_answer import answer_text
from palimpsest.query.reader import Reader
from palimpsest.store.usage_log import UsageLog
from tests.query.filtered import ANA, BEN, write_filtered
from tests.query.graphed import graph_tables
from tests.query.made import write


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("PALIMPSEST_USAGE_DAYS", raising=False)
    write_filtered(tmp_path / "builds" / "000001" / "index.duckdb")
    (tmp_path / "published.json").write_text(json.dumps({"build": "000001"}))
    return tmp_path


def found(reader, scope=ANA, **options):
    return sorted(m.memory_id for m in reader.search("When is the exam?", scope, k=10, hops=0, **options).memories)


def test_only_what_was_read_lately_is_found_after_a_search_returned_it(home):
    with open_home(home) as reader:
        assert found(reader, accessed_within="30d") == []
        assert found(reader, where='category = "academic"') == ["m1", "m2"]
        assert found(reader, accessed_within="30d") == ["m1", "m2"]
        assert found(reader, accessed_within=dt.timedelta(hours=1), where="stressor = true") == ["m1"]
        assert found(reader, BEN, accessed_within="30d") == [], "another scope's reads are not this one's"
    with open_home(home) as later:
        assert found(later, accessed_within="12h") == ["m1", "m2"]
        answer = later.search("exam", ANA, accessed_within="30d", history=True)
        assert answer.to_json()["filters"]["accessed_within_s"] == 30 * 86_400
        assert "office" not in answer.context


def test_reads_get_too_old(home):
    with open_home(home) as reader:
        found(reader)
    late = lambda: dt.datetime.now(dt.UTC) + dt.timedelta(days=40)  # noqa: E731
    with open_home(home) as opened:
        reader = Reader(opened.backend, home, clock=late, usage=UsageLog(home, 90, late))
        assert found(reader, accessed_within="30d") == [] and found(reader, accessed_within="45d") != []


def test_the_log_has_no_word_of_a_question(home):
    with open_home(home) as reader:
        reader.search("exam zyqquestion", ANA)
    written = b"".join(p.read_bytes() for p in (home / "usage").iterdir())
    assert b"m1" in written and b"zyqquestion" not in written and b"exam" not in written


def test_reads_are_not_counted_where_they_are_off(home, monkeypatch):
    with open_home(home, count_reads=False) as reader:
        found(reader)
    monkeypatch.setenv("PALIMPSEST_USAGE_DAYS", "0")
    with open_home(home) as reader:
        found(reader)
        with pytest.raises(
            ArgumentError, match="accessed_within: no reads are counted here: PALIMPSEST_USAGE_DAYS is 0"
        ):
            found(reader, accessed_within="30d")
    with open_index(home / "builds" / "000001" / "index.duckdb") as reader, pytest.raises(ArgumentError):
        found(reader, accessed_within="30d")
    assert not (home / "usage").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("30", "not a time span; write 12h, 30d or 4w"),
        ("30 days", "not a time span"),
        ("0d", "must be above 0"),
        (dt.timedelta(days=-1), "must be above 0"),
        ("999999w", "must be above 0 and at most 36,500 days"),
        ("91d", "reads are kept for 90 days"),
    ],
)
def test_a_wrong_time_span_is_named(home, value, message):
    with open_home(home) as reader, pytest.raises(ArgumentError, match=message):
        found(reader, accessed_within=value)


def test_a_node_has_the_reads_of_its_memories_that_are_visible(tmp_path):
    write(graph_tables(), tmp_path / "builds" / "000001" / "index.duckdb")
    (tmp_path / "published.json").write_text(json.dumps({"build": "000001"}))
    with open_home(tmp_path) as reader:
        reader.search("Where does Ida live?", ANA, k=10, hops=0, include_hidden=True, history=True)
        of_ida = {hidden: reader.graph(ANA, include_hidden=hidden).node("Ida").nodes[0] for hidden in (False, True)}
        assert (of_ida[False].access_count, of_ida[True].access_count) == (3, 4)
        answer = reader.graph(ANA).node("Ghent")
        assert ", read 1 times" in answer_text(answer) and answer.to_json()["nodes"][0]["access_count"] == 1
    with open_home(tmp_path, count_reads=False) as reader:
        assert reader.graph(ANA).node("Ghent").nodes[0].access_count is None
