"""The labeled pairs of data/golden/pairs: one file per domain, every form of its table, nothing repeated."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "data/golden/pairs"
DOMAINS = sorted(p.stem for p in FOLDER.glob("*.jsonl"))
LOOKALIKE_DOMAINS = {
    *("assistant_users", "aviation_shipping", "construction_crafts", "customers_sales", "fitness_wellbeing"),
    *("games_hobbies", "home_and_garden", "hotels_hospitality", "libraries_museums", "project_management"),
    *("public_figures", "team_channels"),
}
"""Written by the second table: changes without a cue word, and what only looks like them."""
CANDIDATE_DOMAINS = {
    *("chat_assistant", "diaries_notes", "friends_chat", "local_news", "meeting_minutes", "product_docs"),
    *("support_tickets", "work_channels"),
}
"""Written by the third table: what a search proposes in a build, half of it without a common statement."""
TEST_DOMAINS = {
    *("events_conferences", "farming", "media_publishing"),
    *("aviation_shipping", "home_and_garden", "libraries_museums", "project_management"),
    *("product_docs", "support_tickets"),
}
FORMS = {
    "UPDATE": "replaced_value indirect_state switched ended handover amount_age_count schedule status reversal "
    "preference relocation_or_rename",
    "EXTEND": "detail refinement second_value conditional cause_or_purpose exception_once",
    "DERIVE": "consequence computed summary_or_class implied_state",
    "NONE": "same_again other_subject other_slot past_of_slot plan wish_or_hypothetical rumour_or_mistake multi_valued "
    "homonym same_value_other_unit same_topic small_talk",
}
FIRST_FORMS = FORMS | {"NONE": FORMS["NONE"].removesuffix(" same_topic small_talk")}
LOOKALIKE_FORMS = {
    "UPDATE": "replaced_value amount_age_count schedule preference indirect_state status switched",
    "EXTEND": "exception_once refinement conditional cause_or_purpose",
    "NONE": "other_slot same_again same_value_other_unit multi_valued other_subject plan homonym",
}
CANDIDATE_FORMS = {
    "UPDATE": "replaced_value indirect_state schedule status amount_age_count preference ended handover",
    "EXTEND": "detail exception_once refinement second_value conditional",
    "DERIVE": "consequence computed",
    "NONE": "same_topic other_slot other_subject same_again small_talk past_of_slot plan multi_valued "
    "wish_or_hypothetical rumour_or_mistake homonym",
}
CONFLICTS = {"UPDATE": {"dynamic"}, "EXTEND": {"none", "conditional"}, "DERIVE": {"none"}, "NONE": {"none", "static"}}
MAX_SHARED = 0.6  # of the character 5-grams of two pairs


@cache
def pairs_of(domain: str) -> tuple[Mapping[str, str | None], ...]:
    return tuple(json.loads(line) for line in (FOLDER / f"{domain}.jsonl").read_text().splitlines())


def test_there_are_seven_thousand_pairs_in_46_domains_and_a_tenth_are_for_the_test() -> None:
    rows = [r for d in DOMAINS for r in pairs_of(d)]
    assert len(DOMAINS) >= 46 and len(rows) >= 7000 and len({r["id"] for r in rows}) == len(rows)
    assert {r["domain"] for r in rows if r["split"] == "test"} == TEST_DOMAINS
    assert sum(r["split"] == "test" for r in rows) >= len(rows) / 10


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_domain_has_every_form_and_register_half_of_it_dated(domain: str) -> None:
    rows = pairs_of(domain)
    forms = defaultdict(set)
    for row in rows:
        forms[row["label"]].add(row["form"])
        assert row["conflict"] in CONFLICTS[str(row["label"])]
        assert row["split"] == ("test" if domain in TEST_DOMAINS else "train")
        dates = (row["older_date"], row["newer_date"])
        assert dates == (None, None) or str(dates[0]) < str(dates[1])
    table = FIRST_FORMS
    if domain in LOOKALIKE_DOMAINS:
        table = LOOKALIKE_FORMS
    if domain in CANDIDATE_DOMAINS:
        table = CANDIDATE_FORMS
    assert all(set(names.split()) <= forms[label] for label, names in table.items())
    assert all(found <= set(FORMS[label].split()) for label, found in forms.items())
    registers = Counter(r["register"] for r in rows)
    assert registers.keys() == {"chat", "note", "document"} and min(registers.values()) >= len(rows) / 6
    assert 0.4 <= sum(r["older_date"] is not None for r in rows) / len(rows) <= 0.6


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_pair_repeats_another_of_its_domain(domain: str) -> None:
    from sklearn.feature_extraction.text import CountVectorizer

    rows = pairs_of(domain)
    grams = CountVectorizer(analyzer="char", ngram_range=(5, 5), binary=True)
    counts = grams.fit_transform([f"{r['older']} | {r['newer']}" for r in rows]).astype(np.int32)
    shared = (counts @ counts.T).toarray()
    sizes = np.diag(shared)
    jaccard = np.triu(shared / (sizes[:, None] + sizes[None, :] - shared), k=1)
    assert not [(rows[i]["id"], rows[j]["id"]) for i, j in zip(*np.nonzero(jaccard > MAX_SHARED), strict=True)]
