"""Debian's Chromium, as tests of pages drive it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager


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
