"""The timeline as it is painted: who ran when, beside whom, and what failed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator

from roller_capture.view.html.command import PageRequest, write_html
from tests.support.publish import publish_family
from tests.view.busy_attempt import busy_attempt
from tests.view.html.chromium import chromium, opened
from tests.view.html.sessions import moment
from tests.view.published import Record, forge


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def page_of(attempt: Path) -> Path:
    """The page of an attempt, beside it."""
    output = attempt.with_name(f"{attempt.name}.html")
    assert write_html(PageRequest(attempt, output)) == 0
    return output


def at(call: Record, start: float, end: float, first: float | None = None) -> None:
    """The call ran from `start` to `end`, in seconds; its answer began to come at `first`."""
    call["timing"] |= {
        "request_start": moment(start),
        "end": moment(end),
        "first_byte_ms": None if first is None else (first - start) * 1000,
        "duration_ms": (end - start) * 1000,
    }


# In the middle of the bar: what is coloured (grid and pauses are grey), and what of it is not pale. As shares of the
# whole width, and the last place also as pixels from the end.
PAINTED = """canvas => {
    const {data} = canvas.getContext('2d').getImageData(0, canvas.height / 2, canvas.width, 1);
    const blue = [...Array(canvas.width).keys()].filter(x => data[4 * x + 2] - data[4 * x] > 15);
    const isFull = x => data[4 * x + 3] === 255;
    const full = blue.filter(x => isFull(x) && isFull(x + 1)); // a line of the grid is one wide
    const share = x => x / canvas.width;
    return {from: share(blue[0]), full: share(full[0]), to: share(blue.at(-1) + 1), part: share(blue.length),
            left: canvas.width - blue.at(-1)};
}"""

# Redder than any agent's colour.
RED = """canvas => {
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const [r, g, b, alpha] = [0, 1, 2, 3].map(part => place => data[4 * place + part]);
    return [...Array(data.length / 4).keys()].some(x => alpha(x) && r(x) - g(x) > 120 && r(x) - b(x) > 100);
}"""


def bar(canvas: Locator) -> list[float]:
    """Where the bar begins, where it is no longer pale, where it ends."""
    painted = canvas.evaluate(PAINTED)
    return [painted["from"], painted["full"], painted["to"]]


def test_each_call_has_its_bar_where_it_ran(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that runs beside its parent is drawn beside it; pale while the answer was waited for. `+` zooms."""

    def side_by_side(calls: list[Record]) -> None:
        at(calls[0], 0, 20, first=10)
        at(calls[1], 10, 50, first=40)
        at(calls[2], 30, 100, first=30)

    publish_family(tmp_path / "a", monkeypatch)
    with opened(browser, page_of(forge(tmp_path / "a", calls=side_by_side))) as page:
        near = pytest.approx
        assert bar(page.locator("#row-c0 canvas")) == near([0, 0.1, 0.2], abs=0.03)
        assert bar(page.locator("#row-c1 canvas")) == near([0.1, 0.4, 0.5], abs=0.03)
        assert bar(page.locator("#row-c2 canvas")) == near([0.3, 0.3, 1], abs=0.03)
        assert page.locator("#row-a0 canvas").evaluate(PAINTED)["part"] == near(0.9, abs=0.03)
        page.locator("#row-c1").click()
        facts = dict(fact.split("\n") for fact in page.locator("#detail .grid > div").all_inner_texts())
        assert [facts[name] for name in ("started", "first byte", "took")] == ["+10.0 s", "30.0 s", "40.0 s"]
        page.keyboard.press("+")
        begin, _, end = bar(page.locator("#row-c1 canvas"))
        assert end - begin > 0.5
        page.keyboard.press("0")
        assert bar(page.locator("#row-c1 canvas")) == near([0.1, 0.4, 0.5], abs=0.03)


def test_what_failed_is_red(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the timeline of the attempt, and in its line in the table of a run."""

    publish_family(tmp_path / "run" / "good", monkeypatch)
    busy_attempt(tmp_path / "run" / "bad", monkeypatch)
    with opened(browser, page_of(tmp_path / "run")) as page:
        lines = [page.locator(".runs tr", has_text=name) for name in ("good", "bad")]
        assert [line.locator("canvas").evaluate(RED) for line in lines] == [False, True]
        assert "1 call failed" in lines[1].inner_text()
        lines[1].get_by_role("link").click()
        calls = [page.locator(f"#row-c{number} canvas") for number in range(12)]
        assert [number for number, canvas in enumerate(calls, 1) if canvas.evaluate(RED)] == [7]


@pytest.mark.parametrize("unit", [0.001, 1])
def test_a_pause_is_drawn_narrow_however_short_the_session_is(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: float
) -> None:
    """Two turns of 15 milliseconds, or seconds, with a long pause; a call without duration at the end is seen too."""

    def two_turns(calls: list[Record]) -> None:
        at(calls[0], 0, 15 * unit)
        at(calls[1], 1800 * unit, 1800 * unit)
        at(calls[2], 1785 * unit, 1800 * unit)

    publish_family(tmp_path / "a", monkeypatch)
    with opened(browser, page_of(forge(tmp_path / "a", calls=two_turns))) as page:
        assert page.locator("#row-a0 canvas").evaluate(PAINTED)["part"] > 0.9
        assert page.locator("#row-c1 canvas").evaluate(PAINTED)["left"] <= 10


PAINT = """canvas => {
    const {data} = canvas.getContext('2d').getImageData(0, canvas.height / 2, canvas.width, 1);
    const at = data.findLastIndex((value, at) => at % 4 === 3 && value === 255 && data[at - 1] > data[at - 3] + 15);
    return [...data.slice(at - 3, at)];
}"""


def test_what_is_painted_follows_light_and_dark(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root's colour in both, in the page that was open all the time."""
    publish_family(tmp_path / "a", monkeypatch)
    with opened(browser, page_of(tmp_path / "a")) as page:
        lane = page.locator("#row-a0 canvas")
        assert lane.evaluate(PAINT) == [0x4A, 0x5A, 0x78]
        page.keyboard.press("t")
        assert lane.evaluate(PAINT) == [0x94, 0xA5, 0xC6]
        page.emulate_media(color_scheme="dark")
        page.keyboard.press("t")
        assert lane.evaluate(PAINT) == [0x4A, 0x5A, 0x78]
