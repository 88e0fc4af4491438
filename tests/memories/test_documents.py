"""Relations between documents and checks of their metadata, through real builds of small corpora."""

import itertools
import json

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import open_home
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from tests.small_corpus import write_notes

Corpora = dict[str, dict[str, str]]


@pytest.fixture
def built(tmp_path, shared_vectors):
    """Builds the home of the test from the notes of collections, with settings of their own, again and again."""

    def build(corpora: Corpora, settings: dict[str, dict[str, str]] | None = None) -> Build:
        home = Home(tmp_path / "home", shared_vectors)
        for name, notes in corpora.items():
            write_notes(tmp_path / "corpus", notes, name, **(settings or {}).get(name, {}))
        return run_without_dagster(home, make_plan(home, [tmp_path / "corpus"]))

    return build


def relations(build: Build, collection: str) -> list[tuple[str, str, str]]:
    return build.table(collection, "document_relations").select("newer_uri", "older_uri", "label").rows()


def retired(build: Build, collection: str) -> set[str]:
    rows = build.table(collection, "memories").join(build.table(collection, "versions"), on="memory_id", suffix="_v")
    return set(rows.filter(~rows["is_latest"])["provenance"])


def rejects(build: Build, collection: str) -> list[tuple[str, str, str]]:
    return build.table(collection, "rejects").select("uri", "stage", "reason").rows()


def test_documents_are_named_by_uri_name_or_number_and_a_name_of_several_is_reported(built, capsys):
    def leave(name: str) -> dict[str, str]:
        notes = {"rules/0003-leave.md": "Leave is 20 days.\n", "other/3.md": "Elsewhere.\n"}
        return notes | {"rules/0007-leave.md": f"---\nsupersedes: {name}\n---\nLeave is 25 days.\n"}

    names = ("rules/0003-leave.md", "0003-leave", "3", "./0003-leave.md")
    corpora = {f"c{i}": leave(name) for i, name in enumerate(names)}
    corpora["peps"] = {"a/pep-12.rst": "Twelve.\n", "b/pep-12.rst": "Another twelve.\n"}
    corpora["peps"]["b/pep-20.rst"] = "---\nrequires: 12\n---\nTwenty.\n"
    corpora["plans"] = {"a/plan.md": "One.\n", "b/plan.md": "Two.\n", "c.md": "---\nreplaces: plan\n---\nThree.\n"}
    line = json.dumps({"newer": "eip-2", "older": "eip-1", "label": "UPDATE"})
    corpora["eips"] = {"eip-1.md": "One.\n", "eip-2.md": "Two.\n", "relations.jsonl": line}
    build = built(corpora, {"eips": {"document_relations": "relations.jsonl"}})
    for i, name in enumerate(names):
        assert relations(build, f"c{i}") == [("rules/0007-leave.md", "rules/0003-leave.md", "UPDATE")], name
    assert relations(build, "peps") == [("b/pep-20.rst", "b/pep-12.rst", "EXTEND")], "the adjacent one"
    assert relations(build, "plans") == [] and "c.md UPDATEs plan" in capsys.readouterr().err
    assert relations(build, "eips") == [("eip-2.md", "eip-1.md", "UPDATE")] and retired(build, "eips") == {"eip-1.md"}


def test_metadata_that_breaks_the_schema_is_a_reject_by_file_and_field(built):
    corpora = {
        "plain": {"a.md": "---\nowner: ops\n---\nFine.\n", "b.md": "---\nreview: soon\n---\nNot fine.\n"},
        "apart": {
            "a.md": "---\nowner: ops\ntitle: Plan of May\n---\nFine.\n",
            "b.md": "---\nowner: ops\ntitle: Diary\n---\nNot fine.\n",
            "c.md": "---\ntitle: Plan of June\n---\nNobody owns it.\n",
        },
        "status": {"0001-skua.md": SKUA.format(status="Deprecated")},
    }
    schemas = {
        "plain": "{properties: {owner: {type: string}, review: {type: integer}}, required: [owner]}",
        "apart": "{custom: {required: [owner]}, system: {properties: {title: {pattern: '^Plan'}}}}",
        "status": "{properties: {owner: {type: string}}, additionalProperties: false}",
    }
    build = built(corpora, {name: {"metadata_schema": schema} for name, schema in schemas.items()})
    assert rejects(build, "plain") == [
        ("b.md", "metadata", "metadata: 'owner' is a required property"),
        ("b.md", "metadata", "review: 'soon' is not of type 'integer'"),
    ]
    assert [(uri, reason) for uri, _, reason in rejects(build, "apart")] == [
        ("b.md", "title: 'Diary' does not match '^Plan'"),
        ("c.md", "metadata: 'owner' is a required property"),
    ]
    assert rejects(build, "status") == [], "a status in the text is no field"
    for name in ("plain", "apart"):
        assert build.table(name, "memories")["text"].to_list() == ["Fine."]


def test_a_document_that_comes_to_break_the_schema_keeps_its_last_version_that_did_not(built):
    schema = {"notes": {"metadata_schema": "{properties: {status: {enum: [draft, final]}}}"}}
    first = {"a.md": "---\nstatus: draft\n---\nThe plan is blue.\n", "b.md": "Always fine.\n"}
    built({"notes": first}, schema)
    build = built({"notes": first | {"a.md": "---\nstatus: maybe\n---\nThe plan is red.\n"}}, schema)
    assert sorted(build.table("notes", "memories")["text"]) == ["Always fine.", "The plan is blue."]
    assert build.table("notes", "versions")["is_latest"].all()
    assert [uri for uri, *_ in rejects(build, "notes")] == ["a.md"]


def test_what_was_edited_out_ends_with_the_version_that_left_it_out_whatever_came_later(built, tmp_path):
    texts = {"2026-01-05": "41 metres", "2026-02-05": "42 metres", "2026-03-05": "43 metres"}
    for day, length in texts.items():
        note = f"---\ndate: {day}\n---\nThe bridge is {length} long.\n"
        if day == "2026-03-05":
            note += "\nIt has two lanes.\n"
        build = built({"notes": {"bridge.md": note}})
    memories = build.tables(["memories", "versions", "documents"])
    rows = memories["memories"].join(memories["versions"], on="memory_id", suffix="_version")
    until = {text: str(at)[:10] for text, at in rows.select("text", "valid_until_version").iter_rows()}
    assert until == {
        "The bridge is 41 metres long.": "2026-02-05",
        "The bridge is 42 metres long.": "2026-03-05",
        "The bridge is 43 metres long.\n\nIt has two lanes.": "None",
    }
    with open_home(tmp_path / "home") as reader:
        found = reader.search("How long is the bridge?", reader.resolve_scopes("notes"), as_of="2026-02-20")
        assert [m.text for m in found.memories] == ["The bridge is 42 metres long."]


SKUA = "# 1. Use Skua\n\nDate: 2021-08-10\n\n## Status\n\n{status}\n\n## Decision\n\nOrders go through Skua.\n"
TERN = "# 3. Use Tern\n\nDate: 2023-02-01\n\n## Status\n\n{status}\n\n## Decision\n\nInvoices are printed by Tern.\n"


STATUSES = [
    ("Superseded by [3. Use Tern](0003-tern.md)", "Accepted", True), ("Superseded by Use Tern", "Accepted", True),
    ("Accepted", "Accepted\n\nSupersedes ADR-1", True), ("Superseded by ADR-3", "Accepted\n\nSupersedes ADR-1", True),
    ("Superseded by ADR-3", "Superseded by ADR-1", False), ("Accepted", "Proposed\n\nSupersedes ADR-1", False),
    ("Partly superseded by ADR-3", "Accepted\n\nAmends ADR-1", False), ("Deprecated", "Accepted", False),
]  # fmt: skip


def test_a_status_retires_what_was_replaced_unless_that_is_trusted_more(built, monkeypatch):
    monkeypatch.setenv("PALIMPSEST_CHANGES", "careful")  # the texts alone are not to supersede here
    corpora = {
        f"c{i}": {"0001-skua.md": SKUA.format(status=skua), "0003-tern.md": TERN.format(status=tern)}
        for i, (skua, tern, _) in enumerate(STATUSES)
    }
    trusted = {
        "0001-skua.md": SKUA.format(status="Superseded by ADR-3"),
        "0003-tern.md": "---\ntrust: 0.2\n---\n# Tern\n",
    }
    build = built(corpora | {"trusted": trusted})
    for i, (skua, tern, is_retired) in enumerate(STATUSES):
        assert retired(build, f"c{i}") == ({"0001-skua.md"} if is_retired else set()), (skua, tern)
    assert retired(build, "trusted") == set()


def test_a_question_whether_something_is_in_use_finds_the_status(built, tmp_path):
    fax = "---\nstatus: Deprecated\ndate: 2020-05-04\n---\n# Invoices\n\nThe fax gateway sends invoices to suppliers.\n"
    notes = {"fax.md": fax, "0001-skua.md": SKUA.format(status="Withdrawn"), "b.md": "The mill has a dam.\n"}
    units = ("chunk", "statement")
    built(dict.fromkeys(units, notes), {unit: {"unit": unit} for unit in units})
    questions = {"Is the fax gateway still in use?": "Deprecated", "Is Skua still used?": "Withdrawn"}
    with open_home(tmp_path / "home") as reader:
        for unit, (question, status) in itertools.product(units, questions.items()):
            found = reader.search(question, reader.resolve_scopes(unit))
            assert found.memories[0].is_latest and f"Status: {status}" in (found.memories[0].heading or ""), unit
            assert f", {status}) " in found.context.splitlines()[0]
