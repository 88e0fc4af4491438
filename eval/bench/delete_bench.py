"""How long a large delete takes, and what is left: `python -m palimpsest.eval.bench.delete_bench [--memories 5000]`.

Builds a home whose user `mallory` has many memories and an LM ledger that quotes each of them, beside two other users;
deletes `mallory` with the command line and then looks for every canary word, by other means than the proof's: bytes of
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
_STARTED = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_COMMAND = "import sys; from palimpsest.cli.main import main; sys.argv[0] = 'palimpsest'; main()"
_IN_GRAPH = """
MATCH (n {home_id: $home}) WHERE any(key IN keys(n) WHERE toStringOrNull(n[key]) CONTAINS $word) RETURN count(n) AS n"""


@dataclass(frozen=True)
class DeleteFigures:
    """What a delete did: `left` counts canary words that are still in a file, table or node."""

    memories: int
    ledger_rows: int
    delete_s: float
    left: int
    ledger_left: int
    others_unchanged: bool


def canary(number: int) -> str:
    """Returns the word that only one memory of the deleted user holds."""
    return f"zq{number:05d}x"


def measure(memories: int, folder: Path, graph: bool) -> DeleteFigures:
    """Builds, fills the ledger, deletes and looks for what is left."""
    home, corpus = folder / "home", folder / "corpus" / "bench"
    _write_corpus(corpus, memories)
    more = ["--graph"] if graph else []
    _palimpsest("build", "--home", home, "--corpus", corpus.parent, *more)
    rows = _fill_ledger(Home(home), memories)
    before = _rows_of_others(Home(home))
    (corpus / f"{USER}.jsonl").unlink()
    started = time.perf_counter()
    _palimpsest("delete", "--user", USER, "--home", home)
    seconds = time.perf_counter() - started
    words = [canary(i) for i in range(memories)]
    left = _files_left(home, words) + (_nodes_left(home, words[:: max(1, memories // 50)]) if graph else 0)
    ledger = Ledger(Home(home).lm_ledger)
    ledger_left = int(ledger.totals()["calls"])
    ledger.close()
    return DeleteFigures(memories, rows, round(seconds, 1), left, ledger_left, _rows_of_others(Home(home)) == before)


def _palimpsest(*args: object) -> None:
    command = [sys.executable, "-c", _COMMAND, *map(str, args)]
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
                what = f"Locker {canary(i)} holds {i % 97} keys." if user == USER else f"Shelf {i} is of {user}."
                when = (_STARTED + dt.timedelta(minutes=i)).isoformat()
                turn = {"session_id": f"{user}{i // 100}", "user_id": user, "speaker": user, "text": what}
                file.write(json.dumps(turn | {"timestamp": when}) + "\n")


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


def _rows_of_others(home: Home) -> list[tuple[object, ...]]:
    build = published(home)
    assert build is not None
    memories = build.table("bench", "memories").filter(pl.col("user_id") != USER)
    versions = build.table("bench", "versions").select("memory_id", "is_latest")
    return memories.join(versions, on="memory_id").select("memory_id", "text", "is_latest").sort("memory_id").rows()


def _files_left(home: Path, words: Sequence[str]) -> int:
    """Counts canary words in the bytes of files and in the decoded tables."""
    wanted, found = set(words), 0
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if b"zq" in data:
            found += sum(word.encode() in data for word in words)
        if path.suffix == ".parquet":
            text = pl.read_parquet(path).select(pl.selectors.string() | pl.selectors.by_dtype(pl.List(pl.String)))
            found += sum(word in wanted for word in _words(text.write_json()))
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as db:
                for (table,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                    rows = db.execute(
                        f'SELECT t::VARCHAR FROM "{table}" t WHERE contains(t::VARCHAR, $zq)', {"zq": "zq"}
                    )
                    found += sum(word in wanted for (row,) in rows.fetchall() for word in _words(row))
    return found


def _words(text: str) -> set[str]:
    return {text[at : at + len(canary(0))] for at in range(len(text)) if text.startswith("zq", at)}


def _nodes_left(home: Path, words: Sequence[str]) -> int:
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.load_source import home_id

    with connect() as connection:
        asked = ({"home": home_id(Home(home)), "word": word} for word in words)
        return sum(connection.read(_IN_GRAPH, **values)[0]["n"] for values in asked)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures as one JSON object; returns 1 where anything is left."""
    parser = argparse.ArgumentParser(description="Time a delete of a large user and look for what is left.")
    parser.add_argument("--memories", type=int, default=5000)
    parser.add_argument("--graph", action="store_true", help="load Neo4j too, and look there")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="palimpsest-delete-") as folder:
        figures = measure(args.memories, Path(folder), args.graph)
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")
    return int(bool(figures.left or figures.ledger_left or not figures.others_unchanged))


if __name__ == "__main__":
    raise SystemExit(main())
