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
from tests.export.made import read_rows, with_own_vectors


def change(out: Path, name: str, edit) -> None:
    value = json.loads((out / name).read_text())
    edit(value)
    (out / name).write_text(json.dumps(value))


def set_document(**fields):
    return lambda sources: sources[0]["versions"][0]["documents"][0].update(fields)


def set_uri(uri):
    """Renames the first source and its documents."""

    def edit(sources):
        sources[0].update(uri=uri)
        [d.update(uri=uri) for v in sources[0]["versions"] for d in v["documents"]]

    return edit


def set_segment(*segment):
    return set_document(segments=[[*segment, None, None, None, None]])


def set_page(file):
    return lambda manifest: manifest["markdown"][-1].update(file=file)


def set_setting(**fields):
    return lambda stored: stored["settings"].update(fields)


SOURCES, SETTINGS = "collections/papers/sources.json", "collections/papers/settings.json"
FOREIGN = f".inbox/{'0' * 16}-{'1' * 16}.turns.jsonl"
TOMBSTONE = {"kind": "tombstone", "target": "0" * 16, "at": "2026-01-01"}
HOSTILE = [
    (SOURCES, set_document(user_id="bob"), "another user"),
    (SOURCES, lambda s: s[0].update(uri="../../x"), "another source|no path"),
    (SOURCES, set_uri("../x"), "no path inside"),
    (SOURCES, set_uri(FOREIGN), "inbox of another user"),
    (SOURCES, set_segment(0, 10**6, "prose"), "longer"),
    (SOURCES, set_segment(0, 1, "x"), "unknown kind"),
    (SOURCES, set_segment("a", "b", "prose"), "no span"),
    (SOURCES, set_document(text="a\0b", segments=[]), "NUL"),
    (SOURCES, lambda s: s[0]["versions"][0].update(seen_at="yesterday"), "no time"),
    (SOURCES, set_document(text=7), "not of type"),
    (SOURCES, set_document(extra=1), "extra"),
    (SOURCES, lambda s: s[0]["versions"].append(s[0]["versions"][0]), "twice"),
    (SETTINGS, set_setting(embedder="/tmp/model"), "another machine"),
    (SETTINGS, set_setting(unit="page"), "settings.unit|unit"),
    ("export.json", set_page("../../etc/passwd"), "not in markdown"),
    ("export.json", set_page("markdown/\x1b[2J.md"), "not in markdown"),
    ("export.json", lambda m: m.update(format=99), "format 99"),
    ("export.json", lambda m: m.update(collections=["../x"]), "does not match|collections"),
    ("decisions.json", lambda d: d.append(TOMBSTONE), "decisions.json"),
]


def test_what_was_tampered_with_is_one_line_and_writes_nothing(out, tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    for file, edit, message in HOSTILE:
        sound = (out / file).read_text()
        change(out, file, edit)
        with pytest.raises(PalimpsestError, match=message) as e:
            import_export(home, out)
        assert "\n" not in str(e.value)
        assert not home.sources and not list(home.log.glob("*")) and not home.decisions.exists()
        (out / file).write_text(sound)
    change(out, SOURCES, set_uri("../x"))
    refused = run("import", out, "--home", tmp_path / "home")
    assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1
    assert "no path inside" in refused.stderr


def test_no_file_of_the_inbox_is_a_link_or_of_somebody_else(out, tmp_path, shared_vectors):
    secret = tmp_path / "secret"
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


def test_a_link_is_not_followed_and_no_json_is_refused(out, tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    for file in (SOURCES, "export.json", "decisions.json"):
        sound = (out / file).read_text()
        (out / file).rename(tmp_path / "elsewhere.json")
        (out / file).symlink_to(tmp_path / "elsewhere.json")
        with pytest.raises(PalimpsestError, match="is a link"):
            import_export(home, out)
        (out / file).unlink()
        (out / file).write_text("[" * 100_000)
        with pytest.raises(PalimpsestError, match="is no JSON"):
            import_export(home, out)
        (out / file).write_text(sound)
    assert not home.sources


def test_a_decision_about_another_scope_is_left_out(out, tmp_path, shared_vectors):
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


def test_a_decision_of_another_user_is_neither_taken_back_nor_made(exported, out, tmp_path, shared_vectors):
    home = with_own_vectors(Home(shutil.copytree(exported / "home", tmp_path / "copied"), shared_vectors))
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
