"""The report in Debian's Chromium: as it loads, in light and dark, on a desk and on a phone."""

import pytest

from palimpsest.store.builds import published
from palimpsest_eval.report.page import MAX_BYTES
from palimpsest_eval.runs.home_metrics import health_of, write_health
from palimpsest_eval.runs.judge_build import judge_build, write_report
from tests.browser import chromium

pytestmark = pytest.mark.browser
PHONE, DESK = 360, 1280


@pytest.fixture(scope="module")
def browser():
    with chromium("--disable-gpu", "--hide-scrollbars", logs=("browser", "performance")) as chrome:
        yield chrome


@pytest.fixture
def page(judged_home, tmp_path):
    build = published(judged_home)
    return write_report(judged_home, build, judge_build(judged_home, build), tmp_path / "report.html")


def show(browser, page, width, scheme):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get_log("performance")
    browser.get(page.as_uri())


def luminance(browser, css):
    """Relative luminance (WCAG 2) of a colour that the page computes."""
    rgb = [int(x) for x in browser.execute_script(f"return {css}").strip("rgba()").split(",")[:3]]
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_and_requests_nothing(browser, page, width, scheme):
    show(browser, page, width, scheme)
    assert browser.get_log("browser") == []
    requests = [e["message"] for e in browser.get_log("performance") if '"Network.requestWillBeSent"' in e["message"]]
    assert not [m for m in requests if "http://" in m or "https://" in m]
    assert page.stat().st_size <= MAX_BYTES
    root = "document.documentElement"
    assert browser.execute_script(f"return {root}.scrollWidth") <= width, "the page scrolls sideways"
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('main *')].filter(e => e.innerText && !e.closest('svg'))"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 11
    style = "getComputedStyle(document.querySelector('main'))"
    paper = luminance(browser, "getComputedStyle(document.body).backgroundColor")
    ink = luminance(browser, f"{style}.color")
    assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) >= 7
    assert (paper > ink) == (scheme == "light")
    cut = browser.execute_script(
        "return [...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().right > innerWidth).length"
    )
    assert cut == 0
    matrix = "document.querySelector('.matrix')"
    wide = browser.execute_script(f"return [{matrix}.scrollWidth, {matrix}.parentElement.clientWidth]")
    assert wide[0] <= wide[1], "the table of labels is cut"


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_homes_health_fits_and_requests_nothing(browser, judged_home, tmp_path, width, scheme):
    page = tmp_path / "health.html"
    write_health(health_of(judged_home), page)
    show(browser, page, width, scheme)
    assert browser.get_log("browser") == []
    requests = [e["message"] for e in browser.get_log("performance") if '"Network.requestWillBeSent"' in e["message"]]
    assert not [m for m in requests if "http://" in m or "https://" in m]
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    paper = luminance(browser, "getComputedStyle(document.body).backgroundColor")
    assert (paper > 0.5) == (scheme == "light")
