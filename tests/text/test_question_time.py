"""What a question says about time: periods relative to a reference day, and the day whose knowledge it asks for."""

import datetime as dt
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.text.date_mentions import stated_periods, to_period
from palimpsest.text.questions import needs_reference, parse_question_time

WEDNESDAY = dt.date(2024, 5, 15)


def question_period(question, reference=None):
    return parse_question_time(question, reference).period


def days(*written):
    return tuple(dt.date.fromisoformat(f"20{w}") if w else None for w in written)


def test_a_question_asks_for_its_last_range_else_its_last_date():
    assert question_period("In 1950, who led the army from 1960 to 1962?") == (1960, 1963)
    assert question_period("Born 12 January 2000, what title did she get in 2010?") == (2010, 2011)
    assert question_period("Who won?") is None and question_period("Who won?", WEDNESDAY) is None
    assert question_period("Who led since 2001?", WEDNESDAY) == (2001, math.inf)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did I eat yesterday?", "24-05-14", "24-05-14"),
        ("What did I eat the day before yesterday?", "24-05-13", "24-05-13"),
        ("What is on tomorrow?", "24-05-16", "24-05-16"), ("Who called last week?", "24-05-06", "24-05-12"),
        ("What is planned this month?", "24-05-01", "24-05-31"),
        ("What is planned next month?", "24-06-01", "24-06-30"),
        ("What did we sell last quarter?", "24-01-01", "24-03-31"),
        ("Where did we go last year?", "23-01-01", "23-12-31"), ("What broke two weeks ago?", "24-04-28", "24-05-04"),
        ("Who left three months ago?", "24-01-31", "24-03-01"),
        ("What changed in the last three weeks?", "24-04-24", "24-05-15"),
        ("What changed in the past few months?", "24-02-15", "24-05-15"),
        ("What changed over the past year?", "23-05-15", "24-05-15"),
        ("Whom did I meet last Friday?", "24-05-10", "24-05-10"),
        ("Whom did I meet last Wednesday?", "24-05-08", "24-05-08"),
        ("What did we do on Monday?", "24-05-13", "24-05-13"), ("What did we do this Monday?", "24-05-13", "24-05-13"),
        ("What did I buy in March?", "24-03-01", "24-03-31"), ("What did I buy last March?", "24-03-01", "24-03-31"),
        ("What did I buy last May?", "23-05-01", "23-05-31"), ("What did I say on 3 March?", "24-03-03", "24-03-03"),
        ("What did I say on December 24th?", "23-12-24", "23-12-24"), ("What happens in June?", "24-06-01", "24-06-30"),
        ("What happened in June, was it hot?", "23-06-01", "23-06-30"),
        ("Where did we go last summer?", "23-06-01", "23-08-31"),
        ("Where did we go last winter?", "23-12-01", "24-02-29"),
        ("What do we plant this spring?", "24-03-01", "24-05-31"),
        ("Who led it from March to April?", "24-03-01", "24-04-30"),
        ("Who has led it since last March?", "24-03-01", ""), ("Who led it until yesterday?", "", "24-05-14"),
    ],
)  # fmt: skip
def test_relative_dates_count_from_the_reference_day(text, first, last):
    time = parse_question_time(text, WEDNESDAY)
    assert (time.first, time.last) == days(first, last)
    assert time.period == to_period(*days(first, last)) and time.phrase and time.phrase in text
    assert needs_reference(text) and question_period(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Does the release go out on Fridays?", "Does the release go out on Friday?", "May I march in the fall?",
        "What comes last?", "When is the marathon?", "Who may decide this?", "What is the second act?",
    ],
)  # fmt: skip
def test_words_that_only_look_like_dates_are_no_dates(text):
    assert question_period(text, WEDNESDAY) is None and not needs_reference(text)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did we decide in Q2 2023?", "23-04-01", "23-06-30"),
        ("What did we decide in 2023-Q2?", "23-04-01", "23-06-30"),
        ("What did we decide in the first quarter of 2023?", "23-01-01", "23-03-31"),
        ("What did we sell in H1 2023?", "23-01-01", "23-06-30"),
        ("What did we sell in the second half of 2023?", "23-07-01", "23-12-31"),
        ("Where were we in the summer of 2023?", "23-06-01", "23-08-31"),
        ("What came before June 2023?", "", "23-05-31"),
        ("What came after March 2023?", "23-04-01", ""),
        ("What came before Q2 2023?", "", "23-03-31"),
        ("What came since March 2023?", "23-03-01", ""),
        ("What came from Q1 2023 to Q2 2023?", "23-01-01", "23-06-30"),
    ],
)
def test_parts_of_a_year_and_what_is_before_or_after_them(text, first, last):
    assert question_period(text) == to_period(*days(first, last)) and not needs_reference(text)


@pytest.mark.parametrize(
    ("text", "first", "last", "phrase"),
    [
        ("What did we decide in Q1?", "24-01-01", "24-03-31", "Q1"),
        ("What did we plan in the first quarter?", "24-01-01", "24-03-31", "first quarter"),
        ("Where did we go in summer?", "23-06-01", "23-08-31", "summer"),
        ("What did we say before June?", "", "23-05-31", "June"),
        ("What did we say after March?", "24-04-01", "", "March"),
    ],
)
def test_parts_of_a_year_without_their_year_need_a_reference_day_and_are_else_unresolved(text, first, last, phrase):
    time = parse_question_time(text, WEDNESDAY)
    assert (time.first, time.last, time.phrase) == (*days(first, last), phrase)
    assert parse_question_time(text).unresolved_phrase == phrase and question_period(text) is None


@pytest.mark.parametrize(
    "text", ["Who ate half of it?", "What is the H2 heading?", "Who wins the second quarter of the game?"]
)
def test_halves_and_quarters_of_other_things_are_no_time(text):
    assert question_period(text) is None and (question_period(text, WEDNESDAY) is None or "H2" in text)


@pytest.mark.parametrize(
    ("text", "as_of", "phrase"),
    [
        ("As of May 2024, who leads?", "24-05-31", "May 2024"),
        ("Who led as of 3 March?", "24-03-03", "3 March"),
        ("Who leads as of last week?", "24-05-12", "last week"),
        ("Who led as at the 2nd of May 2023?", "23-05-02", "2nd of May 2023"),
        ("What did we believe on 3 March about Solvang?", "24-03-03", "3 March"),
        ("What did we know about Solvang in March?", "24-03-31", "March"),
        ("In April 2024, what did we think of it?", "24-04-30", "April 2024"),
        ("Who did I think was the lead two weeks ago?", "24-05-01", "two weeks ago"),
        ("What was known in 2022?", "22-12-31", "2022"),
        ("What had we assumed by yesterday?", "24-05-14", "yesterday"),
    ],
)
def test_a_question_that_asks_what_was_believed_states_the_day(text, as_of, phrase):
    time = parse_question_time(text, WEDNESDAY)
    assert (time.as_of, time.as_of_phrase) == (*days(as_of), phrase)


@pytest.mark.parametrize(
    "text",
    [
        "Who led in 2022?", "What happened last week?", "I thought we moved in May 2024, where do I live?",
        "What did we know that happened in 2022?", "When did I know Ada in 2022?", "Did we think about it in 2022?",
        "What did Ada think in 2022?", "What do we know about 2022?", "As of which version did it change in 2022?",
        "What do I believe?", "What did we believe about Solvang?",
    ],
)  # fmt: skip
def test_no_other_question_asks_for_the_knowledge_of_a_day(text):
    assert parse_question_time(text, WEDNESDAY).as_of is None


@pytest.mark.parametrize(
    ("text", "phrase", "unresolved"),
    [
        ("What did I say on 3 March?", "3 March", ""),
        ("What did we do in July?", "July", ""),
        ("What did we do last week?", "", "last week"),
        ("What did we do last March?", "", "last March"),
        ("What did we know three months ago?", "", "three months ago"),
        ("Where did we go last summer, in July?", "July", "last summer"),
    ],
)
def test_only_dates_without_a_year_count_from_a_day_that_is_not_the_questions(text, phrase, unresolved):
    found = parse_question_time(text, WEDNESDAY, exact=False)
    assert (found.phrase, found.unresolved_phrase, found.as_of) == (phrase, unresolved, None)
    assert parse_question_time(text).unresolved_phrase and parse_question_time(text, WEDNESDAY).unresolved_phrase == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The power is cut on 9 June.", [("24-06-09", "24-06-09")]),
        ("Yesterday I saw Ada, and last week Ben.", [("24-05-14", "24-05-14"), ("24-05-06", "24-05-12")]),
        ("In 2019 we moved, and two years ago we left.", [("19-01-01", "19-12-31"), ("21-11-14", "22-11-13")]),
        ("We meet on Fridays, and may march.", []),
    ],
)
def test_yesterday_in_a_memory_counts_from_the_day_that_it_was_stated(text, expected):
    assert stated_periods(text, WEDNESDAY) == [to_period(*days(*each)) for each in expected]
    assert stated_periods(text, None) == [to_period(*days(*each)) for each in expected if each[0] == "19-01-01"]


@settings(max_examples=40)
@given(st.text(max_size=300), st.dates())
def test_any_question_from_any_day_is_read_without_an_error(text, reference):
    time = parse_question_time(text, reference)
    assert time.first is None or time.last is None or time.first <= time.last


UNITS = st.sampled_from(["day", "week", "month", "year"])


@given(st.integers(1, 30), UNITS, st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)))
def test_more_of_a_unit_ago_is_earlier_and_all_of_it_is_past(n, unit, reference):
    near, far = (parse_question_time(f"What was it {k} {unit}s ago?", reference) for k in (n, n + 1))
    assert far.first < near.first <= near.last <= reference + dt.timedelta(days=183) and far.last < near.last


@given(st.sampled_from(["week", "month", "quarter", "year"]), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)))
def test_last_this_and_next_follow_each_other_without_a_gap(unit, reference):
    last, this, following = (
        parse_question_time(f"What is {w} {unit} like?", reference) for w in ("last", "this", "next")
    )
    day = dt.timedelta(days=1)
    assert last.last + day == this.first <= reference <= this.last and this.last + day == following.first


FORMS = [
    "999 years ago", "in the last 999 years", "the last 999 quarters", "yesterday", "tomorrow", "this Friday",
    "the day after tomorrow", "next year", "next quarter", "next month", "next week", "this winter", "last winter",
    "last March", "in May", "3 December", "December 31", "on Monday did", "as of last week",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMS)
@settings(max_examples=25)
@given(day=st.dates())
def test_a_text_may_be_stated_on_any_day_of_the_calendar(text, day):
    assert all(low < high for low, high in stated_periods(text, day))
    parse_question_time(text, day)


def test_the_ends_of_the_calendar_are_no_reference_days_and_a_date_of_two_forms_is_found_once():
    for day in (dt.date.min, dt.date(1001, 12, 31), dt.date(9997, 1, 1), dt.date.max):
        assert stated_periods("We met last week, in May.", day) == [] and question_period("last week", day) is None
    assert stated_periods("tomorrow", dt.date(9996, 12, 31)) == [(9997.0, 9997 + 1 / 365)]
    assert len(stated_periods("It was on 3 May 4 in all, in June 5.", WEDNESDAY)) == 2
    for reference in (None, WEDNESDAY):
        assert question_period("What did we grow in spring 2023?", reference) == to_period(
            *days("23-03-01", "23-05-31")
        )


@pytest.mark.parametrize(
    ("text", "as_of"),
    [
        ("As of 2023-04, who leads it?", "2023-04-30"),
        ("As of the end of 2023, who leads it?", "2023-12-31"),
        ("As of the beginning of 2023, who leads it?", "2023-01-01"),
        ("What did we believe at the start of March 2023?", "2023-03-01"),
        ("What did we believe about 2019 in 2022?", "2022-12-31"),
        ("What did we believe about the 1990s?", None),
    ],
)
def test_the_beginning_and_the_end_of_a_time_are_its_days_and_what_beliefs_are_about_is_not_their_time(text, as_of):
    assert parse_question_time(text, WEDNESDAY).as_of == (as_of and dt.date.fromisoformat(as_of))
