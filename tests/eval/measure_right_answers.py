"""How much of what is right reaches each view: a home of one user's turns, checked against right answers.

    .venv/bin/python -m tests.eval.measure_right_answers FOLDER [--lm right|none|set] [--backend neo4j] [--misses]

FOLDER has `turns.jsonl` and `truth.json`, as `palimpsest_eval.testing.right_lm` describes them; a truth also has
`now`, `questions` ([question, right, outdated or null]), `as_of` ([day, question, right]), `profile_has`,
`profile_has_not` and `not_supersedes` ([newer, older], ids of turns). With `right` a server answers every program
rightly from the truth, so that what is missed is lost on the way; with `none` rules alone read the turns; with `set`
the model of PALIMPSEST_LM does. Names of predicates are indicative: subject and object of a fact are checked.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palimpsest.memories.formed import stated_memories
from palimpsest.neo4j_graph.published_graph import load_published
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.query.context.lines import FACT
from palimpsest.query.reader import Reader
from palimpsest.query.request.types import Node
from palimpsest.relations.versions import ended_parts
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.text.words import fold
from palimpsest_eval.testing.fake_lm_server import MODEL, FakeLMServer
from palimpsest_eval.testing.right_lm import RightLm, words_in

COLLECTION = "turns"
_K = 5
_OF_REQUESTS = 3
"""Questions that are also sent over REST and MCP, which answer from the same reader."""
_SAME_EDGE = {"subtopic_of": ("subtopic_of", "part_of")}
_MARKED = re.compile(r"- \([^)]*(?:disputed by|later:|until)")
"""A line of a context that names what was said later."""
_LM_VARIABLES = ("PALIMPSEST_LM", "PALIMPSEST_LABELER")


@dataclass
class Checks:
    """Counts by view, and what was missed."""

    right: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)

    def add(self, view: str, name: str, is_right: bool, found: object = "") -> None:
        """Counts a check."""
        self.total[view] += 1
        self.right[view] += is_right
        if not is_right:
            self.misses.append(f"{view}: {name}" + (f" -> {str(found)[:300]}" if found else ""))

    def table(self) -> str:
        """Returns a line for each view, and one for all."""
        rows = [(view, self.right[view], n) for view, n in self.total.items()]
        rows.append(("all", self.right.total(), self.total.total()))
        return "\n".join(f"{view:12}{right:4} of {n:3}  {right / n:.2f}" for view, right, n in rows)


def build_home(folder: Path, home: Home, by_lm: bool) -> str:
    """Builds the turns of a folder as one collection of conversations; returns their user."""
    corpus = home.path.parent / "corpus" / COLLECTION
    corpus.mkdir(parents=True, exist_ok=True)
    text = (folder / "turns.jsonl").read_text(encoding="utf-8")
    (corpus / "turns.jsonl").write_text(text, encoding="utf-8")
    reads = "both" if by_lm else "rules"
    (corpus / "collection.yaml").write_text(
        f"name: {COLLECTION}\ndescription: conversations\nform: [turn, reflection]\n"
        f"reflection: {reads}\nfacts: {reads}\n"
    )
    home.create()
    run_without_dagster(home, make_plan(home, [corpus.parent]))
    return str(json.loads(text.splitlines()[0])["user_id"])


@contextmanager
def language_model(kind: str, labeler: str, folder: Path) -> Iterator[None]:
    """Sets the environment of a build: no model, the one that is set, or a server that answers rightly."""
    before = {name: os.environ.get(name) for name in _LM_VARIABLES}
    try:
        if kind == "right":
            with FakeLMServer({}, chat=RightLm.of_folder(folder).chat) as server:
                os.environ |= {"PALIMPSEST_LM": f"{MODEL}@{server.url}", "PALIMPSEST_LABELER": labeler}
                yield
        else:
            os.environ["PALIMPSEST_LABELER"] = labeler if kind == "set" else "offline"
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def run_checks(folder: Path, home: Home, user: str, backend: str = "duckdb") -> Checks:
    """Returns the checks of every view of a home, whose published build a graph has too for `neo4j`."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    turns = {t["id"]: t for t in map(json.loads, (folder / "turns.jsonl").read_text(encoding="utf-8").splitlines())}
    checks = Checks()
    with open_home(home.path, backend, count_reads=False) as reader:
        views = _Views(reader, (COLLECTION, user), truth, checks)
        for check in (views.search, views.context, views.as_of, views.profile, views.facts, views.graph):
            check()
        views.timeline()
    _versions(home, truth, turns, checks)
    _over_services(home, user, truth, checks, backend)
    return checks


def is_answered(texts: Sequence[str], right: str, outdated: str | None) -> bool:
    """Returns whether a text has the right answer, and none before it has the outdated one and not the right one."""
    for text in texts:
        if words_in(text, right):
            return True
        if outdated and words_in(text, outdated):
            return False
    return False


@dataclass
class _Views:
    reader: Reader
    scope: tuple[str, str]
    truth: dict[str, Any]
    checks: Checks

    def search(self) -> None:
        for question, right, outdated in self.truth["questions"]:
            found = self.reader.search(question, self.scope, k=_K, now=self.truth["now"])
            texts = [m.text for m in found.memories]
            self.checks.add("search", question, is_answered(texts, right, outdated), texts)

    def context(self) -> None:
        for question, right, outdated in self.truth["questions"]:
            lines = self.reader.search(question, self.scope, k=_K, now=self.truth["now"]).context.splitlines()
            texts = [line for line in lines if line.startswith(FACT) and not _MARKED.match(line)]
            self.checks.add("context", question, is_answered(texts, right, outdated), texts)

    def as_of(self) -> None:
        for day, question, right in self.truth["as_of"]:
            texts = [m.text for m in self.reader.search(question, self.scope, k=_K, as_of=day).memories]
            later = next((r for q, r, _ in self.truth["questions"] if q == question), None)
            self.checks.add("as of", f"{question} {day}", is_answered(texts, right, later), texts)

    def profile(self) -> None:
        lines = [line.text for line in self.reader.profile(self.scope).lines]
        for words in self.truth["profile_has"]:
            self.checks.add("profile", words, any(words_in(line, words) for line in lines), lines)
        for words in self.truth["profile_has_not"]:
            having = [line for line in lines if words_in(line, words)]
            is_right = all(any(words_in(line, right) for right in self.truth["profile_has"]) for line in having)
            self.checks.add("profile", f"no {words}", is_right, having)

    def facts(self) -> None:
        found = self.reader.facts(self.scope).facts(history=True).facts
        for view, key in (("facts now", "facts_now"), ("facts past", "facts_past")):
            for subject, predicate, value in self.truth[key]:
                ends = {(f.subject, f.value, f.is_latest) for f in found if not f.is_negated}
                near = [f"{f.subject} {f.slot} {f.value} {f.is_latest}" for f in found if _is_same(f.value, value)]
                both = [
                    latest
                    for a, b, latest in sorted(ends)
                    if (_is_same(a, subject) and _is_same(b, value)) or (_is_same(b, subject) and _is_same(a, value))
                ]
                is_right = any(both) if key == "facts_now" else bool(both) and not any(both)
                self.checks.add(view, f"{subject} {predicate} {value}", is_right, near)

    def graph(self) -> None:
        page = self.reader.graph_page(self.scope, limit=5000).graph
        names = {n.node_id: n for n in page.nodes}
        edges = [(names[e.source_id], e.type, names[e.target_id]) for e in page.edges if _is_known(e, names)]
        for source, kind, target in self.truth["edges"]:
            near = [(a.name, k, b.name) for a, k, b in edges if _is_named(a, source) and _is_named(b, target)]
            is_right = any(k in _SAME_EDGE.get(kind, (kind,)) for _, k, _ in near)
            self.checks.add("edges", f"{source} {kind} {target}", is_right, near)
        for name, kind in self.truth["nodes"]:
            types = {n.type for n in page.nodes if _is_named(n, name)}
            self.checks.add("nodes", f"{name} is a {kind}", types == {kind}, types)

    def timeline(self) -> None:
        now = {(s, p): o for s, p, o in self.truth["facts_now"]} | {(o, p): s for s, p, o in self.truth["facts_now"]}
        for subject, predicate, value in self.truth["facts_past"]:
            about, past, current = subject, value, now.get((subject, predicate))
            if current is None:
                about, past, current = value, subject, now.get((value, predicate))
            if current is None:
                continue
            lines = [line.text for line in self.reader.graph(self.scope).timeline(about, k=50).lines]
            first = [next((i for i, line in enumerate(lines) if words_in(line, w)), None) for w in (past, current)]
            is_right = None not in first and first == sorted(first)  # type: ignore[type-var]
            self.checks.add("timeline", f"{about}: {past}, then {current}", is_right, lines)


def _is_same(name: str, wanted: str) -> bool:
    return bool(words_in(name, wanted)) or fold(name) == fold(wanted)


def _is_named(node: Node, name: str) -> bool:
    wanted = {fold(name), fold(name).removesuffix("s")}
    return any(fold(n).removesuffix("s") in wanted or fold(n) in wanted for n in (node.name, *node.aliases))


def _is_known(edge: Any, names: dict[str, Node]) -> bool:
    return edge.source_id in names and edge.target_id in names


def _versions(home: Home, truth: dict[str, Any], turns: dict[str, dict[str, str]], checks: Checks) -> None:
    """Checks which turns, or parts of them, newer ones ended."""
    build = published(home)
    assert build is not None
    tables = build.tables(("memories", "versions", "relations", "documents"))
    memories = stated_memories(tables["memories"])
    ids = dict(memories.select("text", "memory_id").iter_rows())
    of_turn = {turn_id: ids[turn["text"]] for turn_id, turn in turns.items()}
    latest = set(tables["versions"].filter("is_latest")["memory_id"])
    parts = ended_parts(memories, tables["relations"], tables["documents"]).select("memory_id", "start", "end").rows()
    for row in truth["supersedes"]:
        older, start = of_turn[row["older"]], turns[row["older"]]["text"].find(row["part"])
        end = start + len(row["part"])
        ended = sum(max(0, min(b, end) - max(a, start)) for i, a, b in parts if i == older)
        is_right = older not in latest or ended >= len(row["part"]) / 2
        checks.add("versions", f"{row['newer']} ends {row['part']!r}", is_right)
    updates = set(tables["relations"].filter(label="UPDATE").select("newer_id", "older_id").rows())
    for newer, older in truth["not_supersedes"]:
        is_right = (of_turn[newer], of_turn[older]) not in updates
        checks.add("versions", f"{newer} leaves {older}", is_right)


def _over_services(home: Home, user: str, truth: dict[str, Any], checks: Checks, backend: str) -> None:
    """Asks some questions over REST and with a tool of MCP."""
    from fastapi.testclient import TestClient

    from palimpsest.serve.app import create_app
    from palimpsest.serve.guard import Identity, make_token
    from palimpsest.serve.mcp_tools import SearchMemory, Tools
    from palimpsest.serve.settings import ServeSettings, TokenSettings

    tokens = TokenSettings(secret="r" * 48)
    app = create_app(home, ServeSettings(tokens), backend)
    client, tools = TestClient(app), Tools(app.state.service, lambda: Identity(user))
    client.headers["Authorization"] = f"Bearer {make_token(tokens, user)}"
    for question, right, outdated in truth["questions"][:_OF_REQUESTS]:
        asked = SearchMemory.model_validate({"query": question, "limit": _K})
        answers = {
            "REST": client.get("/search", params={"q": question, "k": _K}).json(),
            "MCP": tools.call(tools.search_memory, "read", asked).structured_content or {},
        }
        for view, found in answers.items():
            texts = [m["text"] for m in found["memories"]]
            checks.add(view, question, is_answered(texts, right, outdated), texts)
    app.state.service.operations.close()
    app.state.service.reader.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds a home, or reads one, and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="with turns.jsonl and truth.json")
    parser.add_argument("--lm", choices=("right", "none", "set"), default="right", help="which model reads the turns")
    parser.add_argument("--labeler", default="dspy", help="with a model: offline, dspy or cascade")
    parser.add_argument("--backend", choices=("duckdb", "neo4j"), default="duckdb", help="which store answers")
    parser.add_argument("--home", type=Path, help="folder of the home that is built; a temporary one by default")
    parser.add_argument("--misses", action="store_true", help="list what is wrong")
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary, language_model(parsed.lm, parsed.labeler, parsed.folder):
        home = Home(parsed.home or Path(temporary) / "home")
        user = build_home(parsed.folder, home, parsed.lm != "none")
        if parsed.backend == "neo4j":
            load_published(home)
        checks = run_checks(parsed.folder, home, user, parsed.backend)
    misses = [f"miss: {miss}" for miss in checks.misses] if parsed.misses else []
    print(checks.table(), *misses, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
