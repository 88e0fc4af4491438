"""Documents that supersede each other, small and real."""

import json
import os
from pathlib import Path

import pytest

from palimpsest_eval.studies.superseding import measure_superseding

SUITES = Path(os.environ.get("PALIMPSEST_SUITES") or "../shared/suites")


def write(folder: Path, rows: dict[str, str], stated: list[tuple[str, str, str]]) -> Path:
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps({"_id": i, "text": t}) for i, t in rows.items()))
    keys = ("newer", "older", "label")
    (folder / "relations.jsonl").write_text("\n".join(json.dumps(dict(zip(keys, r, strict=True))) for r in stated))
    return folder


def test_replaced_documents_are_not_latest_and_all_others_are(tmp_path):
    rows = {"p-1": "One is old.", "p-2": "Two replaces one.", "p-3": "---\nrequires: 2\n---\nThree adds to two."}
    done = measure_superseding(write(tmp_path / "s", rows, [("p-2", "p-1", "UPDATE")]))
    assert (done.documents, done.relations, done.replaced) == (3, 2, 1)
    assert (done.still_latest, done.wrongly_retired, done.memories_retired, done.rejects) == (0, 0, 0, 0)


@pytest.mark.suite
@pytest.mark.parametrize("name", ["peps", "eips"])
def test_real_documents_that_were_replaced_are_not_latest_and_all_others_are(name):
    if not (SUITES / name).is_dir():
        pytest.skip(f"{SUITES / name} is not here; PALIMPSEST_SUITES names the suites")
    done = measure_superseding(SUITES / name)
    assert done.replaced and not done.still_latest and not done.wrongly_retired
