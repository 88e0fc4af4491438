"""No kind of request returns memories past their retention, hidden ones or those with personal data."""

from datetime import UTC, datetime, timedelta

import pytest

from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.reader import Reader
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.scope.view import Withheld
from tests.query.made import at, memory, tables, write

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


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Each of three facts has an open version that replaced, or was replaced by, one that is withheld."""
    made = tables(
        [
            memory(
                "old",
                "The door code is 1111 zqexpired.",
                observed_at=at("2026-01-01"),
                retention_until=at("2026-04-01"),
            ),
            memory("new", "The door code is zqrecent.", observed_at=at("2026-02-01"), retention_until=at("2026-06-01")),
            memory("shown", "Mia lives in Leiden.", observed_at=at("2026-01-01")),
            memory("hidden", "Mia lives in Utrecht zqhidden.", observed_at=at("2026-02-01"), user_visible=False),
            memory("person", "Mia's passport is NX 12 zqpii.", observed_at=at("2026-01-01"), pii=True),
            memory("passport", "The passport of Mia is at home.", observed_at=at("2026-02-01")),
        ],
        updates=[("new", "old"), ("hidden", "shown"), ("passport", "person")],
        mentions=[("person", "mia"), ("passport", "mia"), ("shown", "mia"), ("hidden", "mia")],
    )
    path = tmp_path_factory.mktemp("withheld") / "index.duckdb"
    write(made, path)
    return path


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


def test_hidden_and_personal_memories_are_returned_on_request_and_expired_ones_never(index):
    reader = Reader(DuckDBBackend(index), clock=lambda: TODAY)
    text = everything(reader, history=True, include_hidden=True, include_pii=True)
    assert "zqhidden" in text and "zqpii" in text and "zqexpired" not in text
    assert "zqhidden" not in repr(reader.search("Where does Mia live?", SCOPE, k=10, history=True, include_pii=True))


def test_retention_ends_by_the_clock_and_by_nothing_else(index):
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
