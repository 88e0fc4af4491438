"""Trains the labeler that comes with Palimpsest: `python -m palimpsest.eval.labels.training.train_labeler`, minutes.

Run after `train_encoder`. Writes data/models/relation_labeler.npz, and data/models/figures.json with the figures of its
card: of pairs whose domain, property or group was held out from the encoder and from the trees.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from palimpsest.core.files import write_json
from palimpsest.core.json_types import JsonObject
from palimpsest.eval.labels.label_metrics import label_metrics, metrics_by, predictions
from palimpsest.eval.labels.training.training_pairs import training_pairs
from palimpsest.relations.classify.model.shipped_model import LABELER_FILE
from palimpsest.relations.classify.model.train_on_pairs import TrainedOnPairs, train_on_pairs
from palimpsest.relations.classify.offline_labeler import OfflineLabeler
from palimpsest.relations.classify.pairs_file import PairRow
from palimpsest.store.home import SHIPPED

FIGURES_FILE = "models/figures.json"


def held_out_figures(trained: TrainedOnPairs) -> JsonObject:
    """Returns the figures of the training pairs while they were held out: by source, and by domain and form.

    Mined pairs are apart: nobody read them, and they are easier than what people wrote to look like a change.
    """
    results = OfflineLabeler(trained.model).label_prepared(trained.batch, trained.held_out)
    judged = predictions(trained.rows, results)
    sources = [_set_of(row) for row in trained.rows]
    figures: JsonObject = {}
    for source in sorted(set(sources)):
        members = [p for p, s in zip(judged, sources, strict=True) if s == source]
        figures[source] = label_metrics(members).to_json()
    written = [i for i, s in enumerate(sources) if s == "domains"]
    for field in ("domain", "form"):
        names = [str(trained.rows[i].get(field)) for i in written]
        found = metrics_by([judged[i] for i in written], names)
        figures[f"by_{field}"] = {name: asdict(metrics) for name, metrics in found.items()}
    return figures


def _set_of(row: PairRow) -> str:
    if row.get("source") in ("facts", "mined"):
        return row["source"]
    return "domains" if "domain" in row else "golden"


def main() -> None:
    """Trains and writes; the same files from the same pairs, code and libraries."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=SHIPPED, help="The data folder.")
    out: Path = arguments.parse_args().out
    trained = train_on_pairs(training_pairs())
    trained.model.save(out / LABELER_FILE)
    write_json(out / FIGURES_FILE, held_out_figures(trained))


if __name__ == "__main__":
    main()
