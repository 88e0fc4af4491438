"""Input that no command can use ends with one line that names it and the fix, and exit code 2."""

import json
import sys

import polars as pl
import pytest

from palimpsest.cli.main import main
from palimpsest.cli.shared import TimeParam
from palimpsest.pipeline.build_warnings import build_warnings, warning_lines
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest


@pytest.fixture
def fails(monkeypatch, capsys):
    """Runs a command that must end with exit code 2, and returns its error line."""

    def run(*args: object) -> str:
        monkeypatch.setattr(sys, "argv", ["palimpsest", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        err = capsys.readouterr().err
        assert ended.value.code == 2 and err.startswith("palimpsest: ") and err.count("\n") == 1
        return err

    return run


PAIR = {"id": "1", "older": "I live in Porto.", "newer": "I live in Lisbon now."}


@pytest.mark.parametrize("command", [["query", "words"], ["build"], ["verify"], ["scopes"], ["review"], ["gate"]])
def test_a_home_that_is_a_file_is_refused_by_every_command(fails, tmp_path, command) -> None:
    (tmp_path / "file").write_text("Words.")
    assert f"{tmp_path}/file: not a folder; name another" in fails(*command, "--home", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "Words."


def test_a_cost_that_is_no_amount_is_refused(fails, tmp_path) -> None:
    for command in (["build"], ["label"]):
        assert "nan is no amount; write a number such as 0.5" in fails(*command, "--max-cost", "nan")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(PAIR | {"newer_date": "5"}), "newer_date '5' is not an ISO 8601 date; write a date such as"),
        (json.dumps(PAIR | {"older": "\ud800"}), "pair 1: older has half of a surrogate pair"),
        (b"\xff", "not UTF-8; save it as UTF-8"),
        (None, "a folder; name a JSONL file"),
    ],
)
def test_pairs_that_cannot_be_labelled_name_the_file_and_the_fix(fails, tmp_path, content, message) -> None:
    path = tmp_path / "pairs.jsonl"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    error = fails("label", "--pairs", path, "--out", tmp_path / "out.jsonl")
    assert str(path) in error and message in error


@pytest.mark.parametrize(
    ("corpus", "qrels", "message"),
    [
        ('{"_id":"1","text":' + "[" * 5_000 + "]" * 5_000 + "}", "q\t1\t1\n", "corpus.jsonl line 1: not JSON: nested"),
        ('{"_id":"1","text":"a"}', "", "qrels.tsv: no judgement; add a line with query-id, corpus-id and score"),
    ],
)
def test_a_suite_that_cannot_be_run_is_refused_before_it_is_built(fails, tmp_path, corpus, qrels, message) -> None:
    (tmp_path / "corpus.jsonl").write_text(corpus)
    (tmp_path / "queries.jsonl").write_text('{"_id":"q","text":"a"}')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    assert message in fails("suite", tmp_path)


def test_review_refuses_a_collection_or_user_that_the_build_does_not_have(fails, tmp_path) -> None:
    home = home_with_rejects(tmp_path, 1)
    assert "--collection zz: not in this build; it has: notes" in fails("review", "--collection", "zz", "--home", home)
    assert "--user zz: not in this build; it has: none" in fails("review", "--user", "zz", "--home", home)


def test_a_long_list_of_rejects_ends_with_a_count(tmp_path) -> None:
    home = Home(home_with_rejects(tmp_path, 25))
    lines = warning_lines(build_warnings(home, Build(home.builds / "000001")))
    assert len(lines) == 21 and lines[0] == "rejected: notes/0.md: empty" and lines[-1] == "rejected: … and 5 more"


def home_with_rejects(tmp_path, number: int):
    home = Home(tmp_path / "home")
    home.create()
    build = Build(home.builds / "000001")
    rows = [{"uri": f"{n}.md", "stage": "read", "reason": "empty"} for n in range(number)]
    build.write_table("notes", "rejects", pl.DataFrame(rows))
    build.write_manifest(BuildManifest(build_id="000001"))
    (home.path / "published.json").write_text('{"build": "000001"}')
    return home.path


def test_a_new_home_inside_a_home_or_a_collection_is_refused_before_anything_is_made(fails, tmp_path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "format.json").write_text("{}")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "collection.yaml").write_text("name: notes\ndescription: notes\n")
    for parent, what in (("home", "home"), ("notes", "collection")):
        inner = tmp_path / parent / "deep" / "inner"
        assert f"lies inside the {what} {tmp_path / parent}" in fails("remember", "I moved.", "--home", inner)
        assert not (tmp_path / parent / "deep").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["import", "nowhere"], "DIR nowhere: no export.json in it"),
        (["profile", " "], "'USER': is empty; give one"),
        (["query", "where?", "--project", ""], "'--project': is empty; give one, or leave it out"),
        (["query", "where?", "--task", " "], "'--task': is empty"),
        (["query", "where?", "--turn", ""], "'--turn': is empty"),
        (["remember", "I moved.", "--user", ""], "'--user': is empty"),
        (["remember", "I moved.", "--session", ""], "'--session': is empty"),
        (["graph", "node", "add", "Basin", "--project", ""], "'--project': is empty"),
        (["build", "--corpus", ""], "'--corpus': is empty"),
        (["remember", "I moved.", "--date", "yesterday"], "'yesterday' is no time; write one such as 2026-03-01"),
    ],
)
def test_arguments_are_named_as_the_help_names_them(fails, tmp_path, command, message) -> None:
    assert message in fails(*command, "--home", tmp_path / "home")


def test_a_time_may_name_its_zone() -> None:
    found = TimeParam().convert("2026-03-01T10:00:00+02:00", None, None)
    assert found.isoformat() == "2026-03-01T10:00:00+02:00" and TimeParam().convert("2026-03-01T08:00:00Z", None, None)
