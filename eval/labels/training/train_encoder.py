"""Trains the pair encoder: `python -m palimpsest.eval.labels.training.train_encoder`, about two hours on two cores.

Writes data/models/pair_encoder_N.onnx for each member, and data/models/pair_encoder_held_out.npz: of each training
pair, the mean probabilities of members that did not see its domain, which the trees on top are trained on.
"""

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from palimpsest.core.progress import say
from palimpsest.eval.labels.training.training_pairs import (
    FOLDS,
    class_numbers,
    encoder_pairs,
    first_table_pairs,
    folds,
)
from palimpsest.memories.embed import DIMENSIONS, model_folder
from palimpsest.relations.classify.encoder.held_out import HELD_OUT_FILE, save_held_out
from palimpsest.relations.classify.encoder.pair_encoder import (
    ENCODER_CLASSES,
    GRAPH_FILES,
    MAX_PAIR_TOKENS,
    PairEncoder,
)
from palimpsest.relations.classify.pairs_file import PairRow
from palimpsest.store.home import SHIPPED

_BATCH = 16
_SORTED_BATCHES = 20  # texts of similar length are batched together inside so many batches
_ENCODER_RATE, _HEAD_RATE = 8e-5, 1e-3
_WARM_UP = 0.1
_SMOOTHING = 0.05
_MAX_NORM = 1.0
_OPSET = 17


@dataclass(frozen=True)
class Member:
    """One of the networks whose probabilities are averaged.

    Attributes:
        graph_file: where it is written, in the data folder.
        pairs: returns what it is trained on.
        epochs: how often each pair is read.
    """

    graph_file: str
    pairs: Callable[[], list[PairRow]]
    epochs: int


MEMBERS = (Member(GRAPH_FILES[0], first_table_pairs, 4), Member(GRAPH_FILES[1], encoder_pairs, 6))


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


def train_network(rows: Sequence[PairRow], epochs: int, seed: int = 0) -> _Network:
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
        optimizer, [_ENCODER_RATE, _HEAD_RATE], total_steps=epochs * batches, pct_start=_WARM_UP
    )
    for epoch in range(epochs):
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
        say(f"epoch {epoch + 1} of {epochs}: loss {total / batches:.3f}")
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


def _train_fold(member: Member, k: int) -> np.ndarray:
    """Returns probabilities of the pairs of a member's fold, by a network trained on its other folds."""
    rows = member.pairs()
    fold = np.array(folds(rows))
    say(f"{member.graph_file}: fold {k + 1} of {FOLDS}")
    network = _trained([rows[i] for i in np.flatnonzero(fold != k)], member.epochs)
    return predict(network, [rows[i] for i in np.flatnonzero(fold == k)])


def _train_and_export(member: Member, path: Path) -> None:
    export_graph(_trained(member.pairs(), member.epochs), path)


def _trained(rows: Sequence[PairRow], epochs: int) -> _Network:
    torch.set_num_threads(1)  # sums in one order, and threads that wait for each other cost more than they gain
    return train_network(rows, epochs)


def held_out_probabilities(member: Member, by_fold: Sequence[np.ndarray], graph: bytes) -> np.ndarray:
    """Returns probabilities of `encoder_pairs` by networks of a member that did not see their domain, shape (n, 6).

    Args:
        member: whose networks they are.
        by_fold: what the network of each fold returned of the pairs of that fold.
        graph: of the member, for the pairs that it was not trained on.
    """
    seen = member.pairs()
    fold = np.array(folds(seen))
    found = np.zeros((len(seen), len(ENCODER_CLASSES)), np.float32)
    for k, probabilities in enumerate(by_fold):
        found[fold == k] = probabilities
    probabilities_of = {_texts(row): found[i] for i, row in enumerate(seen)}
    pairs = [_texts(row) for row in encoder_pairs()]
    unseen = [pair for pair in pairs if pair not in probabilities_of]
    probabilities_of |= dict(zip(unseen, PairEncoder((graph,)).predict(unseen), strict=True))
    return np.stack([probabilities_of[pair] for pair in pairs])


def _texts(row: PairRow) -> tuple[str, str]:
    return row["older"], row["newer"]


def main() -> None:
    """Trains and writes all files; the same files from the same pairs on one kind of processor."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=SHIPPED, help="The data folder.")
    out: Path = arguments.parse_args().out
    held_out = []
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as processes:
        for member in MEMBERS:
            exported = processes.submit(_train_and_export, member, out / member.graph_file)
            by_fold = list(processes.map(_train_fold, [member] * FOLDS, range(FOLDS)))
            exported.result()
            held_out.append(held_out_probabilities(member, by_fold, (out / member.graph_file).read_bytes()))
    save_held_out(out / HELD_OUT_FILE, [_texts(row) for row in encoder_pairs()], np.mean(held_out, axis=0))


if __name__ == "__main__":
    main()
