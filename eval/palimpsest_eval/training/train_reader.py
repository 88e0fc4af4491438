"""Trains the reader of answers: `python -m palimpsest_eval.training.train_reader --home HOME --suite FOLDER ...`.

A transformer reads a question together with one memory and says how likely that answers it: data/models says what it
was trained on. Of each list some memories that answer and some of the nearest that do not are read. A question of a
dialogue is also put about another person of it, whom none of its turns is about. A question of an article is read with
the passages of that article, cut as the reader cuts a long memory.
"""

import argparse
import json
import random
import re
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import onnx
import torch
from transformers import AutoModel

from palimpsest.core.files import SHIPPED, say, write_bytes
from palimpsest.query.request.types import one_line
from palimpsest.query.rerank import MODEL_FILE, memory_start, pair_tokens, passages, spoken_line
from palimpsest.store.home import Home
from palimpsest_eval.training.base_model import attend, in_bytes, states_of
from palimpsest_eval.training.relevance_results import golden_results, suite_results
from palimpsest_eval.training.weights import model_folder
from palimpsest_eval.training.worlds import Note, World, load_worlds

LAYERS, EPOCHS = 4, 1.5
QUESTIONS, POSITIVE, NEGATIVE, NEAREST = 3, 3, 6, 10  # of a step; of a question; of the memories that are nearest
RATE, HEAD_RATE, WARM_UP, LIST_WEIGHT = 8e-5, 1e-3, 100, 0.15
_SWAPPED, _SENTENCE_SHARE, _TITLED, _DATED, _CHANGE_SHARE = 0.5, 0.5, 0.3, 0.8, 0.25
_ROOMS = (40, 55, 70)  # tokens of a passage
_BUCKET, _RESULTS = 240, 20
_OPSET = 17
_PRODUCTS = (
    *(f"attention.self.{part}" for part in ("query", "key", "value")),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
)
_WORD = re.compile(r"\w+")
_SPACED = re.compile(r" (n't|'\w+|[.,?!;:])")


@dataclass(frozen=True)
class QuestionList:
    """A question, and lines of memories with whether each answers it."""

    question: str
    lines: Sequence[tuple[str, bool]]


class Network(torch.nn.Module):
    """The first layers of a transformer, and one number over the state of the first token."""

    def __init__(self, base: Path, layers: int):
        super().__init__()
        self.enc = AutoModel.from_pretrained(base, add_pooling_layer=False)
        self.enc.encoder.layer = self.enc.encoder.layer[:layers]
        self.head = torch.nn.Linear(self.enc.config.hidden_size, 1)

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Returns log odds, shape (n,), from tokens of shape (n, tokens)."""
        states = self.enc(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
        found: torch.Tensor = self.head(states[:, 0])[:, 0]
        return found


class Graph(torch.nn.Module):
    """The network over inputs that are whole: without a mask, and of the last layer the first token's state alone."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network

    def forward(self, input_ids: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
        """Returns log odds, shape (n,)."""
        encoder = self.network.enc
        states = states_of(encoder, input_ids, token_type_ids, layers=-1)
        found: torch.Tensor = self.network.head(attend(encoder.encoder.layer[-1], states[:, :1], states)[:, 0])[:, 0]
        return found


def dialogue_lists(path: Path, rng: random.Random) -> Iterator[QuestionList]:
    """Yields the questions of a file of FriendsQA's form, some of them also about another person of their dialogue."""
    for dialogue in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in dialogue["paragraphs"]:
            turns = paragraph["utterances:"]
            day = f"20{rng.randint(20, 26)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}, "
            day = day if rng.random() < _DATED else ""
            names = sorted({s.split()[0] for t in turns for s in t["speakers"] if not s.startswith("#")})
            lines = [f"{day}{', '.join(s.split()[0] for s in t['speakers'])}: {_joined(t['utterance'])}" for t in turns]
            for entry in paragraph["qas"]:
                evidence = {a["utterance_id"] for a in entry["answers"] if a["utterance_id"] < len(turns)}
                if evidence:
                    yield from _with_swapped(_joined(entry["question"]), lines, evidence, names, rng)


def _with_swapped(
    question: str, lines: Sequence[str], evidence: set[int], names: Sequence[str], rng: random.Random
) -> Iterator[QuestionList]:
    found = _list(question, lines, evidence)
    yield found
    inside = [n for n in names if re.search(rf"\b{re.escape(n)}\b", question)]
    others = [n for n in names if n not in inside]
    if len(inside) == 1 and others and rng.random() < _SWAPPED:
        swapped = re.sub(rf"\b{re.escape(inside[0])}\b", rng.choice(others), question)
        yield QuestionList(swapped, [(line, False) for line, _ in found.lines])


def sentence_lists(path: Path, rng: random.Random) -> Iterator[QuestionList]:
    """Yields half of the questions of a file of SelQA's form."""
    for row in json.loads(path.read_text(encoding="utf-8")):
        if rng.random() < _SENTENCE_SHARE:
            title = f"# {row['article']} " if rng.random() < _TITLED else ""
            yield _list(row["question"], [title + c for c in row["candidates"]], set(row["answers"]))


def article_lists(path: Path, rng: random.Random) -> Iterator[QuestionList]:
    """Yields the questions of a file of SQuAD's form, each with the passages of its article; some have their title."""
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        title = article["title"].replace("_", " ")
        lines: list[str] = []
        questions: list[tuple[str, set[int]]] = []
        for paragraph in article["paragraphs"]:
            text = paragraph["context"]
            parts = passages(text, rng.choice(_ROOMS))
            first, ends = len(lines), list(accumulate(len(part) + 1 for part in parts))
            lines += parts
            for entry in paragraph["qas"]:
                starts = {min(bisect_right(ends, a["answer_start"]), len(parts) - 1) for a in entry["answers"]}
                questions.append((entry["question"].strip(), {first + n for n in starts}))
        for question, evidence in questions:
            head = f"{title}: " if rng.random() < _TITLED else ""
            yield _list(question, [head + line for line in lines], evidence)


def world_lists(worlds: Sequence[World], rng: random.Random) -> Iterator[QuestionList]:
    """Yields the questions about what changed in worlds that train: the newer note answers, the older is not read."""
    for world in worlds:
        for change in world.changes:
            if change.question and not world.is_held_out and rng.random() < _CHANGE_SHARE:
                notes = [n for i, n in enumerate(world.notes) if i != change.older]
                lines = [spoken_line(_day(n, rng), n.speaker or "", n.text) for n in notes]
                yield _list(change.question, lines, {notes.index(world.notes[change.newer])})


def _day(note: Note, rng: random.Random) -> str:
    return note.date.isoformat() if rng.random() < _DATED else ""


def _list(question: str, lines: Sequence[str], evidence: set[int]) -> QuestionList:
    """Returns the lines that answer, and of the others those that share the rarest words with the question."""
    words = [set(_WORD.findall(line.lower())) for line in lines]
    frequency = Counter(w for found in words for w in found)
    wanted = set(_WORD.findall(question.lower()))
    near = sorted(range(len(lines)), key=lambda i: -sum(1 / frequency[w] for w in sorted(wanted & words[i])))[:NEAREST]
    kept = [*sorted(evidence), *(i for i in near if i not in evidence)]
    return QuestionList(question, [(lines[i], i in evidence) for i in kept])


def _joined(text: str) -> str:
    return _SPACED.sub(r"\1", text)


def train(network: Network, lists: Sequence[QuestionList], epochs: float, rng: random.Random) -> None:
    """Trains the layers, not the embeddings: cross entropy of each line, and of each list that has an answer."""
    for parameter in network.enc.embeddings.parameters():
        parameter.requires_grad = False
    layers = [p for p in network.enc.parameters() if p.requires_grad]
    groups = [{"params": layers, "lr": RATE}, {"params": network.head.parameters(), "lr": HEAD_RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = int(epochs * len(lists) / QUESTIONS)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min(1.0, (n + 1) / WARM_UP) * max(0.02, 1 - n / steps)
    )
    network.train()
    for step, batch in zip(range(steps), _batches(lists, rng), strict=False):
        pairs: list[tuple[str, str]] = []
        truth, starts = [], []
        for given in batch:
            answers = [(t, y) for t, y in given.lines if y]
            others = [(t, y) for t, y in given.lines if not y]
            lines = rng.sample(answers, min(POSITIVE, len(answers))) + rng.sample(others, min(NEGATIVE, len(others)))
            starts.append((len(pairs), len(pairs) + len(lines)))
            pairs += [(given.question, t) for t, _ in lines]
            truth += [float(y) for _, y in lines]
        odds, y = network(*_padded(pairs)), torch.tensor(truth)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(odds, y)
        for a, b in starts:
            if y[a:b].sum() > 0:
                share = (y[a:b] / y[a:b].sum())[None]
                loss = loss + LIST_WEIGHT * torch.nn.functional.cross_entropy(odds[a:b][None], share)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            say(f"step {step} of {steps}: loss {loss.item():.3f}")
    network.eval()


def _batches(lists: Sequence[QuestionList], rng: random.Random) -> Iterator[Sequence[QuestionList]]:
    """Yields batches of questions whose lines are about as long, for ever."""
    while True:
        order = list(lists)
        rng.shuffle(order)
        starts = range(0, len(order), _BUCKET)
        order = [
            q for n in starts for q in sorted(order[n : n + _BUCKET], key=lambda q: max(len(t) for t, _ in q.lines))
        ]
        batches = [order[n : n + QUESTIONS] for n in range(0, len(order), QUESTIONS)]
        rng.shuffle(batches)
        yield from batches


def _padded(pairs: Sequence[tuple[str, str]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    read = [pair_tokens(*pair) for pair in pairs]
    most = max(len(ids) for ids, _ in read)
    ids, types = (torch.tensor([row[n] + [0] * (most - len(row[n])) for row in read]) for n in (0, 1))
    return ids, types, torch.tensor([[1] * len(row) + [0] * (most - len(row)) for row, _ in read])


def graph_weights(path: Path) -> dict[str, torch.Tensor]:
    """Returns the weights of an exported graph as numbers again, but for the embeddings, which no training changes.

    The products of a graph are in the order in which the network makes them: four of attention and two more a layer.
    """
    graph = onnx.load(str(path)).graph
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {n.removeprefix("network."): torch.tensor(v) for n, v in values.items() if n.startswith("network.")}
    names = [f"enc.encoder.layer.{n}.{part}.weight" for n in range(LAYERS) for part in _PRODUCTS]
    products = (node.input[1] for node in graph.node if node.op_type == "MatMulInteger")
    for name, product in zip([*names, "head.weight"], products, strict=True):
        stem = product.removesuffix("_quantized")
        scale, zero = values[f"{stem}_scale"], values[f"{stem}_zero_point"].astype(np.float32)
        weights[name] = torch.tensor((values[product].astype(np.float32) - zero) * scale).T.contiguous()
    return {name: value for name, value in weights.items() if "embeddings" not in name}


def export(network: Network, path: Path) -> None:
    """Writes the network as an ONNX graph with weights of whole numbers."""
    ids, types = pair_tokens("Where do I live?", "2026-01-02, Ana: I live in Porto.")
    names = ("input_ids", "token_type_ids")
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch) / "float.onnx"
        torch.onnx.export(
            Graph(network).eval(),
            (torch.tensor([ids]), torch.tensor([types])),
            str(exported),
            input_names=list(names),
            output_names=["log_odds"],
            dynamic_axes={name: {1: "tokens"} for name in names},
            opset_version=_OPSET,
            dynamo=False,
        )
        write_bytes(path, in_bytes(exported))


def main() -> None:
    """Trains and exports."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--home", type=Path, required=True, help="A built home with golden sets.")
    arguments.add_argument("--suite", type=Path, action="append", default=[], help="A suite; may be given again.")
    arguments.add_argument("--apart", action="append", default=[], help="A golden set that trains nothing.")
    arguments.add_argument("--dialogues", type=Path, action="append", default=[], help="A file of FriendsQA.")
    arguments.add_argument("--sentences", type=Path, action="append", default=[], help="A file of SelQA.")
    arguments.add_argument("--articles", type=Path, action="append", default=[], help="A file of SQuAD.")
    arguments.add_argument("--init", type=Path, help="Weights to begin with, or a graph that was exported.")
    arguments.add_argument("--weights", type=Path, default=Path("build/answer_reader.pt"), help="Weights at the end.")
    arguments.add_argument("--epochs", type=float, default=EPOCHS)
    given = arguments.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)  # noqa: S311  # of a training, not of a secret
    network = Network(model_folder(), LAYERS)
    if given.init:
        shipped = given.init.suffix == ".onnx"
        known = graph_weights(given.init) if shipped else torch.load(given.init, map_location="cpu", weights_only=True)
        network.load_state_dict(known, strict=False)
    golden = golden_results(Home(given.home))
    judged = [r for name, results in golden.items() if name not in given.held_out for r in results]
    judged += [r for folder in given.suite for r in suite_results(folder)]
    lists = [
        QuestionList(
            r.question,
            [(memory_start(m) + one_line(m.text), bool(met)) for m, met in zip(r.memories, r.met, strict=True)][
                :_RESULTS
            ],
        )
        for r in judged
    ]
    lists += [q for path in given.dialogues for q in dialogue_lists(path, rng)]
    lists += world_lists(load_worlds(), rng)
    lists += [q for path in given.sentences for q in sentence_lists(path, rng)]
    lists += [q for path in given.articles for q in article_lists(path, rng)]
    if given.epochs:
        train(network, [q for q in lists if q.lines], given.epochs, rng)
        given.weights.parent.mkdir(parents=True, exist_ok=True)
        torch.save(network.state_dict(), given.weights)
    export(network, SHIPPED / MODEL_FILE)


if __name__ == "__main__":
    main()
