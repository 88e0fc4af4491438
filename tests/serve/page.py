"""The page as a person uses it, in a real browser."""

import time

from palimpsest.serve.guard import make_token
from tests.serve.conftest import TOKENS

WAIT_S = 20


class Page:
    """What a person does in the page."""

    def __init__(self, browser, address):
        self.browser, self.address = browser, address

    def open(self, place=""):
        self.browser.get(self.address + place)

    def all(self, css):
        return self.browser.find_elements("css selector", css)

    def until(self, what, seconds=WAIT_S):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := what():
                    return found
            except Exception as e:  # the view is being drawn anew
                last = e
            time.sleep(0.1)
        raise AssertionError(f"not seen: {self.text()[:500]} {locals().get('last', '')}")

    def text(self):
        return self.browser.find_element("css selector", "body").text

    def shows(self, text):
        self.until(lambda: text in self.text())

    def press(self, name):
        self.until(lambda: next(b for b in self.all("button, summary, a") if b.text == name and b.is_enabled())).click()

    def sign_in(self, user="ann", **claims):
        self.open()
        self.browser.execute_script("sessionStorage.clear()")
        self.browser.refresh()
        self.until(lambda: self.all("input[type=password]"))[0].send_keys(make_token(TOKENS, user, **claims))
        self.press("Sign in")
        self.shows("Question")


def search(page, question, more=""):
    page.open(f"#/search?q={question.replace(' ', '+')}{more}")
    page.until(lambda: page.all(".results li"))
