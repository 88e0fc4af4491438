"""Deciding many relations at once, on a home made by hand: through the command line, in one process."""

import json

import pytest
from click.testing import CliRunner

from palimpsest.cli.main import cli
from palimpsest.core.errors import PalimpsestError
from palimpsest.relations.relation_review import decide
from palimpsest.store.builds import Build, publish
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest
from tests.eval.home import COLLECTION, rows, tables

SCOPE = {"collection": COLLECTION, "user_id": "ana"}
DOUBT = {"confidence": 0.3, "labeler": "offline"}


@pytest.fixture
def home(tmp_path):
    t = tables()
    nearly = json.dumps({"rule": "abstain", "instead_of": "UPDATE"})
    listed = [
        ("r1", "m3", "m1", "UPDATE", "{}", "superseded"),
        ("r2", "m4", "m2", "EXTEND", "{}", None),
        ("r3", "m3", "m2", "NONE", nearly, "disputed"),
        ("r4", "m4", "m1", "NONE", "{}", None),
    ]
    names = ("relation_id", "newer_id", "older_id", "label", "evidence", "consequence")
    t["relations"] = rows("relations", *({**dict(zip(names, r, strict=True)), **SCOPE, **DOUBT} for r in listed))
    home = Home(tmp_path / "home")
    home.create()
    build = Build(home.builds / "000001")
    for name, frame in t.items():
        build.write_table(COLLECTION, name, frame)
    build.write_manifest(BuildManifest(build_id="000001"))
    publish(home, build)
    return home


def call(home, *arguments, **more):
    return CliRunner().invoke(cli, [*arguments, "--home", str(home.path)], **more)


def decided(home):
    return {d.relation_id: d.label for d in read_decisions(home.decisions).relations}


def test_many_relations_are_confirmed_at_once_each_as_what_it_is_or_was_nearly_given(home):
    done = call(home, "confirm", "r1", "r2", "r3", "r1", "--json")
    assert decided(home) == {"r1": "UPDATE", "r2": "EXTEND", "r3": "UPDATE"}
    assert len(home.decisions.read_text().splitlines()) == 3
    report = json.loads(done.stdout.splitlines()[-1])["relations"]
    assert [(r["relation_id"], r["was"], r["label"]) for r in report] == [
        ("r1", "UPDATE", "UPDATE"),
        ("r2", "EXTEND", "EXTEND"),
        ("r3", "NONE", "UPDATE"),
    ]


def test_many_relations_are_undone_at_once(home):
    assert call(home, "undo", "r1", "r2").exit_code == 0
    assert decided(home) == {"r1": "NONE", "r2": "NONE"}


def test_what_review_lists_can_be_piped_into_confirm(home):
    listed = call(home, "review", "--ids")
    assert listed.stdout.split() == ["r1", "r2", "r3"]
    nearly = call(home, "review", "--why", "disputed", "--ids")
    assert nearly.stdout.split() == ["r3"]
    assert call(home, "confirm", "-", input=listed.stdout).exit_code == 0
    assert set(decided(home)) == {"r1", "r2", "r3"}


def test_pair_names_two_memories_in_either_order_together_with_ids(home):
    assert call(home, "confirm", "r2", "--pair", "m1", "m3", "--pair", "m3", "m2", "--as", "EXTEND").exit_code == 0
    assert decided(home) == {"r1": "EXTEND", "r2": "EXTEND", "r3": "EXTEND"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["confirm", "r1", "nonesuch"], "nonesuch: no such relation in this build"),
        (["confirm", "r1", "m3"], "m3: is a memory; name two with --pair"),
        (["undo", "r1", "r4"], "r4: its label is already NONE"),
        (["confirm", "r1", "--pair", "m1", "m5"], "in different scopes"),
        (["confirm"], "name relations by id"),
        (["confirm", "-"], "name relations by id"),
    ],
)
def test_where_one_cannot_be_decided_none_is(home, arguments, message):
    done = call(home, *arguments)
    assert done.exit_code != 0 and message in f"{done.output} {done.exception}"
    assert not home.decisions.exists()


def test_a_label_that_is_none_is_refused(home):
    with pytest.raises(PalimpsestError, match="--as MAYBE"):
        decide(home, "confirm", [("r1",)], "MAYBE")
