"""Opens a page in the system's Chromium and holds it to its promise: no network, no script but its own."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, or a skip that says what was not run."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        # No fault of ours: the summary says so loudly, and nothing fails.
        pytest.skip("NOT RUN: there is no Chromium here: apt-get install chromium")
    # A browser that root starts has no sandbox; in CI everything is root's.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Browser, file: Path, fragment: str = "", *, scheme: str = "light", refused: str | None = None
) -> Iterator[Page]:
    """The page, ready. At the end: it asked for nothing but files beside it, broke no policy, and raised no error.

    `refused` stands in the messages of the policy that a test provokes.
    """
    page = browser.new_page(viewport={"width": 1500, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page.set_default_timeout(10_000)
    asked: list[str] = []
    troubles: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.goto(file.as_uri() + fragment)
    page.wait_for_selector("body[data-ready]", state="attached")
    yield page
    page.close()
    assert [text for text in troubles if refused is None or refused not in text] == []
    outside = [url for url in asked if not url.startswith(file.parent.as_uri())]
    assert outside == []


def rows(page: Page) -> list[str]:
    """The texts of the rows of the tree that are drawn, from top to bottom, without the numbers."""
    page.locator("#sheet .row").first.wait_for()
    found = page.eval_on_selector_all(
        "#sheet .row", "all => all.map(row => [parseFloat(row.style.top), row.querySelector('.label').innerText])"
    )
    return [" ".join(text.split()) for _, text in sorted(found)]


def row(page: Page, text: str) -> Locator:
    """The row whose label begins so."""
    return page.locator("#sheet .row").filter(has=page.locator(f".label:has-text('{text}')")).first


def detail(page: Page) -> str:
    """All that the right side says."""
    return page.locator("#detail").inner_text()
