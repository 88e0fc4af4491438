"""How fast the page draws and pans a graph of 10,000 nodes, in Debian's Chromium, and how soon it sees a new build.

    python -m tests.serve.page_figures [--memories 100000] [--runs 3] [--changes 5]

Needs Debian's packages chromium and chromium-driver, and selenium. The graph is a synthetic one, with the topics,
entities and edges of one user's memories, laid out as a build does. Printed as JSON, medians of the runs, each with a
service just started and an empty cache of the browser: seconds from opening the address of the view until the pixels of
the nodes are on the canvas and a frame has passed; until the picture can be dragged; frames a second while it is
dragged, of 3 seconds. Then, on a small real home, seconds from the end of each of several builds until the picture has
changed.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.nodes.layout import node_positions
from palimpsest.serve.page import drawing_library
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from palimpsest_eval.bench.run_bench import write_synthetic_home
from palimpsest_eval.bench.synthetic import COLLECTION, synthetic_build
from palimpsest_eval.studies.service_load import Service, serve
from tests.browser import chromium

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver

WAIT_S = 120.0
LEAST_PIXELS = 2_000
"""In the color of a type of node: nodes of 3 pixels that overlap."""
DRAWING = Path(drawing_library.__file__).with_name("static") / "graph_drawing.js"
_UPDATES = "return Number(document.getElementById('graph').dataset.updates || 0) > arguments[0]"
_LOOK = """
(() => {
  const colors = new Set(Object.values(%s).map((c) => parseInt(c.slice(1), 16)));
  const nodePixels = (canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (colors.has(data[i] << 16 | data[i + 1] << 8 | data[i + 2])) found += 1;
    }
    return found;
  };
  const look = () => {
    const graph = document.getElementById('graph'), canvas = graph?.querySelector('canvas.links');
    if (!window.nodesSeenMs && canvas?.width && nodePixels(canvas) > %d) {
      setTimeout(() => { window.nodesSeenMs ??= performance.now(); });
    }
    if (!graph?.cy) requestAnimationFrame(look);
    else requestAnimationFrame(() => setTimeout(() => { window.movableMs = performance.now(); }));
  };
  requestAnimationFrame(look);
})();
"""
_DRAG = """
const done = arguments[0], graph = document.getElementById('graph'), box = graph.getBoundingClientRect(), cy = graph.cy;
const mouse = (type, target, x, y) => target.dispatchEvent(new MouseEvent(type,
  {clientX: x, clientY: y, button: 0, buttons: 1, bubbles: true, view: window}));
const canvas = document.querySelector('#graph .dots canvas');
let frames = 0, step = 0;
const x = box.left + 15, y = box.top + 15, started = performance.now();
cy.on('render', () => { frames += 1; });
mouse('mousedown', canvas, x, y);
const move = () => {
  step += 1;
  mouse('mousemove', window, x + 120 * (1 - Math.cos(step / 20)), y + 80 * (1 - Math.cos(step / 33)));
  if (performance.now() - started < 3000) requestAnimationFrame(move);
  else {
    const seconds = (performance.now() - started) / 1000;
    mouse('mouseup', window, x, y);
    done(frames / seconds);
  }
};
requestAnimationFrame(move);
"""


def large_graph(folder: Path, memories: int) -> tuple[Home, str, int, float]:
    """Makes a home of one user with a large graph; returns it, the user, nodes and the seconds of the layout."""
    home = Home(folder / "large")
    build = synthetic_build(memories, 1, "turns", 10, has_topics=True)
    write_synthetic_home(home.path, build, "turns")
    started = time.perf_counter()
    positions = node_positions(*(build.tables[name] for name in ("nodes", "edges", "facts")))
    seconds = time.perf_counter() - started
    table = home.builds / "000001" / COLLECTION / "node_positions.parquet"
    table.parent.mkdir(parents=True, exist_ok=True)
    positions.write_parquet(table)
    return home, build.largest, positions.height, seconds


def open_page(browser: "WebDriver", service: Service, user: str) -> None:
    """Opens the page as a user, by a token in the tab."""
    token = service.headers(user)["Authorization"].partition(" ")[2]
    browser.get(f"{service.address}/page/icon.svg")
    browser.execute_script("sessionStorage.setItem('palimpsest-token', arguments[0])", token)


def until(found: Callable[[], Any], wait_s: float = WAIT_S) -> Any:
    """Waits until something is found, and returns it.

    Raises:
        TimeoutError: it is not found in time.
    """
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.02)
    raise TimeoutError


def draw_figures(browser: "WebDriver", folder: Path, memories: int, runs: int) -> dict[str, float]:
    """Opens the view of a large graph and drags it, again and again."""
    home, user, nodes, layout_s = large_graph(folder, memories)
    colors = dict(re.findall(r'(\w+): "(#\w{6})"', DRAWING.read_text()))
    browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": _LOOK % (json.dumps(colors), LEAST_PIXELS)}
    )
    found = [_draw_once(browser, home, user) for _ in range(runs)]
    nodes_s, movable_s, frames = (statistics.median(values) for values in zip(*found, strict=True))
    return {
        "nodes": nodes,
        "layout_s": round(layout_s, 2),
        "open_to_nodes_s": round(nodes_s, 2),
        "longest_s": round(max(f[0] for f in found), 2),
        "open_to_movable_s": round(movable_s, 2),
        "frames_per_s": round(frames, 1),
    }


def _draw_once(browser: "WebDriver", home: Home, user: str) -> tuple[float, float, float]:
    """Returns seconds until the nodes are seen and until they can be dragged, and frames a second."""
    with serve(home.path) as service:
        open_page(browser, service, user)
        browser.execute_cdp_cmd("Network.clearBrowserCache", {})
        browser.get(f"{service.address}/page/#/graph")
        script = "return window.nodesSeenMs && window.movableMs ? [window.nodesSeenMs, window.movableMs] : null"
        seen_ms, movable_ms = until(lambda: browser.execute_script(script))
        browser.set_script_timeout(60)
        frames = statistics.median(float(browser.execute_async_script(_DRAG)) for _ in range(3))
        return seen_ms / 1000, movable_ms / 1000, frames


def update_figures(browser: "WebDriver", folder: Path, changes: int) -> dict[str, float]:
    """Builds a small home again and again while its graph is shown."""
    home = Home(folder / "small")
    ingest_text(home, "Carla Viento runs the Lantern project in Porto.", user="ana")
    run_without_dagster(home, make_plan(home, None))
    waited = []
    with serve(home.path) as service:
        open_page(browser, service, "ana")
        browser.get(f"{service.address}/page/#/graph")
        until(lambda: browser.execute_script("return document.getElementById('graph')?.cy != null"))
        for number in range(changes):
            text = f"Olmo Brandt repairs boat Number{number} of the Lantern project in Faro{number}."
            ingest_text(home, text, user="ana")
            run_without_dagster(home, make_plan(home, None))
            built = time.perf_counter()
            until(partial(browser.execute_script, _UPDATES, number))
            waited.append(time.perf_counter() - built)
    return {"build_to_picture_s": round(statistics.median(waited), 2), "longest_s": round(max(waited), 2)}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(prog="tests.serve.page_figures", description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--changes", type=int, default=5)
    args = parser.parse_args(argv)
    with (
        tempfile.TemporaryDirectory(prefix="palimpsest-page-") as folder,
        chromium("--window-size=1280,900") as browser,
    ):
        sys.stdout.write(json.dumps(draw_figures(browser, Path(folder), args.memories, args.runs)) + "\n")
        sys.stdout.write(json.dumps(update_figures(browser, Path(folder), args.changes)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
