"""Pairs of a domain's statements that only share words: what a search proposes most often, and nobody writes down.

Each is a statement with the most similar one, by words, of another group of its domain. Groups have their own subjects,
so it is no UPDATE; which of the other labels it has was not read.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from palimpsest.relations.classify.pairs_file import PairRow
from palimpsest.text.words import content_words, stem_words

_PER_DOMAIN = 60


def mined_pairs(rows: Sequence[PairRow]) -> list[PairRow]:
    """Returns the 60 pairs of each domain that share most, labeled NONE."""
    by_domain: dict[str, list[PairRow]] = defaultdict(list)
    for row in rows:
        by_domain[row["domain"]].append(row)
    return [pair for domain in sorted(by_domain) for pair in _of_domain(domain, by_domain[domain])]


def _of_domain(domain: str, rows: Sequence[PairRow]) -> list[PairRow]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    group_of = {text: row["group"] for row in rows for text in (row["older"], row["newer"])}
    texts = sorted(group_of)
    groups = np.array([group_of[text] for text in texts])
    vectors = TfidfVectorizer(analyzer=_stems).fit_transform(texts)
    similarity = np.round((vectors @ vectors.T).toarray(), 6)
    similarity[groups[:, None] == groups[None, :]] = 0.0
    nearest = similarity.argmax(axis=1)
    closest = np.argsort(-similarity.max(axis=1), kind="stable")[:_PER_DOMAIN]
    return [
        _pair(f"{domain}-mined-{n}", texts[int(nearest[i])], texts[i], domain) for n, i in enumerate(sorted(closest), 1)
    ]


def _pair(pair_id: str, older: str, newer: str, domain: str) -> PairRow:
    return {
        "id": pair_id,
        "older": older,
        "newer": newer,
        "label": "NONE",
        "form": "mined",
        "group": pair_id,
        "domain": domain,
        "split": "train",
        "source": "mined",
    }


def _stems(text: str) -> list[str]:
    return sorted(stem_words(content_words(text)))
