"""How graphs are made of networks like BERT: layers without padding, weights of whole numbers."""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from transformers.models.bert.modeling_bert import BertLayer


def attend(layer: BertLayer, rows: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Returns what a layer makes of some rows of its input, which attend to all states: an input without padding."""
    attention = layer.attention.self
    heads, size = attention.num_attention_heads, attention.attention_head_size
    query, key, value = (
        part(given).reshape(1, -1, heads, size).transpose(1, 2)
        for part, given in ((attention.query, rows), (attention.key, states), (attention.value, states))
    )
    mixed = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(size), -1) @ value
    attended = layer.attention.output(mixed.transpose(1, 2).reshape(1, -1, heads * size), rows)
    found: torch.Tensor = layer.output(layer.intermediate(attended), attended)
    return found


def in_bytes(exported: Path, is_wide: Callable[[str, int], bool]) -> bytes:
    """Returns a graph with weights of eight bits, and with activations of eight bits by input.

    What goes into the widest products has a few numbers far above the others, so that one scale for all of them is too
    coarse: there each block of 128 has its own.

    Args:
        exported: the graph in float32; others are written beside it.
        is_wide: says so of a product, by its name and how many numbers go into it.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    by_block = MatMulNBitsQuantizer(str(exported), bits=8, block_size=128, is_symmetric=True, accuracy_level=4)
    graph = by_block.model.model.graph
    rows = {tensor.name: tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 2}
    products = [node for node in graph.node if node.op_type == "MatMul"]
    by_block.nodes_to_exclude = {p.name for p in products if not is_wide(p.name, rows.get(p.input[1], 0))}
    by_block.process()
    first, second = exported.with_name("blocks.onnx"), exported.with_name("bytes.onnx")
    by_block.model.save_model_to_file(str(first))
    quantize_dynamic(first, second, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    return second.read_bytes()
