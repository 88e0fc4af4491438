"""An export may have been changed by anybody: what is wrong in it is one line, and nothing is written."""

import json
import shutil
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.export.import_export import import_export
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from tests.command import run
from tests.export.made import make_export, read_rows, with_own_vectors


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("untrusted")
    make_export(base, shared_vectors)
    return base


def change(out: Path, name: str, edit) -> None:
    value = json.loads((out / name).read_text())
    edit(value)
    (out / name).write_text(json.dumps(value))


def set_document(**fields):
    def edit(sources):
        sources[0]["versions"][0]["documents"][0].update(fields)

    return edit


SOURCES = "collections/papers/sources.json"
HOSTILE = {
    "another user": (SOURCES, set_document(user_id="bob"), "another user"),
    "a path out": (SOURCES, lambda s: s[0].update(uri="../../x"), "another source|no path"),
    "a path out in both": (
        SOURCES,
        lambda s: (s[0].update(uri="../x"), [d.update(uri="../x") for v in s[0]["versions"] for d in v["documents"]]),
        "no path inside",
    ),
    "an operation of somebody": (
        SOURCES,
        lambda s: (
            s[0].update(uri=".inbox/" + "0" * 16 + "-" + "1" * 16 + ".turns.jsonl"),
            [d.update(uri=s[0]["uri"]) for v in s[0]["versions"] for d in v["documents"]],
        ),
        "inbox of another user",
    ),
    "a span out of the text": (SOURCES, set_document(segments=[[0, 10**6, "prose", None, None, None, None]]), "longer"),
    "a kind of nothing": (SOURCES, set_document(segments=[[0, 1, "x", None, None, None, None]]), "unknown kind"),
    "a segment of words": (SOURCES, set_document(segments=[["a", "b", "prose", None, None, None, None]]), "no span"),
    "a NUL": (SOURCES, set_document(text="a\0b", segments=[]), "NUL"),
    "no time": (SOURCES, lambda s: s[0]["versions"][0].update(seen_at="yesterday"), "no time"),
    "a text that is a number": (SOURCES, set_document(text=7), "not of type"),
    "a field too many": (SOURCES, set_document(extra=1), "extra"),
    "a version twice": (SOURCES, lambda s: s[0]["versions"].append(s[0]["versions"][0]), "twice"),
    "a model of another machine": (
        "collections/papers/settings.json",
        lambda s: s["settings"].update(embedder="/tmp/model"),
        "another machine",
    ),
    "a setting that is none": (
        "collections/papers/settings.json",
        lambda s: s["settings"].update(unit="page"),
        "settings.unit|unit",
    ),
    "a page elsewhere": ("export.json", lambda m: m["markdown"][-1].update(file="../../etc/passwd"), "not in markdown"),
    "a page with an escape": (
        "export.json",
        lambda m: m["markdown"][-1].update(file="markdown/\x1b[2J.md"),
        "not in markdown",
    ),
    "another format": ("export.json", lambda m: m.update(format=99), "format 99"),
    "a name out of the folder": ("export.json", lambda m: m.update(collections=["../x"]), "does not match|collections"),
    "a tombstone": (
        "decisions.json",
        lambda d: d.append({"kind": "tombstone", "target": "0" * 16, "at": "2026-01-01"}),
        "decisions.json",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_was_tampered_with_is_one_line_and_writes_nothing(made, tmp_path, shared_vectors, name):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    file, edit, message = HOSTILE[name]
    change(out, file, edit)
    home = Home(tmp_path / "home", shared_vectors)
    with pytest.raises(PalimpsestError, match=message) as e:
        import_export(home, out)
    assert "\n" not in str(e.value)
    assert not home.sources and not list(home.log.glob("*")) and not home.decisions.exists()


def test_no_file_of_the_inbox_is_a_link_or_of_somebody_else(made, tmp_path, shared_vectors):
    out, secret = tmp_path / "out", tmp_path / "secret"
    shutil.copytree(made / "out", out)
    secret.write_text("quixotic")
    mode = secret.stat().st_mode
    (file,) = (out / "inbox" / "chats").iterdir()
    sidecar = file.with_name(f"{file.name}.meta.yaml")
    sidecar.symlink_to(secret)
    with pytest.raises(PalimpsestError, match="is a link"):
        import_export(Home(tmp_path / "home", shared_vectors), out)
    sidecar.unlink()
    file.rename(file.with_name(f"{'0' * 16}-{'1' * 16}.turns.jsonl"))
    with pytest.raises(PalimpsestError, match="is not of user 'ann'"):
        import_export(Home(tmp_path / "home", shared_vectors), out)
    assert secret.stat().st_mode == mode and not list((tmp_path / "home").rglob("*.jsonl"))


def test_what_was_tampered_with_exits_with_2_and_one_line(made, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    change(out, SOURCES, HOSTILE["a path out in both"][1])
    refused = run("import", out, "--home", tmp_path / "home")
    assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1
    assert "no path inside" in refused.stderr


@pytest.mark.parametrize("file", [SOURCES, "export.json", "decisions.json"])
def test_a_link_is_not_followed_and_no_json_is_refused(made, tmp_path, shared_vectors, file):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    home = Home(tmp_path / "home", shared_vectors)
    (out / file).rename(tmp_path / "elsewhere.json")
    (out / file).symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(PalimpsestError, match="is a link"):
        import_export(home, out)
    (out / file).unlink()
    (out / file).write_text("[" * 100_000)
    with pytest.raises(PalimpsestError, match="is no JSON"):
        import_export(home, out)
    assert not home.sources


def test_a_decision_about_another_scope_is_left_out(made, tmp_path, shared_vectors):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    foreign = {"kind": "confirm", "target": "0" * 16, "at": "2026-01-01", "newer_id": "1" * 16, "older_id": "2" * 16}
    graph = next({**r, "user_id": "bob"} for r in read_rows(out, "decisions.json") if r["kind"] == "graph")
    memory = next({**r, "memory_id": "3" * 16} for r in read_rows(out, "decisions.json") if r["kind"] == "memory")
    names = {"kind": "same", "at": "2026-01-01", "scope": ["chats", "bob", ""], "names": ["a", "b"]}
    change(out, "decisions.json", lambda d: d.extend([{**foreign, "label": "UPDATE"}, graph, names, memory]))
    home = Home(tmp_path / "home", shared_vectors)
    change(out, "proposals.json", lambda p: p.append({**p[0], "user_id": "bob"}))
    assert import_export(home, out).decisions == 3
    assert {p.scope[1] for p in read_proposals(home.path).values()} == {"ann"}
    found = read_decisions(home.decisions)
    assert not found.confirmed and not found.same and {d.scope[1] for d in found.graph} == {"ann"}


def test_a_decision_of_another_user_is_neither_taken_back_nor_made(made, tmp_path, shared_vectors):
    out = tmp_path / "out"
    shutil.copytree(made / "out", out)
    home = with_own_vectors(Home(shutil.copytree(made / "home", tmp_path / "copied"), shared_vectors))
    (theirs,) = (p for p in read_proposals(home.path).values() if p.scope[1] == "bob")
    before = read_decisions(home.decisions).memories
    mine = next(r["memory_id"] for r in read_rows(out, "decisions.json") if r["kind"] == "memory")
    undo = {"kind": "memory_undo", "target": theirs.proposal_id, "memory_id": mine, "at": "2026-01-01T00:00:00+00:00"}
    prune = {**undo, "kind": "memory", "action": "prune", "memory_id": theirs.memory_ids[0]}
    change(out, "decisions.json", lambda d: d.extend([undo, prune]))
    change(out, "proposals.json", lambda p: p.append({**p[0], "kind": "prune", "drop": theirs.memory_ids[0]}))
    with pytest.raises(PalimpsestError, match="is no proposal"):
        import_export(Home(tmp_path / "fresh", shared_vectors), out)
    change(out, "proposals.json", lambda p: p.pop())
    import_export(home, out, rename={"chats": "chats2", "papers": "papers2"})
    assert read_decisions(home.decisions).memories == before
