"""How graphs are made of networks like BERT: layers without padding, weights of whole numbers."""

import math
from pathlib import Path

import torch
from transformers import BertModel
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


def states_of(encoder: BertModel, ids: torch.Tensor, types: torch.Tensor, layers: int | None = None) -> torch.Tensor:
    """Returns the states of one text without padding, shape (1, tokens, hidden), after all or the first layers.

    No mask is made and added.
    """
    states: torch.Tensor = encoder.embeddings(input_ids=ids, token_type_ids=types)
    for layer in encoder.encoder.layer[:layers]:
        assert isinstance(layer, BertLayer)
        states = attend(layer, states, states)
    return states


def scale_blocks(exported: Path, size: int) -> Path:
    """Writes a graph whose widest products have weights of eight bits, and a scale for each block of 128 numbers.

    What goes into these products has a few numbers far above the others, so that one scale for all of them is too
    coarse.

    Args:
        exported: the graph in float32; the other one is written beside it.
        size: how many numbers go into a widest product.
    """
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    by_block = MatMulNBitsQuantizer(str(exported), bits=8, block_size=128, is_symmetric=True, accuracy_level=4)
    graph = by_block.model.model.graph
    rows = {tensor.name: tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 2}
    products = [node for node in graph.node if node.op_type == "MatMul"]
    by_block.nodes_to_exclude = {node.name for node in products if rows.get(node.input[1]) != size}
    by_block.process()
    scaled = exported.with_name("blocks.onnx")
    by_block.model.save_model_to_file(str(scaled))
    return scaled


def scale_rows(exported: Path) -> Path:
    """Writes a graph in which the row of each token that goes into a product is divided by its largest number before.

    So each token has a scale of its own: a few tokens have numbers far above those of the others.

    Args:
        exported: the graph in float32; the other one is written beside it.
    """
    import onnx
    from onnx.helper import make_node

    model = onnx.load(str(exported))
    weights = {tensor.name for tensor in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    divided: set[str] = set()
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in weights:
            nodes.append(node)
            continue
        given, found = node.input[0], node.output[0]
        positive, top, row = (f"{given}_{part}" for part in ("positive", "top", "row"))
        if given not in divided:
            nodes.append(make_node("Abs", [given], [positive], positive))
            nodes.append(make_node("ReduceMax", [positive], [top], top, axes=[-1]))
            nodes.append(make_node("Div", [given, top], [row], row))
            divided.add(given)
        nodes.append(make_node("MatMul", [row, node.input[1]], [f"{found}_of_row"], node.name))
        nodes.append(make_node("Mul", [f"{found}_of_row", top], [found], f"{found}_whole"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    scaled = exported.with_name("rows.onnx")
    onnx.save(model, str(scaled))
    return scaled


def in_bytes(exported: Path) -> bytes:
    """Returns a graph with weights of seven bits, and with activations of eight bits by input.

    Args:
        exported: the graph in float32; the other one is written beside it.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantized = exported.with_name("bytes.onnx")
    quantize_dynamic(exported, quantized, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    return quantized.read_bytes()
