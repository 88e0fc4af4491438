"""The page in Debian's Chromium, against a real server over a home that a test builds again."""

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.inbox import ingest_text
from tests.browser import chromium
from tests.serve.conftest import start_server
from tests.serve.page import Page, search

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=\"document.title='zqowned'\"> My hat is zqhat."


@pytest.fixture(scope="module")
def browser():
    with chromium("--window-size=1200,900", logs=("browser",)) as chrome:
        yield chrome


@pytest.fixture
def site(home, browser, monkeypatch):
    """Serves a copy of the home in a process; returns the address of the page."""
    ingest_text(home, HOSTILE, user="ann", collection="chats")
    run_without_dagster(home, make_plan(home, None))
    monkeypatch.setenv("PALIMPSEST_SERVE_SHARED", "town")
    with start_server(home.path) as (_, address):
        yield f"{address}/page/"
    browser.get("about:blank")


@pytest.fixture
def ann(browser, site):
    found = Page(browser, site)
    found.sign_in()
    browser.get_log("browser")
    yield found
    errors = [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert errors == []


def test_a_wrong_token_is_refused_and_a_right_one_opens_the_page(browser, site):
    page = Page(browser, site)
    page.open()
    page.until(lambda: page.all("input[type=password]"))[0].send_keys("no.such.token")
    page.press("Sign in")
    error = page.until(lambda: page.all(".field #token-error"))[0]
    assert "The token is not valid" in error.text and not page.all("#status")[0].text
    field = browser.switch_to.active_element
    assert field.get_attribute("type") == "password"
    assert "token-error" in field.get_attribute("aria-describedby").split()
    page.sign_in()
    page.press("Account")
    page.shows("delete, read, write")
    page.press("Sign out")
    page.until(lambda: page.all("input[type=password]"))
    assert browser.execute_script("return sessionStorage.getItem('palimpsest-token')") is None


def test_a_result_is_marked_in_its_source_and_its_fact_has_a_timeline(ann):
    search(ann, "work at Basin", "&history=true")
    assert {m.text.lower() for m in ann.all(".results mark")} >= {"work", "basin"}
    link = next(li for li in ann.all(".results li") if "Basin as a tester" in li.text)
    link.find_element("css selector", ".meta a").click()
    evidence = ann.until(lambda: ann.all(".source mark.evidence"))[0]
    assert "Basin as a tester" in evidence.text and "red zqann" in ann.all(".source")[0].text
    steps = [li.text for li in ann.all(".timeline li")]
    assert len(steps) == 2 and "Heron" in steps[0] and "replaced by" in steps[1]


def test_texts_of_memories_are_never_markup(ann):
    search(ann, "hat zqhat")
    ann.shows("<img src=x onerror=")
    ann.press("source and history")
    ann.until(lambda: ann.all(".source mark.evidence"))
    assert "zqowned" not in ann.browser.title and not ann.all("main img")


def test_a_result_names_what_is_newer_with_its_day_and_a_link(ann):
    newer = {"memory_id": "m2", "text": HOSTILE, "observed_at": "2026-03-01T09:00:00Z", "why": "uncertain"}
    later = [newer | {"memory_id": "m3", "why": "part"}, newer | {"memory_id": "m4", "why": "later"}]
    result = {"memory_id": "m1", "text": "[…] It is red.", "is_latest": True, "disputed_by": newer, "later": later}
    script = """const [result, done] = arguments;
        import("/page/views/search.js").then(({ shown }) => {
          document.querySelector("main").replaceChildren(shown(result, "hat"));
          done();
        });"""
    ann.browser.execute_async_script(script, result)
    text = ann.text()
    assert "disputed, superseded in part" in text and "2026)" in text
    assert all(f"{words}: <img src=x" in text for words in ("disputed by", "superseded in part by", "said later"))
    links = [a.get_attribute("href").partition("#")[2] for a in ann.all("main a")]
    assert links[:3] == ["/memory/m2", "/memory/m3", "/memory/m4"] and not ann.all("main img")


def test_the_page_says_that_nothing_answers_what_superseded_a_result_and_that_its_source_is_unreadable(ann):
    search(ann, "work at Basin", "&history=true")
    ann.shows("superseded by: I work at Heron now")
    assert "No stored memory" not in ann.text()
    ann.browser.execute_script(
        """const send = window.fetch;
        window.fetch = async (path, sent) => {
          const answer = await send(path, sent);
          if (!path.startsWith("/search")) return answer;
          return new Response(JSON.stringify({ ...(await answer.json()), answerable: false }));
        };"""
    )
    search(ann, "work at Heron")
    ann.shows("No stored memory is likely to answer this.")
    result = {"memory_id": "m1", "text": "It is red.", "is_latest": True, "source_unreadable": True}
    script = """const [result, done] = arguments;
        import("/page/changes.js").then(({ consequence }) => done(consequence(result)));"""
    assert ann.browser.execute_async_script(script, result) == "last good version of an unreadable source"


def test_an_edit_and_an_undo_apply_with_the_next_build(ann, home):
    search(ann, "red bike")
    ann.press("source and history")
    ann.press("Edit")
    words = ann.until(lambda: ann.all("#new-words"))[0]
    words.clear()
    words.send_keys("My bike is green zqann.")
    ann.press("Save")
    ann.shows("The next build forms it")
    search(ann, "work at Basin", "&history=true")
    next(li for li in ann.all(".results li") if "Basin as a tester" in li.text).find_element(
        "css selector", "a"
    ).click()
    ann.press("Not replaced: undo")
    ann.shows("Taken back")
    run_without_dagster(home, make_plan(home, None))
    search(ann, "colour of my bike")
    ann.until(lambda: "green zqann" in ann.all(".results li")[0].text or ann.browser.refresh())
    search(ann, "work at Basin")
    assert not [li for li in ann.all(".results li") if "Basin as a tester" in li.text and "superseded" in li.text]


def test_what_is_added_is_followed_until_it_is_published_and_the_graph_changes_by_itself(ann, home):
    ann.open("#/graph")
    before = ann.until(lambda: ann.browser.execute_script("return document.getElementById('graph').dataset.drawnMs"))
    assert float(before) > 0
    ann.open("#/add")
    ann.until(lambda: ann.all("textarea"))[0].send_keys("Carla Viento runs the Lantern project in Porto.")
    ann.press("Send")
    ann.shows("received")
    run_without_dagster(home, make_plan(home, None))
    ann.until(lambda: ann.all("li[data-state=published]"))
    ann.open("#/graph")
    ann.until(lambda: [b for b in ann.all(".nodes button") if "Carla" in b.text])
    ingest_text(home, "Olmo Brandt repairs the Lantern project's boat in Faro.", user="ann", collection="chats")
    ann.until(lambda: ann.browser.execute_script("return !!document.getElementById('graph').cy"))
    run_without_dagster(home, make_plan(home, None))
    ann.until(lambda: ann.browser.execute_script("return document.getElementById('graph').dataset.updates"))
    ann.until(lambda: [b for b in ann.all(".nodes button") if "Olmo" in b.text])  # the update before may come late


SEEN = """
const graph = document.getElementById('graph'), canvas = graph.querySelector('canvas.links');
return graph.cy.nodes().map(n => [...canvas.getContext('2d').getImageData(
  Math.round(n.renderedPosition('x')), Math.round(n.renderedPosition('y')), 1, 1).data])
  .filter(p => p[3] === 255).length === graph.cy.nodes().length"""


def test_a_chosen_node_shows_its_links_and_memories_in_words_and_the_rest_is_dimmed(ann):
    ann.open("#/graph")
    ann.until(lambda: ann.browser.execute_script("return document.getElementById('graph').cy != null"))
    ann.until(lambda: ann.browser.execute_script(SEEN))
    assert int(ann.browser.execute_script("return document.getElementById('graph').dataset.names")) > 0
    next(b for b in ann.all(".nodes button") if "Basin" in b.text).click()
    panel = ann.until(lambda: ann.all("section[aria-label=Node] h3"))[0].find_element("xpath", "..")
    ann.until(lambda: "I work at Basin as a tester." in panel.text)
    assert "superseded, from turns.jsonl" in panel.text and "related to Basin" in panel.text
    assert {b.text for b in panel.find_elements("css selector", "li button")} >= {"Ann", "Heron"}
    assert "chosen" in ann.browser.execute_script("return document.getElementById('graph').className")
    shown = panel.find_element("css selector", "details")
    assert shown.get_attribute("open") is None


def test_a_memory_is_deleted_only_after_it_was_confirmed(ann):
    search(ann, "red bike")
    ann.press("source and history")
    ann.press("Delete")
    ann.press("Delete for good")
    ann.shows("Confirm first")
    ann.all("#sure")[0].click()
    ann.press("Delete for good")
    ann.shows("It is being deleted")
    ann.until(lambda: "deleted" in ann.all("#status")[0].text, 60)
