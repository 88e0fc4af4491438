"""Metrics of alias resolution, by hand: five names, two entities in truth."""

import json

import polars as pl
import pytest

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.core.errors import PalimpsestError
from palimpsest.store.home import Home
from palimpsest.store.tables import conform
from palimpsest_eval.studies.aliases import alias_metrics, main, measure_aliases, read_aliases, resolve_names
from tests.small_corpus import write_notes

GOLDEN = [
    {
        "collection": "c",
        "user": "u",
        "entity": "Moreau",
        "names": ["Ansel Moreau", "Ansel", "Tip"],
        "not": ["Ansel Feldt"],
    },
    {"collection": "c", "user": "u", "entity": "boat", "names": ["Kestrel", "KT-20"], "not": []},
]


def tables(*memories_with_names):
    """Each item is (text, {name: entity}): a memory and what its names are."""
    memories = [
        {"memory_id": f"m{i}", "collection": "c", "user_id": "u", "text": t, "title": ""}
        for i, (t, _) in enumerate(memories_with_names)
    ]
    mentions = [
        {
            "memory_id": f"m{i}",
            "entity_id": e,
            "collection": "c",
            "user_id": "u",
            "char_start": t.index(n),
            "char_end": t.index(n) + len(n),
        }
        for i, (t, names) in enumerate(memories_with_names)
        for n, e in names.items()
    ]
    entities = conform("entities", pl.DataFrame([{"entity_id": "e9", "collection": "c", "user_id": "u", "name": "x"}]))
    return {
        "memories": conform("memories", pl.DataFrame(memories)),
        "mentions": conform("mentions", pl.DataFrame(mentions)),
        "entities": entities,
    }


def test_pairs_and_clusters_are_counted_by_hand():
    done = alias_metrics(
        resolve_names(
            GOLDEN,
            tables(
                ("Ansel Moreau and Ansel Feldt", {"Ansel Moreau": "e1", "Ansel Feldt": "e3"}),
                ("Ansel rests", {"Ansel": "e1"}),
                ("Tip rests", {"Tip": "e2"}),
                ("Kestrel", {"Kestrel": "e4"}),
                ("KT-20", {"KT-20": "e4"}),
            ),
        )
    )
    # wanted: 3 pairs of Moreau and 1 of the boat; found: Ansel Moreau = Ansel and Kestrel = KT-20, both right
    assert (done.names, done.precision, done.recall) == (6, 1.0, 0.5)
    assert done.f1 == pytest.approx(2 / 3)
    # B-cubed: precision 1; recall (2/3 + 2/3 + 1/3 + 1 + 1 + 1) / 6 = 7/9
    assert done.b_cubed_f1 == pytest.approx(7 / 8)
    assert done.homonyms_merged == () and len(done.missed) == 2


def test_a_homonym_merged_with_a_name_is_reported():
    merged = tables(("Ansel Moreau and Ansel Feldt", {"Ansel Moreau": "e1", "Ansel Feldt": "e1"}))
    done = alias_metrics(resolve_names(GOLDEN, merged))
    assert done.homonyms_merged == ("c/u: Ansel Feldt | Ansel Moreau",) and done.precision == 0.0


def test_a_name_inside_a_longer_one_is_no_occurrence_and_most_occurrences_decide():
    texts = [("Ansel Moreau sings", {"Ansel Moreau": "e1"}), ("Ansel sings", {"Ansel": "e1"})]
    done = resolve_names(GOLDEN, tables(*texts, ("Ansel rows", {"Ansel": "e1"}), ("Ansel hums", {"Ansel": "e2"})))
    ansel = next(r for r in done if r.name == "Ansel")
    assert (ansel.entity, ansel.occurrences, ansel.mentions) == ("e1", 3, 2)
    assert "c/u: Tip" in alias_metrics(done).unseen


def test_a_real_build_is_measured(tmp_path, shared_vectors, capsys):
    corpus = write_notes(
        tmp_path / "corpus", {"a.md": "We asked Ansel Moreau, who agreed.\n\nIt is by Ansel.\n"}, unit="statement"
    )
    home = Home(tmp_path / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [corpus]))
    golden = tmp_path / "aliases.jsonl"
    golden.write_text(json.dumps(GOLDEN[0] | {"collection": "notes", "user": "shared"}) + "\n")
    assert measure_aliases(home, golden).f1 == 1.0
    assert main(["--home", str(home.path), "--aliases", str(golden), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["homonyms_merged"] == []


def test_what_cannot_be_measured_is_refused(tmp_path, capsys):
    path = tmp_path / "aliases.jsonl"
    path.write_text('{"collection": "c"}\n')
    with pytest.raises(PalimpsestError, match="line 1 needs collection, user, entity, names and not"):
        read_aliases(path)
    assert main(["--home", str(tmp_path / "none"), "--aliases", str(path)]) == 2
    assert "no published build" in capsys.readouterr().err
