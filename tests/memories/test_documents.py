"""Relations between documents and checks of their metadata, through real builds of small corpora."""

import json
from pathlib import Path

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import open_home
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from tests.small_corpus import write_notes


def built(base: Path, notes: dict[str, str], **settings: str) -> Build:
    home = Home(base / "home")
    return run_without_dagster(home, make_plan(home, [write_notes(base / "corpus", notes, **settings)]))


def relations(build: Build) -> list[tuple[str, str, str]]:
    columns = ["newer_uri", "older_uri", "label"]
    return build.tables(["document_relations"])["document_relations"].select(columns).rows()


@pytest.mark.parametrize(
    "name", ["rules/0003-leave.md", pytest.param("0003-leave", marks=pytest.mark.slow), "3", "./0003-leave.md"]
)
def test_a_document_is_named_by_uri_name_or_number(tmp_path, name):
    notes = {"rules/0003-leave.md": "Leave is 20 days.\n", "other/3.md": "Elsewhere.\n"}
    notes["rules/0007-leave.md"] = f"---\nsupersedes: {name}\n---\nLeave is 25 days.\n"
    assert relations(built(tmp_path, notes)) == [("rules/0007-leave.md", "rules/0003-leave.md", "UPDATE")]


def test_a_number_means_the_adjacent_document(tmp_path):
    notes = {"a/pep-12.rst": "Twelve.\n", "b/pep-12.rst": "Another twelve.\n"}
    notes["b/pep-20.rst"] = "---\nrequires: 12\n---\nTwenty.\n"
    assert relations(built(tmp_path, notes)) == [("b/pep-20.rst", "b/pep-12.rst", "EXTEND")]


def test_a_name_of_several_documents_resolves_to_none_and_is_reported(tmp_path, capsys):
    notes = {"a/plan.md": "One.\n", "b/plan.md": "Two.\n", "c.md": "---\nreplaces: plan\n---\nThree.\n"}
    assert relations(built(tmp_path, notes)) == []
    assert "c.md UPDATEs plan" in capsys.readouterr().err


def test_the_file_of_relations_names_documents_in_the_same_ways(tmp_path):
    notes = {"eip-1.md": "One.\n", "eip-2.md": "Two.\n"}
    write_notes(
        tmp_path / "corpus", {"relations.jsonl": json.dumps({"newer": "eip-2", "older": "eip-1", "label": "UPDATE"})}
    )
    build = built(tmp_path, notes, document_relations="relations.jsonl")
    assert relations(build) == [("eip-2.md", "eip-1.md", "UPDATE")]
    latest = build.tables(["memories", "versions"])
    retired = latest["versions"].filter(~latest["versions"]["is_latest"])["memory_id"]
    assert latest["memories"].filter(latest["memories"]["memory_id"].is_in(retired))["text"].to_list() == ["One."]


def test_metadata_that_breaks_the_schema_is_a_reject_by_file_and_field(tmp_path):
    schema = "{properties: {owner: {type: string}, review: {type: integer}}, required: [owner]}"
    notes = {"a.md": "---\nowner: ops\n---\nFine.\n", "b.md": "---\nreview: soon\n---\nNot fine.\n"}
    build = built(tmp_path, notes, metadata_schema=schema)
    rows = build.tables(["rejects"])["rejects"].select("uri", "stage", "reason").rows()
    assert rows == [
        ("b.md", "metadata", "metadata: 'owner' is a required property"),
        ("b.md", "metadata", "review: 'soon' is not of type 'integer'"),
    ]
    assert build.tables(["memories"])["memories"]["text"].to_list() == ["Fine."]


def test_a_document_that_comes_to_break_the_schema_keeps_its_last_version_that_did_not(tmp_path):
    schema = "{properties: {status: {enum: [draft, final]}}}"
    first = {"a.md": "---\nstatus: draft\n---\nThe plan is blue.\n", "b.md": "Always fine.\n"}
    built(tmp_path, first, metadata_schema=schema)
    second = first | {"a.md": "---\nstatus: maybe\n---\nThe plan is red.\n"}
    build = built(tmp_path, second, metadata_schema=schema)
    tables = build.tables(["memories", "versions", "rejects"])
    assert sorted(tables["memories"]["text"]) == ["Always fine.", "The plan is blue."]
    assert tables["versions"]["is_latest"].all()
    assert tables["rejects"]["uri"].to_list() == ["a.md"]


def test_a_schema_can_judge_the_stated_and_the_derived_fields_apart(tmp_path):
    schema = "{custom: {required: [owner]}, system: {properties: {title: {pattern: '^Plan'}}}}"
    notes = {
        "a.md": "---\nowner: ops\ntitle: Plan of May\n---\nFine.\n",
        "b.md": "---\nowner: ops\ntitle: Diary\n---\nNot fine.\n",
        "c.md": "---\ntitle: Plan of June\n---\nNobody owns it.\n",
    }
    build = built(tmp_path, notes, metadata_schema=schema)
    tables = build.tables(["memories", "rejects"])
    assert tables["memories"]["text"].to_list() == ["Fine."]
    assert tables["rejects"].select("uri", "reason").rows() == [
        ("b.md", "title: 'Diary' does not match '^Plan'"),
        ("c.md", "metadata: 'owner' is a required property"),
    ]


def test_what_was_edited_out_ends_with_the_version_that_left_it_out_whatever_came_later(tmp_path):
    texts = {"2026-01-05": "41 metres", "2026-02-05": "42 metres", "2026-03-05": "43 metres"}
    for day, length in texts.items():
        note = f"---\ndate: {day}\n---\nThe bridge is {length} long.\n"
        if day == "2026-03-05":
            note += "\nIt has two lanes.\n"
        build = built(tmp_path, {"bridge.md": note})
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


def retired_uris(build: Build) -> set[str]:
    tables = build.tables(["memories", "versions"])
    rows = tables["memories"].join(tables["versions"], on="memory_id", suffix="_version")
    return set(rows.filter(~rows["is_latest"])["provenance"])


@pytest.mark.parametrize(
    ("skua", "tern", "retired"),
    [
        ("Superseded by [3. Use Tern](0003-tern.md)", "Accepted", {"0001-skua.md"}),
        ("Superseded by Use Tern", "Accepted", {"0001-skua.md"}),
        ("Accepted", "Accepted\n\nSupersedes ADR-1", {"0001-skua.md"}),
        ("Superseded by ADR-3", "Accepted\n\nSupersedes ADR-1", {"0001-skua.md"}),
        ("Superseded by ADR-3", "Superseded by ADR-1", set()),
        ("Accepted", "Proposed\n\nSupersedes ADR-1", set()),
        ("Partly superseded by ADR-3", "Accepted\n\nAmends ADR-1", set()),
        ("Deprecated", "Accepted", set()),
    ],
)
def test_a_status_retires_what_was_replaced(tmp_path, monkeypatch, skua, tern, retired):
    monkeypatch.setenv("PALIMPSEST_CHANGES", "careful")  # the texts alone are not to supersede here
    notes = {"0001-skua.md": SKUA.format(status=skua), "0003-tern.md": TERN.format(status=tern)}
    assert retired_uris(built(tmp_path, notes)) == retired


def test_a_status_retires_nothing_that_is_trusted_more(tmp_path):
    notes = {
        "0001-skua.md": SKUA.format(status="Superseded by ADR-3"),
        "0003-tern.md": "---\ntrust: 0.2\n---\n# Tern\n",
    }
    assert retired_uris(built(tmp_path, notes)) == set()


def test_a_status_in_the_text_is_no_field_of_the_schema(tmp_path):
    schema = "{properties: {owner: {type: string}}, additionalProperties: false}"
    build = built(tmp_path, {"0001-skua.md": SKUA.format(status="Deprecated")}, metadata_schema=schema)
    assert build.tables(["rejects"])["rejects"].is_empty()


@pytest.mark.parametrize("unit", ["chunk", "statement"])
def test_a_question_whether_something_is_in_use_finds_the_status(tmp_path, unit):
    fax = "---\nstatus: Deprecated\ndate: 2020-05-04\n---\n# Invoices\n\nThe fax gateway sends invoices to suppliers.\n"
    built(
        tmp_path,
        {"fax.md": fax, "0001-skua.md": SKUA.format(status="Withdrawn"), "b.md": "The mill has a dam.\n"},
        unit=unit,
    )
    with open_home(tmp_path / "home") as reader:
        for question, status in (
            ("Is the fax gateway still in use?", "Deprecated"),
            ("Is Skua still used?", "Withdrawn"),
        ):
            found = reader.search(question, reader.resolve_scopes("notes"))
            assert found.memories[0].is_latest and f"Status: {status}" in (found.memories[0].heading or "")
            assert f", {status}) " in found.context.splitlines()[0]
