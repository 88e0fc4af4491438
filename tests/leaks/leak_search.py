"""Random searches over a canary home: every strategy, history, explain, as-of, `--now`, each filter, and the graph."""

import datetime as dt
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.graph.graph_answer import GraphAnswer, answer_text
from palimpsest.query.reader import Reader
from palimpsest.query.request.strategies import STRATEGIES
from palimpsest.query.request.types import Scope
from palimpsest.query.result import history_text, results_text
from palimpsest.query.scope.backend import Backend
from tests.leaks.canary_home import COLLECTION, FIRST_DAY, NOUNS, TAGS, TYPES, CanaryHome, CanaryOwner

_CANARY = re.compile(r"zq\d+x")
_GRAPH_SHARE = 0.25  # of the searches that read the graph alone
_GRAPH_FILTERS = ("include_hidden", "include_pii")

Filters = Mapping[str, Any]
"""Arguments of `Reader.search` by name."""


@dataclass
class LeakReport:
    """How many searches ran, how many characters they returned, and a line for each leak."""

    searches: int = 0
    texts: int = 0
    leaks: list[str] = field(default_factory=list)


def search_for_leaks(backend: Backend, made: CanaryHome, searches: int, seed: int = 1) -> LeakReport:
    """Runs random searches over a backend that serves a canary home, and finds canaries in all that comes back."""
    rng, reader, report = random.Random(seed), Reader(backend), LeakReport()
    scopes, words = made.scopes, sorted(made.canaries)
    for _ in range(searches):
        scope = rng.choice(scopes)
        searched = [scope] if rng.random() < 0.3 else _readable_scopes(scopes, scope)
        filters = _draw_filters(rng)
        text = f"{rng.choice(NOUNS)} {rng.choice(NOUNS)} {rng.choice(words) if rng.random() < 0.3 else ''}"
        if is_of_graph := rng.random() < _GRAPH_SHARE:
            filters = {name: value for name, value in filters.items() if name in _GRAPH_FILTERS}
        output = (_read_graph if is_of_graph else _search)(reader, text, searched, scope, filters, rng)
        report.searches += 1
        report.texts += len(output)
        for word in sorted(set(_CANARY.findall(output.casefold()))):
            if why := _leak_reason(made.canaries.get(word), searched, filters):
                report.leaks.append(f"{word}: {why}; {'/'.join(scope)} searched {text!r} with {filters}")
    return report


def _readable_scopes(scopes: Sequence[Scope], scope: Scope) -> list[Scope]:
    """Returns the scopes that a search in one reads: the project's and the user's general memory."""
    return [s for s in scopes if s[:2] == scope[:2] and s.project_id in ("", scope.project_id)]


def _draw_filters(rng: random.Random) -> Filters:
    """Draws none, one or two filters."""
    day = (FIRST_DAY + dt.timedelta(days=rng.randrange(0, 130))).date().isoformat()
    values: dict[str, Any] = dict.fromkeys(("since", "until", "as_of", "now"), day)
    values |= {"session": f"s{rng.randrange(3)}", "types": [rng.choice(TYPES)], "tags": [rng.choice(TAGS)]}
    values |= {"include_hidden": True, "include_pii": True}
    return {name: values[name] for name in rng.sample(sorted(values), rng.choice((0, 0, 1, 1, 2)))}


def _search(
    reader: Reader, text: str, searched: list[Scope], scope: Scope, filters: Filters, rng: random.Random
) -> str:
    """Returns all output of one search, errors included; a twentieth names somebody else's project."""
    strategy = rng.choice(["auto", *STRATEGIES])
    options: dict[str, Any] = {"history": rng.random() < 0.4, "explain": rng.random() < 0.5, "hops": rng.randrange(3)}
    options |= {"k": 8, "all_results": True, "subgraph": rng.random() < 0.4}
    try:
        if rng.random() < 0.05:
            reader.resolve_scopes(COLLECTION, scope.user_id, f"not{scope.project_id}")
        found = reader.search(text, searched, strategy=strategy, **filters, **options)
        output = [results_text(found, True), json.dumps(found.to_json()), json.dumps(dict(found.met))]
        return "\n".join([*output, *(history_text(v) for v in found.versions.values())])
    except PalimpsestError as e:
        return str(e)


def _read_graph(
    reader: Reader, text: str, searched: list[Scope], scope: Scope, filters: Filters, rng: random.Random
) -> str:
    """Returns all output of one question over the graph, errors included."""
    try:
        graph = reader.graph(searched, **filters)
        name = f"{text.split()[-1].title()} Ltd"
        questions: list[Callable[[], GraphAnswer]] = [
            lambda: graph.relations(text, k=8),
            lambda: graph.timeline(text, k=8),
            lambda: graph.neighbors(name, 3),
            lambda: graph.node(name),
            lambda: graph.neighbors("database", 4),
        ]
        found = rng.choice(questions)()
        # The names of an answer are words of the question.
        return f"{answer_text(found)}\n{json.dumps(found.to_json() | {'names': []})}"
    except PalimpsestError as e:
        return str(e).replace(repr(name), "").replace(name, "")


def _leak_reason(owner: CanaryOwner | None, searched: Sequence[Scope], filters: Filters) -> str | None:
    """Returns why a canary must not be in the output of a search; None where it may."""
    if owner is None:
        return "belongs to nothing"
    if owner.scope not in searched:
        return f"belongs to {'/'.join(owner.scope)}"
    memory = owner.memory
    if memory is None:
        return None
    day = memory.observed_at.date().isoformat()
    excluded = {
        "session": memory.session_id != filters.get("session", memory.session_id),
        "types": memory.type not in filters.get("types", [memory.type]),
        "tags": memory.tag not in filters.get("tags", [memory.tag]),
        "since": day < filters.get("since", ""),
        "until": day > filters.get("until", "9"),
        "as_of": day > filters.get("as_of", "9"),
        "now": day > filters.get("now", "9"),
        "hidden": not (memory.is_visible or filters.get("include_hidden")),
        "pii": memory.is_pii and not filters.get("include_pii"),
        "retention": memory.is_past_retention,
    }
    reasons = [name for name, is_excluded in excluded.items() if is_excluded]
    return f"left out by {', '.join(reasons)}" if reasons else None
