"""Makes the graph of the embedder: `python -m palimpsest_eval.training.export_embedder`.

The weights are those of all-MiniLM-L6-v2, untrained. One input is one text without padding, and the output the mean of
its tokens' states.
"""

import tempfile
from pathlib import Path

import torch
from transformers import AutoModel, BertModel

from palimpsest.core.files import SHIPPED, write_bytes
from palimpsest.memories.embed import MODEL_FILE
from palimpsest.text.tokenizer import tokenizer
from palimpsest_eval.training.base_model import in_bytes, scale_blocks, states_of
from palimpsest_eval.training.weights import model_folder

_OPSET = 17


class Graph(torch.nn.Module):
    """The encoder over one text that is whole."""

    def __init__(self, encoder: BertModel):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Returns the mean state, shape (1, hidden), from token ids, shape (1, tokens)."""
        found: torch.Tensor = states_of(self.encoder, input_ids, torch.zeros_like(input_ids)).mean(1)
        return found


def main() -> None:
    """Exports."""
    encoder = AutoModel.from_pretrained(model_folder(), add_pooling_layer=False).eval()
    ids = tokenizer().encode("I live in Porto.").ids
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch) / "float.onnx"
        torch.onnx.export(
            Graph(encoder).eval(),
            (torch.tensor([ids]),),
            str(exported),
            input_names=["input_ids"],
            output_names=["mean_state"],
            dynamic_axes={"input_ids": {1: "tokens"}},
            opset_version=_OPSET,
            dynamo=False,
        )
        write_bytes(SHIPPED / MODEL_FILE, in_bytes(scale_blocks(exported, encoder.config.intermediate_size)))


if __name__ == "__main__":
    main()
