"""What recurs across the documents of a collection is hidden, and nothing else."""

import polars as pl
import pytest

from palimpsest.memories.boilerplate import BOILERPLATE, find_boilerplate, set_apart
from palimpsest.store.tables import conform

SCOPE = {"collection": "notes", "user_id": "ana", "project_id": ""}
DISCLAIMER = (
    "This message was sent by {name} and may contain confidential information that is intended only for the person to "
    "whom it is addressed; if you received it by mistake, please delete it and tell the sender as soon as you can."
)
REPORT = (
    "The committee heard the report of the working group, thanked all of its members for their work in the last half "
    "of the year, discussed the recommendations at length, and then the proposal as it stood was {decision}."
)


def tables(
    texts: list[list[str]], unit: str = "chunk", heading: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns memories and documents: a list of texts for each document."""
    documents = [{"document_id": f"d{n}", "uri": f"{n}.md", "is_current": True, **SCOPE} for n in range(len(texts))]
    memories = [
        {
            "memory_id": f"m{n}.{i}",
            "document_id": f"d{n}",
            "ordinal": i,
            "unit": unit,
            "text": t,
            "heading": heading and f"Title {n} > {heading}" if i == 0 else f"Title {n}",
            "user_visible": True,
            **SCOPE,
        }
        for n, document in enumerate(texts)
        for i, t in enumerate(document)
    ]
    return conform("memories", pl.DataFrame(memories)), conform("documents", pl.DataFrame(documents))


def hidden(texts: list[list[str]], unit: str = "chunk", heading: str | None = None) -> set[str]:
    memories, documents = tables(texts, unit, heading)
    apart = set_apart(memories, find_boilerplate(memories, documents))
    rows = apart.filter(~pl.col("user_visible"))
    assert all(BOILERPLATE in tags for tags in rows["tags"])
    assert apart.drop("user_visible", "tags").equals(memories.drop("user_visible", "tags"))
    return set(rows["memory_id"])


def own(n: int) -> str:
    """Returns a text that only one document has."""
    letters = chr(97 + n % 26), chr(97 + n // 26)
    return f"Topic {letters[0]}{letters[1]} was discussed."


def first_of(count: int) -> set[str]:
    return {f"m{n}.0" for n in range(count)}


def test_a_line_of_a_tenth_of_the_documents_is_hidden_whatever_its_case_and_marks():
    lines = ["Subscribe to our calendar!", "* SUBSCRIBE to our *calendar*"] * 2
    assert hidden([[lines[n], own(n)] for n in range(4)]) == first_of(4)
    assert hidden([[lines[n % 4] if n < 4 else own(100 + n), own(n)] for n in range(60)]) == set()


@pytest.mark.parametrize(
    "line",
    ["Page {} of 40, back to the list", "Copyright {} by the Harbour Council", "Watch the talk https://example.org/{}"],
)
def test_a_template_is_hidden_at_the_edge_of_documents_whatever_its_numbers_and_links(line: str):
    assert hidden([[line.format(n), own(n)] for n in range(6)]) == first_of(6)
    assert hidden([[own(n), line.format(n), own(n + 30)] for n in range(6)]) == set()


def test_a_line_of_many_words_is_hidden_whatever_its_link():
    line = "Click here to see the recordings of all our meetings: https://example.org/{}"
    assert hidden([[own(n), line.format("abcdef"[n]), own(n + 30)] for n in range(6)]) == {f"m{n}.1" for n in range(6)}


def test_a_block_is_hidden_where_names_alone_differ():
    names = ["Ana", "Bo", "Cy", "Dee", "Eve"]
    assert hidden([[DISCLAIMER.format(name=name), own(n)] for n, name in enumerate(names)]) == first_of(5)


def test_a_list_of_names_is_hidden_where_most_of_them_recur():
    people = ["Ana Lee", "Bo Chan", "Cy Okoro", "Dee Ruiz", "Eve Sand", "Finn Ott", "Guy Pal"]
    present = [f"Present: {', '.join(p for i, p in enumerate(people) if i != n)}" for n in range(5)]
    assert hidden([[line, own(n)] for n, line in enumerate(present)]) == first_of(5)
    topics = [f"We spoke about {a}, {b}, costs, plans and people." for a, b in zip("abcde", "fghij", strict=True)]
    assert hidden([[line, own(n)] for n, line in enumerate(topics)]) == set()


@pytest.mark.parametrize(
    "lines",
    [
        ["Motion passed 7-0", "Motion failed 3-4", "Motion passed 5-2", "Motion passed 6-1", "Motion failed 2-5"],
        [REPORT.format(decision=d) for d in ("approved", "rejected", "postponed", "withdrawn", "amended")],
        [REPORT.format(decision=f"approved by 7-{n}") for n in range(5)],
        [f"Fixed a crash in version 1.{n}" for n in range(5)],
        [f"The fee is {n} euros" for n in range(5)],
        [f"def load_{name}(path): return read(path)" for name in "abcde"],
        [f"Next meeting: 2026-04-0{n}" for n in range(1, 6)],
        [f"The next meeting of all members is on {n} March 2026 in the hall at the harbour" for n in range(1, 6)],
        [f"https://example.org/{name}" for name in "abcde"],
        [f"Yes, you can change your plan in the {place}." for place in ("shop", "app", "office", "mail", "web")],
    ],
)
def test_the_same_template_with_another_decision_score_amount_version_or_answer_is_shown(lines: list[str]):
    assert hidden([[own(n + 30), line, own(n)] for n, line in enumerate(lines)]) == set()


def test_a_value_of_a_section_or_a_label_that_has_others_is_shown():
    statuses = ["Accepted"] * 5 + ["Superseded"] * 3
    assert hidden([[s, own(n)] for n, s in enumerate(statuses)], heading="Status") == set()
    assert hidden([[f"Status: {s}", own(n)] for n, s in enumerate(statuses)]) == set()
    assert hidden([["Team: core", own(n)] for n in range(8)]) == first_of(8)


def test_versions_of_one_document_count_once():
    chapter = [f"Rule {letter} is about the {letter * 3} of the harbour." for letter in "abcdefgh"]
    assert hidden([[*chapter, own(n)] for n in range(5)]) == set()


def test_what_few_documents_say_and_what_people_say_is_shown():
    assert hidden([["We moved to Ghent.", own(n)] for n in range(3)] + [[own(n)] for n in range(3, 6)]) == set()
    assert hidden([["x" * 300]] * 5) == set()
    assert hidden([["Good morning.", own(n)] for n in range(6)], unit="turn") == set()
