"""Trains chooser and judge: `python -m palimpsest_eval.training.train_change_encoder --base FOLDER --out FILE`.

Reads data/golden/worlds and data/golden/pairs; with --temporal FOLDER also Temporal NLI (T. Hosokawa, A. Jatowt,
K. Sugiyama, ECIR 2023, CC BY 4.0), of which the last fold stays unread. Writes the weights now and then, so that a
long training can be continued with --init, and at the end the graph; `calibrate` then fits probabilities to both.
"""

import argparse
import gzip
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModel, BertModel

from palimpsest.core.files import SHIPPED, say, write_bytes
from palimpsest.relations.labelers.change_encoder import (
    CHOOSER_FILE,
    OUTPUTS,
    PAIR_CLASSES,
    ChangeInput,
    Statement,
    build_input,
)
from palimpsest.text.tokenizer import tokenizer
from palimpsest_eval.training.base_model import in_bytes, scale_rows, states_of
from palimpsest_eval.training.training_pairs import class_numbers, training_pairs
from palimpsest_eval.training.weights import model_folder
from palimpsest_eval.training.worlds import ChangeList, ListMaker, embed_texts, load_worlds

_BATCH_TOKENS = 3000
_SORTED = 400  # examples that are sorted by length together
_ENCODER_RATE, _HEAD_RATE = 6e-5, 8e-4
_WARM_UP, _MAX_NORM = 0.08, 1.0
_CLASS_WEIGHT, _SPAN_WEIGHT = 0.5, 0.3
_NONE_SHARE = 0.45
_OPSET = 17
_BERT_WORDS, _CLS, _SEP = 30522, 101, 102
_NOT_UPDATE = list(range(1, len(PAIR_CLASSES)))


@dataclass(frozen=True)
class Example:
    """An input with what is right of it.

    Attributes:
        given: the input.
        right: place of the statement that ends, None for none.
        chooses: whether `right` counts: of Temporal NLI only the classes do.
        classes: of each older statement the classes that it may have.
        weight: of the classes.
        part: (start, end) in the text of the right statement, None for all of it.
    """

    given: ChangeInput
    right: int | None
    chooses: bool
    classes: Sequence[Sequence[int]]
    weight: float
    part: tuple[int, int] | None = None


class Network(torch.nn.Module):
    """A transformer and, over the mean of each older statement, of the newer one and the first state, three outputs."""

    def __init__(self, base: Path, frozen: int = 0):
        super().__init__()
        self.enc = AutoModel.from_pretrained(base, add_pooling_layer=False)
        if self.enc.config.model_type == "mpnet":
            _number_as_bert(self.enc)
        self.has_types = getattr(self.enc.config, "type_vocab_size", 0) > 1
        size = self.enc.config.hidden_size
        self.drop = torch.nn.Dropout(0.1)
        self.mix = torch.nn.Linear(3 * size, size)
        self.head = torch.nn.Linear(size, 1 + len(PAIR_CLASSES))
        self.span = torch.nn.Linear(size, 1)
        self.enc.embeddings.word_embeddings.weight.requires_grad = False
        if frozen:
            for part in (self.enc.embeddings, *self.enc.encoder.layer[:frozen]):
                part.requires_grad_(False)

    def states(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """Returns the states of all tokens, (batch, tokens, hidden)."""
        kinds = {"token_type_ids": types} if self.has_types else {}
        found: torch.Tensor = self.enc(input_ids=ids, attention_mask=mask, **kinds).last_hidden_state
        return found

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor, pools: "Pools"
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns scores (rows,), logits of classes (rows, 6) and of outdated tokens (batch, tokens)."""
        states = self.states(ids, mask, types)
        of = states[pools.member]
        older, newer = (torch.einsum("rl,rld->rd", weights, of) for weights in (pools.older, pools.newer))
        features = torch.nn.functional.gelu(self.mix(self.drop(torch.cat([older, newer, of[:, 0]], -1))))
        out = self.head(features)
        return out[:, 0], out[:, 1:], self.span(states)[..., 0]


def _number_as_bert(encoder: torch.nn.Module) -> None:
    """Numbers the words of an MPNet as BERT does, so that one tokenizer serves every encoder."""
    table = encoder.embeddings.word_embeddings.weight  # type: ignore[union-attr]
    rows = torch.arange(_BERT_WORDS) + len(table) - 1 - _BERT_WORDS  # type: ignore[arg-type]
    rows[[_CLS, _SEP]] = torch.tensor([0, 2])
    encoder.embeddings.word_embeddings = torch.nn.Embedding.from_pretrained(table[rows])  # type: ignore[index,union-attr]


@dataclass(frozen=True)
class Pools:
    """Weights of tokens for each older statement of a batch, and which member of the batch it belongs to."""

    older: torch.Tensor
    newer: torch.Tensor
    member: torch.Tensor


class Graph(torch.nn.Module):
    """What is exported: one input without padding."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network

    def forward(
        self, input_ids: torch.Tensor, token_type_ids: torch.Tensor, older: torch.Tensor, newer: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns scores, log probabilities of classes, logits of outdated tokens, and features."""
        net = self.network
        if isinstance(net.enc, BertModel):
            states = states_of(net.enc, input_ids, token_type_ids)
        else:
            states = net.states(input_ids, torch.ones_like(input_ids), token_type_ids)
        means = older @ states
        rest = torch.cat([newer @ states, states[:, :1]], -1).expand(-1, means.shape[1], -1)
        features = torch.nn.functional.gelu(net.mix(torch.cat([means, rest], -1)))
        out = net.head(features)[0]
        return out[:, 0], torch.log_softmax(out[:, 1:], -1), net.span(states)[0, :, 0], features[0]


def collate(inputs: Sequence[ChangeInput]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Pools, list[range]]:
    """Returns ids, mask, types, pools and the rows of each member."""
    length = max(len(x.ids) for x in inputs)
    ids, mask, types = (torch.zeros(len(inputs), length, dtype=torch.long) for _ in range(3))
    older = torch.zeros(sum(len(x.slots) for x in inputs), length)
    newer, member = torch.zeros_like(older), torch.zeros(len(older), dtype=torch.long)
    rows, at = [], 0
    for b, given in enumerate(inputs):
        n = len(given.ids)
        ids[b, :n], types[b, :n], mask[b, :n] = torch.tensor(given.ids), torch.tensor(given.types), 1
        of_older, of_newer = given.pools()
        span = range(at, at + len(given.slots))
        older[at : span.stop, :n], newer[at : span.stop, :n] = torch.tensor(of_older), torch.tensor(of_newer)
        member[at : span.stop] = b
        rows.append(span)
        at = span.stop
    return ids, mask, types, Pools(older, newer, member), rows


class Examples:
    """All that one epoch is made of."""

    def __init__(self, maker: ListMaker, tokenizer: Tokenizer, temporal: Path | None, temporal_count: int, seed: int):
        self._maker, self._tokenizer, self.rng = maker, tokenizer, random.Random(seed)  # noqa: S311
        self._pairs = training_pairs()
        self._temporal = _temporal_pairs(temporal) if temporal else []
        self._temporal_count = min(temporal_count, len(self._temporal))

    def batches(self) -> list[list[Example]]:
        """Returns the batches of one epoch: similar lengths together, in random order."""
        drawn = [*self._lists(), *self._of_pairs(), *self._of_temporal()]
        self.rng.shuffle(drawn)
        out: list[list[Example]] = []
        for start in range(0, len(drawn), _SORTED):
            batch: list[Example] = []
            for example in sorted(drawn[start : start + _SORTED], key=lambda e: len(e.given.ids)):
                if batch and len(example.given.ids) * (len(batch) + 1) > _BATCH_TOKENS:
                    out.append(batch)
                    batch = []
                batch.append(example)
            out += [batch] if batch else []
        self.rng.shuffle(out)
        return out

    def _lists(self) -> Iterator[Example]:
        for world, newer in self._maker.examples(self.rng, _NONE_SHARE):
            yield self._of_list(self._maker.training_list(world, newer, self.rng))

    def _of_list(self, given: ChangeList) -> Example:
        classes = [[0] if i == given.right else _NOT_UPDATE for i in range(len(given.older))]
        read = build_input(self._tokenizer, given.newer, given.older)
        return Example(read, given.right, True, classes, 0.5, given.part)

    def _of_pairs(self) -> Iterator[Example]:
        for row in self._pairs:
            older = [(Statement(row["older"]), class_numbers(row), True)]
            if self.rng.random() < 0.4:  # statements of other groups: what a build finds beside it
                for other in self.rng.sample(self._pairs, self.rng.randint(1, 3)):
                    if other.get("group") != row.get("group"):
                        older.append((Statement(other["older"]), [4], False))
                self.rng.shuffle(older)
            right = next(i for i, (_, _, is_own) in enumerate(older) if is_own)
            given = build_input(self._tokenizer, Statement(row["newer"]), [s for s, _, _ in older])
            yield Example(given, right if row["label"] == "UPDATE" else None, True, [c for _, c, _ in older], 1.0)

    def _of_temporal(self) -> Iterator[Example]:
        for label, earlier, later in self.rng.sample(self._temporal, self._temporal_count):
            given = build_input(self._tokenizer, Statement(later), [Statement(earlier)])
            yield Example(given, None, False, [[0] if label == "Invalidate" else _NOT_UPDATE], 0.5)


def _temporal_pairs(folder: Path) -> list[tuple[str, str, str]]:
    lines = [
        line for path in sorted(folder.glob("fold*.tsv"))[:-1] for line in path.read_text("utf-8").splitlines()[1:]
    ]
    parts = [line.split("\t") for line in lines]
    return [(p[0], p[1], p[2]) for p in parts if len(p) == 3]


def loss_of(network: Network, batch: Sequence[Example]) -> torch.Tensor:
    """Returns the loss: which statement or none, the classes, and the outdated tokens of the one that ends."""
    ids, mask, types, pools, rows = collate([e.given for e in batch])
    scores, logits, spans = network(ids, mask, types, pools)
    cross = torch.nn.functional.cross_entropy
    choices, parts = [], []
    allowed = torch.full_like(logits, -1e9)
    weights = torch.zeros(len(logits))
    for b, (example, span) in enumerate(zip(batch, rows, strict=True)):
        if example.chooses:
            with_none = torch.cat([torch.zeros(1), scores[span.start : span.stop]])
            target = torch.tensor([0 if example.right is None else example.right + 1])
            choices.append(cross(with_none[None], target, label_smoothing=0.02))
        for row, classes in zip(span, example.classes, strict=True):
            allowed[row, list(classes)] = 0.0
            weights[row] = example.weight * (0.5 if len(span) > 1 and 0 not in classes else 1.0)
        if example.right is not None:
            parts += _part_loss(example, spans[b])
    logs = torch.log_softmax(logits, -1)
    of_class = -(0.95 * torch.logsumexp(logs + allowed, -1) + 0.05 * logs.mean(-1))
    total = _CLASS_WEIGHT * (of_class * weights).sum() / weights.sum()
    total = total + (torch.stack(choices).mean() if choices else 0.0)
    return total + (_SPAN_WEIGHT * torch.stack(parts).mean() if parts else 0.0)


def _part_loss(example: Example, logits: torch.Tensor) -> list[torch.Tensor]:
    slot = example.given.slots[example.right or 0]
    own = torch.tensor([start >= 0 for start, _ in slot.chars], dtype=torch.bool)
    if not own.any():
        return []
    part = example.part or (0, 10**9)
    target = torch.tensor([float(s < part[1] and e > part[0]) for s, e in slot.chars])
    found = logits[slot.start : slot.end]
    return [torch.nn.functional.binary_cross_entropy_with_logits(found[own], target[own])]


def train(network: Network, examples: Examples, epochs: float, save: Path, rate: float = 1.0) -> None:
    """Trains the network: AdamW, one cycle of rates, which `rate` multiplies; writes `save` now and then."""
    batches = examples.batches()
    total, step, started = int(epochs * len(batches)), 0, time.perf_counter()
    heads = ("head", "span", "mix")
    groups = [
        {"params": [p for n, p in network.named_parameters() if p.requires_grad and not n.startswith(heads)]},
        {"params": [p for n, p in network.named_parameters() if n.startswith(heads)]},
    ]
    optimizer = torch.optim.AdamW(groups, lr=_ENCODER_RATE, weight_decay=0.01)
    rates = [_ENCODER_RATE * rate, _HEAD_RATE * rate]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=total + 2, pct_start=_WARM_UP)
    network.train()
    losses: list[float] = []
    while step < total:
        for batch in batches:
            loss = loss_of(network, batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), _MAX_NORM)
            optimizer.step()
            schedule.step()
            step += 1
            losses.append(loss.item())
            if step % 50 == 0:
                say(f"step {step} of {total}: loss {np.mean(losses[-50:]):.3f}, {time.perf_counter() - started:.0f} s")
            if step % 500 == 0:
                torch.save(network.state_dict(), save)
            if step >= total:
                break
        batches = examples.batches()
    torch.save(network.state_dict(), save)
    network.eval()


def export_graph(network: Network, path: Path, bits: int = 7) -> None:
    """Writes the network as ONNX with whole numbers for weights.

    Args:
        network: what is exported.
        path: of the file.
        bits: of a weight, in eight: 7 at most, so that processors without VNNI do not overflow.
    """
    _round_weights(network, bits)
    given = build_input(
        tokenizer(), Statement("I moved to Porto."), [Statement("I live in Lisbon."), Statement("I own a car.")]
    )
    older, newer = given.pools()
    example = (torch.tensor([given.ids]), torch.tensor([given.types]), torch.tensor(older), torch.tensor(newer))
    axes = {
        "input_ids": {1: "tokens"},
        "token_type_ids": {1: "tokens"},
        "older": {0: "rows", 1: "tokens"},
        "newer": {1: "tokens"},
    }
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch) / "float.onnx"
        torch.onnx.export(
            Graph(network).eval(),
            example,
            str(exported),
            input_names=list(axes),
            output_names=list(OUTPUTS),
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        graph = in_bytes(scale_rows(exported))
    write_bytes(path, gzip.compress(graph, mtime=0) if path.suffix == ".gz" else graph)


def _round_weights(network: Network, bits: int) -> None:
    """Rounds the weights of every output of the layers to so many bits: a compressed graph is the smaller for it."""
    most = 2 ** (bits - 1) - 1
    for module in network.enc.encoder.modules():
        if isinstance(module, torch.nn.Linear):
            scale = module.weight.abs().amax(1, keepdim=True).clamp(min=1e-8) / most
            module.weight.data = torch.round(module.weight / scale) * scale


def main() -> None:
    """Trains and exports."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--base", type=Path, default=model_folder(), help="Folder of the transformer to start from.")
    arguments.add_argument("--out", type=Path, default=SHIPPED / CHOOSER_FILE, help="The graph that is written.")
    arguments.add_argument("--weights", type=Path, default=Path("build/change_encoder.pt"), help="Weights so far.")
    arguments.add_argument("--init", type=Path, help="Weights to continue from.")
    arguments.add_argument("--epochs", type=float, default=3)
    arguments.add_argument("--rate", type=float, default=1.0, help="Factor on the learning rates.")
    arguments.add_argument("--temporal", type=Path, help="Folder of Temporal NLI's folds.")
    arguments.add_argument("--temporal-count", type=int, default=2500, help="Its pairs in an epoch.")
    arguments.add_argument("--most", type=int, default=10, help="Older statements of an input.")
    arguments.add_argument("--frozen", type=int, default=0, help="Lower layers that are not trained.")
    arguments.add_argument("--bits", type=int, default=7, help="Of a weight of the graph.")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    worlds = load_worlds()
    training = [w for w in worlds if not w.is_held_out]
    say(f"{len(training)} worlds, {len(worlds) - len(training)} kept apart")
    given.weights.parent.mkdir(parents=True, exist_ok=True)
    network = Network(given.base, given.frozen)
    if given.init:
        network.load_state_dict(torch.load(given.init, weights_only=True))
    if given.epochs > 0:
        maker = ListMaker(training, embed_texts, given.most)
        examples = Examples(maker, tokenizer(), given.temporal, given.temporal_count, given.seed)
        train(network, examples, given.epochs, given.weights, given.rate)
    export_graph(network.eval(), given.out, given.bits)


if __name__ == "__main__":
    main()
