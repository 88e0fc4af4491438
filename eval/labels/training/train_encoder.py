"""Trains the pair encoder: `python -m palimpsest.eval.labels.training.train_encoder`, about 40 minutes on two cores.

Writes data/models/pair_encoder.onnx, trained on all training pairs, and data/models/pair_encoder_held_out.npz: of each
training pair, the probabilities of an encoder that did not see its domain, which the trees on top are trained on.
"""

import argparse
import os
import random
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from palimpsest.core.progress import say
from palimpsest.eval.labels.training.training_pairs import FOLDS, class_numbers, encoder_pairs, folds
from palimpsest.memories.embed import DIMENSIONS, model_folder
from palimpsest.relations.classify.encoder.held_out import HELD_OUT_FILE, save_held_out
from palimpsest.relations.classify.encoder.pair_encoder import ENCODER_CLASSES, GRAPH_FILE, MAX_PAIR_TOKENS
from palimpsest.relations.classify.pairs_file import PairRow
from palimpsest.store.home import SHIPPED

EPOCHS = 4
_BATCH = 16
_SORTED_BATCHES = 20  # texts of similar length are batched together inside so many batches
_ENCODER_RATE, _HEAD_RATE = 8e-5, 1e-3
_WARM_UP = 0.1
_SMOOTHING = 0.05
_MAX_NORM = 1.0
_OPSET = 17


class _Network(torch.nn.Module):
    """MiniLM, and a linear layer over its first state and the mean of its states; word vectors stay as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(model_folder(), add_pooling_layer=False)
        self.dropout = torch.nn.Dropout(0.1)
        self.head = torch.nn.Linear(2 * DIMENSIONS, len(ENCODER_CLASSES))
        self.encoder.embeddings.word_embeddings.weight.requires_grad = False

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        states = self.encoder(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        weights = mask.unsqueeze(-1).float()
        mean = (states * weights).sum(1) / weights.sum(1)
        scores: torch.Tensor = self.head(self.dropout(torch.cat([states[:, 0], mean], -1)))
        return scores


class _Graph(torch.nn.Module):
    """What is exported: one pair without padding, from word vectors to probabilities."""

    def __init__(self, network: _Network):
        super().__init__()
        self.network = network

    def forward(self, word_vectors: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
        states = self.network.encoder(
            inputs_embeds=word_vectors,
            token_type_ids=token_type_ids,
            attention_mask=torch.ones_like(token_type_ids),
        ).last_hidden_state
        return torch.softmax(self.network.head(torch.cat([states[:, 0], states.mean(1)], -1)), -1)


class _Collator:
    def __init__(self, rows: Sequence[PairRow]):
        self._rows = rows
        self._tokenizer = AutoTokenizer.from_pretrained(model_folder())
        self.lengths = [len(r["older"]) + len(r["newer"]) for r in rows]

    def __call__(self, members: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        texts = ([self._rows[i]["older"] for i in members], [self._rows[i]["newer"] for i in members])
        found = self._tokenizer(*texts, truncation=True, max_length=MAX_PAIR_TOKENS, padding=True, return_tensors="pt")
        return found["input_ids"], found["attention_mask"], found["token_type_ids"]


def train_network(rows: Sequence[PairRow], seed: int = 0) -> _Network:
    """Returns the network trained on labeled pairs: cross-entropy with label smoothing, AdamW, one cycle of rates."""
    torch.manual_seed(seed)
    random.seed(seed)
    network = _Network()
    collate = _Collator(rows)
    batches = -(-len(rows) // _BATCH)
    encoder = [p for name, p in network.named_parameters() if p.requires_grad and not name.startswith("head")]
    groups = [{"params": encoder, "lr": _ENCODER_RATE}, {"params": network.head.parameters(), "lr": _HEAD_RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [_ENCODER_RATE, _HEAD_RATE], total_steps=EPOCHS * batches, pct_start=_WARM_UP
    )
    for epoch in range(EPOCHS):
        network.train()
        total = 0.0
        for batch in _shuffled_batches(collate.lengths):
            allowed = torch.full((len(batch), len(ENCODER_CLASSES)), -1e9)
            for at, i in enumerate(batch):
                allowed[at, class_numbers(rows[i])] = 0.0
            logs = torch.log_softmax(network(*collate(batch)), -1)
            right = torch.logsumexp(logs + allowed, -1)
            loss = -((1 - _SMOOTHING) * right + _SMOOTHING * logs.mean(-1)).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), _MAX_NORM)
            optimizer.step()
            schedule.step()
            total += loss.item()
        say(f"epoch {epoch + 1} of {EPOCHS}: loss {total / batches:.3f}")
    return network.eval()


def _shuffled_batches(lengths: Sequence[int]) -> list[list[int]]:
    order = list(range(len(lengths)))
    random.shuffle(order)
    step = _BATCH * _SORTED_BATCHES
    runs = [sorted(order[i : i + step], key=lengths.__getitem__) for i in range(0, len(order), step)]
    batches = [run[i : i + _BATCH] for run in runs for i in range(0, len(run), _BATCH)]
    random.shuffle(batches)
    return batches


def predict(network: _Network, rows: Sequence[PairRow]) -> np.ndarray:
    """Returns probabilities of ENCODER_CLASSES, shape (len(rows), 6)."""
    collate = _Collator(rows)
    out = np.zeros((len(rows), len(ENCODER_CLASSES)), np.float32)
    order = sorted(range(len(rows)), key=collate.lengths.__getitem__)
    with torch.no_grad():
        for start in range(0, len(order), 4 * _BATCH):
            members = order[start : start + 4 * _BATCH]
            out[members] = torch.softmax(network(*collate(members)), -1).numpy()
    return out


def export_graph(network: _Network, path: Path) -> None:
    """Writes the network as int8 ONNX; seven bits a weight, so that processors without VNNI do not overflow."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    example = (torch.randn(1, 40, DIMENSIONS), torch.zeros(1, 40, dtype=torch.long))
    names = ["word_vectors", "token_type_ids"]
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch) / "float.onnx"
        torch.onnx.export(
            _Graph(network),
            example,
            str(exported),
            input_names=names,
            output_names=["probabilities"],
            dynamic_axes={name: {1: "tokens"} for name in names},
            opset_version=_OPSET,
            dynamo=False,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        quantize_dynamic(exported, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def _train_fold(k: int) -> np.ndarray:
    """Returns probabilities of the pairs of a fold, by a network trained on the others."""
    rows = encoder_pairs()
    fold = np.array(folds(rows))
    say(f"fold {k + 1} of {FOLDS}")
    network = _trained([rows[i] for i in np.flatnonzero(fold != k)])
    return predict(network, [rows[i] for i in np.flatnonzero(fold == k)])


def _train_and_export(path: Path) -> None:
    export_graph(_trained(encoder_pairs()), path)


def _trained(rows: Sequence[PairRow]) -> _Network:
    torch.set_num_threads(1)  # sums in one order, and threads that wait for each other cost more than they gain
    return train_network(rows)


def main() -> None:
    """Trains and writes both files; the same files from the same pairs on one kind of processor."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=SHIPPED, help="The data folder.")
    out: Path = arguments.parse_args().out
    rows = encoder_pairs()
    fold = np.array(folds(rows))
    probabilities = np.zeros((len(rows), len(ENCODER_CLASSES)), np.float32)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as processes:
        exported = processes.submit(_train_and_export, out / GRAPH_FILE)
        for k, found in enumerate(processes.map(_train_fold, range(FOLDS))):
            probabilities[fold == k] = found
        exported.result()
    save_held_out(out / HELD_OUT_FILE, [(r["older"], r["newer"]) for r in rows], probabilities)


if __name__ == "__main__":
    main()
