"""Sidecars: what front matter would say, next to sources that have none."""

import datetime as dt
from pathlib import Path

import pytest

from palimpsest.core.errors import Rejected
from palimpsest.sources.discovery import scan_sources
from palimpsest.sources.extracted import ExtractedDocument
from palimpsest.sources.readers.read_source import read_source
from palimpsest.store.collection_config import load_collection
from palimpsest.store.decisions import Decisions
from tests.small_corpus import write_notes


def read(folder: Path, name: str, text: str, sidecar: str) -> ExtractedDocument:
    (folder / name).write_text(text)
    (folder / f"{name}.meta.yaml").write_text(sidecar)
    return read_source(folder / name, name).documents[0]


def test_a_sidecar_has_the_fields_of_front_matter_and_overrides_the_source_but_not_its_turns(tmp_path) -> None:
    sidecar = (
        "title: Dip readings\ndate: 2026-03-02\nuser_id: ines\nproject_id: wells\ntags: [water]\nsupersedes: old.csv\n"
    )
    found = read(tmp_path, "2020-01-01.csv", "well,depth\nW5,4.1\n", sidecar)
    assert (found.title, found.user_id, found.project_id) == ("Dip readings", "ines", "wells")
    assert found.source_time == dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
    assert found.metadata["tags"] == ["water"] and found.metadata["columns"] == 2
    assert [(r.other_uri, r.label) for r in found.relations] == [("old.csv", "UPDATE")]
    found = read(tmp_path, "a.md", "---\ndate: 2020-01-01\n---\nWords.", "last_updated: 2026-03-02")
    assert found.source_time == dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
    turn = '{"session_id": "s", "user_id": "ann", "speaker": "Ann", "text": "Hello there."}\n'
    found = read(tmp_path, "a.jsonl", turn, "user_id: ines\nproject_id: wells\n")
    assert (found.user_id, found.project_id) == ("ann", "wells")


@pytest.mark.parametrize(
    ("sidecar", "reason"),
    [
        ("date: [", "sidecar a.txt.meta.yaml: not valid YAML: line 1"),
        ("- a list", "sidecar a.txt.meta.yaml: must be a mapping"),
        ("&a [*a]", "not valid YAML|must be a mapping"),
        ("x: " + "y" * 70_000, "longer than 64,000 bytes"),
        ("a: !!python/object/apply:os.system [id]", "not valid YAML"),
    ],
)
def test_a_source_is_not_read_without_the_sidecar_it_has(tmp_path, sidecar: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        read(tmp_path, "a.txt", "Words.", sidecar)


def test_a_sidecar_is_no_source_its_change_is_one_of_its_source_and_one_alone_is_rejected(tmp_path) -> None:
    corpus = write_notes(tmp_path, {"a.txt": "Words.", "b.txt": "Words.", "c.txt.meta.yaml": "date: 2026-03-02"})
    folder = corpus / "notes"
    config = load_collection(folder)

    def state() -> dict[str, str]:
        return {uri: s.content_hash for uri, s in scan_sources(folder, config, Decisions()).items()}

    before = state()
    (folder / "a.txt.meta.yaml").write_text("date: 2026-03-02")
    with_one = state()
    (folder / "a.txt.meta.yaml").write_text("date: 2026-03-03")
    after = state()
    assert set(before) == set(with_one) == set(after) == {"a.txt", "b.txt", "c.txt.meta.yaml"}
    assert len({before["a.txt"], with_one["a.txt"], after["a.txt"]}) == 3 and before["b.txt"] == after["b.txt"]
    with pytest.raises(Rejected, match=r"no file 'c\.txt' is next to it"):
        read_source(folder / "c.txt.meta.yaml", "c.txt.meta.yaml")


def test_the_fields_of_an_enhancement_proposal_lie_beside_its_text_and_a_link_is_not_followed(tmp_path) -> None:
    folder = tmp_path / "sig-mill" / "34-sluice"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Sluice\n\nWords.\n")
    (folder / "kep.yaml").write_text(
        'title: A second sluice\nstatus: replaced\ncreation-date: 2019-01-28\nreplaces:\n  - "/sig-mill/12-dam"\n'
        'superseded-by:\n  - "/sig-mill/41-weir"\n'
    )
    found = read_source(folder / "README.md", "sig-mill/34-sluice/README.md").documents[0]
    assert (found.title, found.source_time) == ("A second sluice", dt.datetime(2019, 1, 28, tzinfo=dt.UTC))
    relations = [("sig-mill/12-dam", "UPDATE"), ("sig-mill/41-weir", "UPDATED_BY")]
    assert [(r.other_uri, r.label) for r in found.relations] == relations
    config = load_collection(write_notes(tmp_path, {}, "sig-mill") / "sig-mill")
    assert list(scan_sources(tmp_path / "sig-mill", config, Decisions())) == ["34-sluice/README.md"]
    (tmp_path / "a.txt").write_text("Words.")
    (tmp_path / "secret.yaml").write_text("title: secret")
    (tmp_path / "a.txt.meta.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(Rejected, match="a link"):
        read_source(tmp_path / "a.txt", "a.txt")
