"""How long a large delete takes, and what is left: `python -m palimpsest_eval.studies.delete_time [--memories 5000]`.

Builds a home of three users, of whom `mallory` has many memories and an LM ledger that quotes each of them; deletes
`mallory` with the command line and then searches for every canary word, by other means than the proof: the bytes of
each file, every column of every Parquet table and of the index, and with `--graph` every property in Neo4j.
"""

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import polars as pl

from palimpsest.relations.classify.lm.ledger import Ledger, LmAnswer
from palimpsest.store.builds import published
from palimpsest.store.home import Home

USER = "mallory"
OTHERS = ("olga", "pavel")
_OTHER_MEMORIES = 500
_FIRST_TURN_AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_RUN_CLI = "import sys; from palimpsest.cli.main import main; sys.argv[0] = 'palimpsest'; main()"
_COUNT_NODES_WITH_WORD = """
MATCH (n {home_id: $home}) WHERE any(key IN keys(n) WHERE toStringOrNull(n[key]) CONTAINS $word) RETURN count(n) AS n"""


@dataclass(frozen=True)
class DeleteFigures:
    """A timed delete.

    Attributes:
        memories: of the deleted user.
        ledger_rows: LM answers that quoted them.
        delete_s: seconds of the command.
        left: canary words that are still in a file, table or node.
        ledger_left: LM answers that are still in the ledger.
        others_unchanged: whether the memories and versions of the other users are the same.
    """

    memories: int
    ledger_rows: int
    delete_s: float
    left: int
    ledger_left: int
    others_unchanged: bool


def canary(number: int) -> str:
    """Returns the word that only one memory of the deleted user contains."""
    return f"zq{number:05d}x"


def measure_delete(memories: int, folder: Path, graph: bool) -> DeleteFigures:
    """Builds a home, fills its ledger, deletes a user and counts what is left."""
    home, corpus = folder / "home", folder / "corpus" / "bench"
    _write_corpus(corpus, memories)
    graph_option = ["--graph"] if graph else []
    _run_palimpsest("build", "--home", home, "--corpus", corpus.parent, *graph_option)
    ledger_rows = _fill_ledger(Home(home), memories)
    before = _other_rows(Home(home))
    (corpus / f"{USER}.jsonl").unlink()
    started = time.perf_counter()
    _run_palimpsest("delete", "--user", USER, "--home", home)
    seconds = time.perf_counter() - started
    words = [canary(i) for i in range(memories)]
    left = _count_in_files(home, words) + (_count_in_graph(home, words[:: max(1, memories // 50)]) if graph else 0)
    ledger = Ledger(Home(home).lm_ledger)
    ledger_left = ledger.totals().calls
    ledger.close()
    unchanged = _other_rows(Home(home)) == before
    return DeleteFigures(memories, ledger_rows, round(seconds, 1), left, ledger_left, unchanged)


def _run_palimpsest(*args: object) -> None:
    command = [sys.executable, "-c", _RUN_CLI, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{' '.join(command[3:])}: exit {done.returncode}: {done.stderr.strip()[-500:]}")


def _write_corpus(folder: Path, memories: int) -> None:
    folder.mkdir(parents=True)
    (folder / "collection.yaml").write_text("name: bench\ndescription: a large user\nunit: turn\nuser_id: olga\n")
    sizes = {USER: memories, **dict.fromkeys(OTHERS, _OTHER_MEMORIES)}
    for user, size in sizes.items():
        with (folder / f"{user}.jsonl").open("w", encoding="utf-8") as file:
            for i in range(size):
                text = f"Locker {canary(i)} holds {i % 97} keys." if user == USER else f"Shelf {i} is of {user}."
                time = (_FIRST_TURN_AT + dt.timedelta(minutes=i)).isoformat()
                turn = {"session_id": f"{user}{i // 100}", "user_id": user, "speaker": user, "text": text}
                file.write(json.dumps(turn | {"timestamp": time}) + "\n")


def _fill_ledger(home: Home, memories: int) -> int:
    """Writes an answer that quotes a memory for each memory of the user."""
    build = published(home)
    assert build is not None
    texts = build.table("bench", "memories").filter(user_id=USER).sort("memory_id").select("memory_id", "text").rows()
    ledger = Ledger(home.lm_ledger)
    for number, (memory_id, text) in enumerate(texts[:memories]):
        answer = LmAnswer(json.dumps({"label": "NONE", "quote": text}), 100, 20, 0.0)
        ledger.put(f"{number:016x}", memory_id, texts[number - 1][0], "bench", "bench", answer)
    ledger.close()
    return len(texts)


def _other_rows(home: Home) -> list[tuple[object, ...]]:
    build = published(home)
    assert build is not None
    memories = build.table("bench", "memories").filter(pl.col("user_id") != USER)
    versions = build.table("bench", "versions").select("memory_id", "is_latest")
    return memories.join(versions, on="memory_id").select("memory_id", "text", "is_latest").sort("memory_id").rows()


def _count_in_files(home: Path, words: Sequence[str]) -> int:
    """Counts canary words in the bytes of files and in the decoded tables."""
    canaries, found = set(words), 0
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if b"zq" in data:
            found += sum(word.encode() in data for word in words)
        if path.suffix == ".parquet":
            text = pl.read_parquet(path).select(pl.selectors.string() | pl.selectors.by_dtype(pl.List(pl.String)))
            found += sum(word in canaries for word in _canary_like(text.write_json()))
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as db:
                for (table,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    rows = db.execute(
                        f'SELECT t::VARCHAR FROM "{table}" t WHERE contains(t::VARCHAR, $zq)', {"zq": "zq"}
                    )
                    found += sum(word in canaries for (row,) in rows.fetchall() for word in _canary_like(row))
    return found


def _canary_like(text: str) -> set[str]:
    """Returns every string of the text that has the length and the beginning of a canary word."""
    return {text[at : at + len(canary(0))] for at in range(len(text)) if text.startswith("zq", at)}


def _count_in_graph(home: Path, words: Sequence[str]) -> int:
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.identity import home_id

    with connect() as connection:
        home_key = home_id(Home(home))
        return sum(connection.read(_COUNT_NODES_WITH_WORD, home=home_key, word=word)[0]["n"] for word in words)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures as one JSON object; returns 1 where anything is left."""
    parser = argparse.ArgumentParser(description="Time a delete of a large user and count what is left.")
    parser.add_argument("--memories", type=int, default=5000)
    parser.add_argument("--graph", action="store_true", help="load Neo4j too, and count there")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="palimpsest-delete-") as folder:
        figures = measure_delete(args.memories, Path(folder), args.graph)
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")
    return int(bool(figures.left or figures.ledger_left or not figures.others_unchanged))


if __name__ == "__main__":
    raise SystemExit(main())
