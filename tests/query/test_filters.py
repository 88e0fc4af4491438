import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query import SearchRequest, open_index
from palimpsest.query.request.types import Filters
from palimpsest.query.request.where import parse_where
from tests.query.filtered import ANA, BEN, PASSING, write_filtered

EVERY = "m1 m2 m3 m4 m5"


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("filters") / "i.duckdb"
    write_filtered(path)
    with open_index(path) as r:
        yield r


def found(reader, scope=ANA, text="When is the exam?", **options):
    return " ".join(sorted(m.memory_id for m in reader.search(text, scope, k=10, hops=0, **options).memories))


@pytest.mark.parametrize(("where", "passing"), PASSING)
def test_where_filters_by_fields_of_memories_and_of_their_documents(reader, where, passing):
    assert found(reader, where=where) == passing


def test_where_holds_for_every_text_of_an_answer(reader):
    result = reader.search("When is the exam?", ANA, k=1, where='category = "academic"', history=True, explain=True)
    assert "office" not in result.context and "red" not in result.context and "euros" not in result.context


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


def test_several_types_or_tags_pass_any_of_them(reader):
    assert found(reader, types=["task", "letter"]) == "m2"
    assert found(reader, types=["task", "document"]) == EVERY
    assert found(reader, tags=["urgent", "old"]) == "m2 m3"
    assert found(reader, types=["task"], tags=["plan"]) == "m2"
    assert found(reader, types=["document"], tags=["plan"], where="year > 2000", until="2024-12-31") == "m1"


def test_filters_combine_with_a_time_range(reader):
    assert found(reader, where='category = "academic"', since="2024-01-15", until="2024-12-31") == "m2"
    assert found(reader, where='category = "academic"', as_of="2024-01-15") == "m1"


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
    with pytest.raises(ArgumentError, match=message.replace("=", "=")):
        SearchRequest.create("exam", ANA, **options)


def test_a_request_in_json_has_the_filters_of_a_search():
    data = {"text": "exam", "types": ["task", "chunk"], "tags": ["a", "b"], "where": "year > 1", "min_score": 0.2}
    request = SearchRequest.from_json(data, ANA)
    assert request.types == ("chunk", "task") and request.tags == ("a", "b") and request.min_score == 0.2
    assert request == SearchRequest.create(
        "exam", ANA, types=["chunk", "task"], tags=("b", "a"), where="year > 1", min_score=0.2
    )
    with pytest.raises(ArgumentError, match="types='task': must be a list of texts"):
        SearchRequest.from_json(data | {"types": "task"}, ANA)


def test_an_answer_in_json_has_the_filters(reader):
    filters = reader.search("exam", ANA, where=" year > 2000 ", tags=["plan"]).to_json()["filters"]
    assert filters["where"] == "year > 2000" and filters["tags"] == ["plan"] and filters["below_min_score"] == 0


def test_equal_numbers_and_booleans_are_different_conditions(reader):
    backend = reader.backend
    masks = [
        backend.view(ANA).allowed(Filters(where=parse_where(text)))
        for text in ("category = 7", "category = true", "category = 7.0")
    ]
    assert masks[0].tolist() == masks[2].tolist() and masks[0].any() and not masks[1].any()
