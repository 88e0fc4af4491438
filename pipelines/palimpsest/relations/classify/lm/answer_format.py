"""The form of a model's answer: marked text, or JSON that the server keeps to a schema.

Small models rarely keep to a form that is only described to them; a server that constrains the answer makes every
answer readable. It makes none of them right.
"""

from typing import TYPE_CHECKING, Literal, get_args

from palimpsest.core.json_types import JsonObject
from palimpsest.relations.classify.label_types import LABELS

if TYPE_CHECKING:
    import dspy

AnswerFormat = Literal["text", "json_object", "json_schema"]
"""`text`: fields marked by headers, which any server gives. The other two are values of `response_format.type`:
`json_object` (llama-cpp-python, with the schema next to it) and `json_schema` (as OpenAI's own API names it)."""

ANSWER_FORMATS: tuple[AnswerFormat, ...] = get_args(AnswerFormat)


def answer_adapter(answer_format: AnswerFormat) -> "dspy.Adapter":
    """Returns DSPy's adapter that describes this form in the prompt and reads it from the answer."""
    import dspy

    if answer_format == "text":
        return dspy.ChatAdapter(use_json_adapter_fallback=False)
    return dspy.JSONAdapter(use_native_function_calling=False)


def response_format(answer_format: AnswerFormat) -> JsonObject | None:
    """Returns `response_format` of a request for a label, None for text."""
    if answer_format == "text":
        return None
    if answer_format == "json_object":
        return {"type": "json_object", "schema": _answer_schema()}
    return {"type": "json_schema", "json_schema": {"name": "relation", "strict": True, "schema": _answer_schema()}}


def _answer_schema() -> JsonObject:
    """Returns the JSON schema of an answer: the output fields of the relation program, in their order."""
    properties: JsonObject = {
        "older_quote": {"type": "string"},
        "newer_quote": {"type": "string"},
        "label": {"type": "string", "enum": list(LABELS)},
        "confidence": {"type": "number"},
        "conflict": {"type": "string", "enum": ["dynamic", "static", "conditional", "none"]},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
