"""A reader that another package installs: a real package in an environment of its own, and what is refused."""

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from palimpsest.core.errors import PalimpsestError, Rejected
from palimpsest.sources.extracted import ExtractedDocument, Extraction, Segment, Source
from palimpsest.sources.readers import registry
from palimpsest.sources.readers.registry import find_installed_readers, formats_by_suffix, read_installed
from palimpsest.store.collection_config import Limits
from tests.small_corpus import write_notes

READER = """
    from palimpsest.sources.readers.registry import *

    def read(source: Source, limits: Limits) -> Extraction:
        builder = TextBuilder(limits.max_chars)
        for line in decode(source.data, limits).splitlines():
            speaker, _, words = line.partition(" > ")
            builder.add(words, "turn", prefix=f"{speaker}: ", gap="\\n", speaker=speaker)
        document = ExtractedDocument(
            uri=source.uri, media_type="text/x-script", text=builder.text, segments=tuple(builder.segments)
        )
        return Extraction((document,))
"""
# The documents stage of a corpus, in worker processes, as a build runs it.
STAGE = """
    import json, sys
    from pathlib import Path
    from palimpsest.pipeline.plan import make_plan, stage_context
    from palimpsest.pipeline.run_stage import run_stage
    from palimpsest.core.errors import PalimpsestError
    from palimpsest.store.home import Home

    home = Home(Path(sys.argv[2]))
    home.create()
    try:
        plan = make_plan(home, [Path(sys.argv[1])])
        part = stage_context(home, "notes", plan.collections["notes"])
        marker = run_stage(part, "documents")
    except PalimpsestError as e:
        print(json.dumps({"error": str(e)}))
    else:
        tables = {t: part.table(t).to_dicts() for t in ("document_texts", "rejects")}
        keys = part.log.versions()["text_key"].to_list()
        print(json.dumps(tables | {"keys": keys}, default=str))
"""


class Environment:
    """A virtual environment that sees the packages of this one, and a package with a reader."""

    def __init__(self, folder: Path) -> None:
        venv.EnvBuilder(symlinks=True).create(folder)
        self.python = folder / "bin" / "python"
        self.packages = next((folder / "lib").glob("python*/site-packages"))
        parent = sysconfig.get_paths()["purelib"]
        (self.packages / "parent.pth").write_text(f"import site; site.addsitedir({parent!r})\n")

    def install(self, suffix: str, code: str, package: str = "script-reader") -> None:
        """Installs a package as pip would leave it: a module, and a dist-info that names the entry point."""
        module = package.replace("-", "_")
        (self.packages / f"{module}.py").write_text(textwrap.dedent(code))
        info = self.packages / f"{module}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[palimpsest.readers]\n{suffix} = {module}:read\n")

    def documents_stage(self, corpus: Path, home: Path) -> dict[str, Any]:
        """Runs the documents stage with the packages of this environment."""
        command = [self.python, "-P", "-c", textwrap.dedent(STAGE), corpus, home]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
def test_a_package_adds_a_reader_that_a_build_uses_in_its_workers_and_reads_again_when_its_code_changes(
    tmp_path,
) -> None:
    environment = Environment(tmp_path / "env")
    corpus = write_notes(tmp_path / "corpus", {"a.script": "Ann > We sail on Monday.\nBo > At noon.\n", "b.md": "Hi."})
    without = environment.documents_stage(corpus, tmp_path / "home")
    assert [r["reason"].split(";")[0] for r in without["rejects"]] == ["unknown type .script"]

    environment.install("script", READER)
    first = environment.documents_stage(corpus, tmp_path / "home")
    assert first["rejects"] == []
    assert sorted(r["text"] for r in first["document_texts"]) == ["Ann: We sail on Monday.\nBo: At noon.", "Hi."]

    environment.install("script", READER.replace('prefix=f"{speaker}: "', 'prefix=f"[{speaker}] "'))
    second = environment.documents_stage(corpus, tmp_path / "home")
    assert sorted(r["text"] for r in second["document_texts"]) == ["Hi.", "[Ann] We sail on Monday.\n[Bo] At noon."]
    assert not set(first["keys"]) & set(second["keys"])

    environment.install("md", READER, package="other-reader")
    refused = environment.documents_stage(corpus, tmp_path / "home")
    assert refused["error"].startswith("other-reader: its reader of .md would replace the built-in one")


def entry(name: str, value: str = f"{__name__}:good") -> EntryPoint:
    return EntryPoint(name, value, registry.GROUP)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["x", "X"], "both install a reader of .x"), (["tar.gz"], "a name is a suffix without dots")],
)  # fmt: skip
def test_entry_points_that_contradict_each_other_are_an_error(monkeypatch, names: list[str], message: str) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry(n) for n in names])
    with pytest.raises(PalimpsestError, match=message):
        find_installed_readers()


def test_a_reader_that_cannot_be_loaded_is_named_and_only_built_in_formats_are_read_without_packages() -> None:
    assert not any(f.package for f in formats_by_suffix().values())
    with pytest.raises(Rejected, match="cannot be loaded: ModuleNotFoundError"):
        read_installed(entry("x", "no_such_module:read"), Source("a.x", ".x", b"..."), Limits())


def document(**fields: Any) -> Extraction:
    return Extraction((ExtractedDocument(**{"uri": "a.x", "media_type": "text/x", "text": "Words.", **fields}),))


RETURNS: dict[str, Any] = {
    "another uri": document(uri="b.x"),
    "text is not clean": document(text="a\r\nb"),
    "segments overlap": document(segments=(Segment(0, 99, "prose"),)),
    "not JSON values": document(metadata={"when": object()}),
    "returned dict, not an Extraction": {},
    "too large": document(text="x" * 101),
    "left_out that is no mapping of kinds to counts": replace(document(), left_out={"image": "many"}),
}


@pytest.mark.parametrize("message", RETURNS)
def test_what_an_installed_reader_returns_is_checked(monkeypatch, message: str) -> None:
    monkeypatch.setattr(sys.modules[__name__], "reading", lambda source, limits: RETURNS[message], raising=False)
    with pytest.raises(Rejected, match=message):
        read_installed(entry("x", f"{__name__}:reading"), Source("a.x", ".x", b"..."), Limits(max_chars=100))
