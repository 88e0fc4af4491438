"""The page by keyboard, its options, graph and comparison, and what axe finds in every view; a home of two builds."""

import time

import pytest

from palimpsest.query.request.search_request import OPTIONS, offer
from palimpsest.sources.inbox import ingest_text
from tests.browser import chromium, read_axe, violations
from tests.serve.conftest import TURNS, start_server
from tests.serve.page import Page
from tests.small_corpus import build_home, copy_built, write_chats

pytestmark = pytest.mark.browser
TAB, ENTER, ESCAPE, LEFT, RIGHT = "\ue004", "\ue007", "\ue00c", "\ue012", "\ue014"  # as WebDriver names keys
TABS = ("answer", "graph", "builds")
HOSTILE = "<img src=x onerror=\"document.title='zqowned'\"> Work is <b>fine</b>."
LATER = [
    ("s4", "ann", "Ann", "I work at Calder now, no longer at Heron.", "2026-04-02T09:00:00Z"),
    ("s5", "ann", "Ann", HOSTILE, "2026-04-03T09:00:00Z"),
]
WORK = "Where do I work?"


@pytest.fixture(scope="module")
def ann(served, tmp_path_factory, shared_vectors):
    """A signed-in page of ann, who works elsewhere since the second build."""
    home, corpus = copy_built(served, tmp_path_factory.mktemp("page"), shared_vectors)
    build_home(home, write_chats(corpus, [*TURNS, *LATER]))
    ingest_text(home, "My boat is white zqpending.", user="ann", collection="chats")
    with start_server(home.path) as (_, address), chromium("--window-size=1200,900", logs=("browser",)) as chrome:
        page = Page(chrome, f"{address}/page/")
        page.sign_in()
        yield page


@pytest.fixture(autouse=True)
def _nothing_is_refused(ann):
    """No script, style or connection of the page is refused by its policy, and no script fails."""
    ann.browser.get_log("browser")
    yield
    assert [
        e["message"]
        for e in ann.browser.get_log("browser")
        if e["level"] == "SEVERE" and "status of 422" not in e["message"]
    ] == []
    assert "zqowned" not in ann.browser.title and not ann.all("main img, main b")


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    return read_axe(tmp_path_factory.mktemp("axe"))


def press(ann, *keys):
    for key in keys:
        ann.browser.switch_to.active_element.send_keys(key)
    return ann.browser.switch_to.active_element


def load(ann, place):
    """Opens a view with nothing left of the one before."""
    ann.browser.get("about:blank")
    ann.open(f"#/{place}")


def open_tab(ann, name):
    load(ann, f"search?q={WORK.replace(' ', '+')}&tab={name}")
    ann.until(lambda: ann.all(f"#panel-{name}:not([hidden]) > *"))


def memory_of(ann, word):
    """Returns the place of the memory that has a word."""
    load(ann, f"search?q={WORK.replace(' ', '+')}&history=true")
    item = ann.until(lambda: next(li for li in ann.all(".results li") if word in li.text))
    return item.find_element("css selector", ".meta a").get_attribute("href").partition("#/")[2]


def test_the_form_has_every_option_of_a_search_and_sends_what_was_set(ann):
    ann.open("#/search")
    ann.until(lambda: ann.all("form details"))
    ann.press("More options")
    names = {e.text.lower().replace(" ", "_") for e in ann.all("form .options label, form .options legend")}
    served = {name for name, field in OPTIONS.items() if offer(field).served}
    assert {"collection", "project", "role", *served} - {"subgraph"} <= names  # the tab of the graph is `subgraph`
    for field, text in (("#f-question", WORK), ("#f-tags", "none"), ("#f-since", "01022026")):
        ann.all(field)[0].send_keys(text)
    for field in ("#f-history", "#f-include-pending"):
        ann.all(field)[0].click()
    ann.all("#f-question")[0].send_keys("\n")
    ann.shows("Nothing was found.")
    asked = ann.browser.current_url.partition("?")[2]
    assert {*asked.split("&")} == {
        *(
            "q=Where+do+I+work%3F",
            "tags=none",
            "since=2026-01-02",
            "history=true",
            "include_pending=false",
            "tab=answer",
        )
    }
    ann.shows("More options, 3 set")
    assert ann.all("#f-tags")[0].get_attribute("value") == "none"


def test_an_option_that_cannot_be_used_is_named_and_the_form_stays(ann):
    load(ann, f"search?q={WORK.replace(' ', '+')}&where=year+%3E%3E")
    error = ann.until(lambda: ann.all("[role=alert]"))[0]
    assert "where" in error.text and ann.all("#f-where")[0].get_attribute("value") == "year >>"


def test_two_builds_are_compared_side_by_side_and_texts_stay_texts(ann):
    open_tab(ann, "builds")
    rows = ann.until(lambda: [row.text for row in ann.all("#panel-builds tbody tr")])
    for word in ("Calder now", "<b>fine</b>"):
        new = next(row for row in rows if word in row)
        assert "not in this build" in new and new.endswith("entered")
    old = next(row for row in rows if "Heron now" in row)
    assert "rank 1, latest" in old and "state changed" in old and not [row for row in rows if "zqpending" in row]
    for select in ann.all("#panel-builds select"):
        select.send_keys("000002")
    ann.press("Compare")
    ann.shows("Both builds answer the same.")


def test_the_graph_around_an_answer_is_drawn_and_is_a_table_too(ann):
    open_tab(ann, "graph")
    ann.until(lambda: ann.browser.execute_script("return !!document.getElementById('answer-graph').cy"))
    drawn = ann.browser.execute_script(
        "return document.getElementById('answer-graph').cy.nodes().map(n => n.data('name'))"
    )
    assert {"Heron", "[1]"} <= {*drawn}
    table = ann.all("#panel-graph table")[0].text
    assert "Heron" in table and "[1]" in table
    button = next(b for b in ann.all("#panel-graph table button") if b.text == "Heron")
    ann.browser.execute_script("arguments[0].focus()", button)
    press(ann, ENTER)
    ann.until(lambda: "Heron" in ann.all("#panel-graph section[aria-label=Node] h3")[0].text)
    selected = "return document.getElementById('answer-graph').cy.$(':selected').map(n => n.data('name'))"
    assert ann.browser.execute_script(selected) == ["Heron"]


@pytest.mark.parametrize(("picture", "place"), [("answer-graph", "search?q=work&tab=graph"), ("graph", "graph")])
def test_keys_move_a_picture_that_has_the_focus(ann, picture, place):
    load(ann, place)
    box = f"document.getElementById('{picture}')"
    ann.until(lambda: ann.browser.execute_script(f"return !!{box}.cy"))
    ann.browser.execute_script(f"{box}.focus()")
    state = f"return [{box}.cy.pan().x, {box}.cy.zoom()]"
    x, zoom = ann.browser.execute_script(state)
    press(ann, RIGHT)
    assert ann.browser.execute_script(state)[0] == pytest.approx(x - 60)
    press(ann, "+")
    assert ann.browser.execute_script(state)[1] == pytest.approx(1.25 * zoom)
    press(ann, "0")
    assert ann.browser.execute_script(state)[1] != pytest.approx(1.25 * zoom)


def test_tabs_follow_the_arrow_keys_and_escape_closes_what_is_open(ann):
    open_tab(ann, "answer")
    ann.browser.execute_script("document.getElementById('tab-answer').focus()")
    assert press(ann, LEFT).get_attribute("id") == "tab-builds"
    assert press(ann, RIGHT, RIGHT).get_attribute("id") == "tab-graph"
    assert ann.all("#panel-graph")[0].is_displayed() is False
    press(ann, ENTER)
    ann.until(lambda: ann.all("#panel-graph")[0].is_displayed())
    assert [t.get_attribute("tabindex") for t in ann.all("[role=tab]")] == ["-1", "0", "-1"]
    assert press(ann, TAB).get_attribute("id") == "panel-graph"
    ann.press("More options")
    press(ann, TAB, ESCAPE)
    assert ann.browser.switch_to.active_element.text == "More options"
    assert ann.all("form details")[0].get_attribute("open") is None


def test_the_skip_link_leads_to_the_content_and_every_focus_is_seen(ann):
    ann.open("#/proposals")
    ann.shows("None is open")
    ann.browser.execute_script("document.querySelector('.skip').focus()")
    assert press(ann, ENTER).get_attribute("id") == "main" and ann.browser.current_url.endswith("#/proposals")
    open_tab(ann, "answer")
    ann.browser.execute_script("document.querySelector('.skip').focus()")
    seen = set()
    for _ in range(40):
        at = press(ann, TAB)
        outline = at.value_of_css_property("outline-style"), at.value_of_css_property("outline-width")
        assert at.tag_name == "body" or outline == ("solid", "3px"), at.get_attribute("outerHTML")[:200]
        seen.add(at.text)
    assert {"Search", "Account", "More options", "Answer", "source and history"} <= seen


@pytest.mark.parametrize("width", [1200, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_view(ann, axe, scheme, width):
    chrome, found = ann.browser, {}
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    token = chrome.execute_script("return sessionStorage.getItem('palimpsest-token')")
    memory = memory_of(ann, "Basin as")

    def check(name):
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= width, name
        if broken := violations(chrome, axe):
            found[name] = broken

    views = {
        **{f"search?q=Where+do+I+work%3F&tab={name}&history=true&explain=true": f"#panel-{name} > *" for name in TABS},
        **dict.fromkeys(("search", "add", "graph", "proposals", "account"), "main h2"),
        memory: "main h2",
        "search?q=work&where=%3D": "[role=alert]",
    }
    for place, shown in views.items():
        load(ann, place)
        ann.until(lambda shown=shown: ann.all(shown))
        if place == "graph":
            ann.until(lambda: chrome.execute_script("return !!document.getElementById('graph').cy"))
            ann.until(lambda: ann.all(".nodes button"))[0].click()
            ann.until(lambda: ann.all("section[aria-label=Node] h3"))
        time.sleep(0.5)
        chrome.execute_script("document.querySelectorAll('main details').forEach((d) => { d.open = true; })")
        check(place)
    chrome.execute_script("sessionStorage.clear()")
    chrome.refresh()
    ann.until(lambda: ann.all("input[type=password]"))
    check("sign in")
    chrome.execute_script("sessionStorage.setItem('palimpsest-token', arguments[0])", token)
    chrome.refresh()
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert found == {}
