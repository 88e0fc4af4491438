"""The table of word kinds from a small WordNet, and the figures of a suite."""

from pathlib import Path

import numpy as np
import pytest

from palimpsest.eval.abstention.lexicon_table import WordNet, lexicon_table
from palimpsest.eval.studies.abstention import compared
from palimpsest.query.answerability.lexicon import AnswerKind, word_key

FILES = {
    "data.noun": """
00000001 03 n 01 person 0 000 | somebody
00000002 03 n 01 organization 0 000 | a body
00000003 03 n 01 location 0 000 | a place
00000004 03 n 01 building 0 000 | a house
00000005 03 n 01 facility 0 000 | a place of use
00000006 03 n 01 cost 0 000 | a price
00000007 03 n 01 payment 0 000 | what is paid
00000008 03 n 01 sum 0 000 | an amount
00000009 03 n 01 landlord 0 001 @ 00000001 n 0000 | who lets a house
00000010 03 n 01 rent 0 002 @ 00000007 n 0000 + 00000001 v 0101 | what a tenant pays
""",
    "index.noun": """
person n 1 0 1 0 00000001
organization n 1 0 1 0 00000002
location n 1 0 1 0 00000003
building n 1 0 1 0 00000004
facility n 1 0 1 0 00000005
cost n 1 0 1 0 00000006
payment n 1 0 1 0 00000007
sum n 1 0 1 0 00000008
landlord n 1 1 @ 1 0 00000009
rent n 1 2 @ + 1 0 00000010
""",
    "data.verb": "00000001 03 v 01 let 0 000 00 | give for rent\n",
    "index.verb": "let v 1 0 1 0 00000001\n",
    "verb.exc": "lets let\n",
}


@pytest.fixture
def net(tmp_path: Path) -> WordNet:
    for part in ("noun", "verb", "adj", "adv"):
        for name in (f"data.{part}", f"index.{part}", f"{part}.exc"):
            (tmp_path / name).write_text(FILES.get(name, "").lstrip("\n"))
    return WordNet.read(tmp_path)


def test_a_word_reaches_its_kinds_and_what_it_derives_from(net):
    levels = {"noun": 5, "verb": 2, "adj": 0, "adv": 0}
    assert net.reach("landlord", levels) == {"n00000009": 0, "n00000001": 2}
    assert net.reach("rent", levels) == {"n00000010": 0, "v00000001": 1, "n00000007": 2}
    assert net.own("lets") == {"v00000001": "verb"}


def test_the_table_is_sorted_by_key_and_knows_what_nouns_ask_for(net):
    table = lexicon_table(net)
    assert (np.diff(table["words"].astype(object)) > 0).all() and len(table["starts"]) == len(table["words"]) + 1
    kinds = dict(zip(table["words"].tolist(), table["answers"].tolist(), strict=True))
    assert kinds[word_key("landlord")] == AnswerKind.PERSON and kinds[word_key("rent")] == AnswerKind.MONEY
    assert kinds[word_key("lets")] == AnswerKind.NONE


def test_figures_of_a_suite_compare_both_kinds_of_queries():
    text = compared(np.linspace(0.5, 1.0, 100), np.array([0.1, 0.2, 0.9, 0.95]))
    assert "caught at 2 % lost 0.500" in text and "caught 0.500, lost 0.000" in text
