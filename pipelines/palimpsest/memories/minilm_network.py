"""The network of all-MiniLM-L6-v2 over torch alone: what sentence-transformers computes, bit for bit.

Importing sentence-transformers and transformers takes three times as long as torch, and longer than embedding the few
hundred texts that change between two builds. The operations and their order are those of `BertModel` with scaled dot
product attention, mean pooling and normalization, so that vectors of earlier builds stay valid; a test compares them.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, dtype

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
