"""Debian's Chromium, as tests of pages drive it."""

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AXE = "axe-core@4.14.1"
_RUN = """const [kinds, done] = arguments;
const said = ({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`;
axe.run(document, { runOnly: kinds, resultTypes: ["violations"] }).then(
  ({ violations }) => done(violations.map(({ id, nodes }) => [id, nodes.map(said)])), done)"""
_KINDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


@contextmanager
def chromium(*arguments: str, logs: tuple[str, ...] = ()) -> Iterator[object]:
    """Opens a headless browser, with further arguments and the logs to be read."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert binary and driver, "needs Debian's packages chromium and chromium-driver"
    options = Options()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", *arguments):
        options.add_argument(argument)
    if logs:
        options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    with webdriver.Chrome(options=options, service=Service(driver)) as chrome:
        yield chrome


def read_axe(folder: Path) -> str:
    """Returns axe-core, which npm fetches into a folder and checks."""
    packed = subprocess.run(
        ["npm", "pack", AXE, "--silent", "--pack-destination", str(folder)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    with tarfile.open(folder / packed.stdout.strip()) as package:
        script = package.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(chrome: Any, axe: str) -> list[Any]:
    """Returns what of the page that is open breaks WCAG 2.1 A or AA, as far as axe finds it: rules and elements."""
    chrome.execute_script(axe)
    return list(chrome.execute_async_script(_RUN, _KINDS))
