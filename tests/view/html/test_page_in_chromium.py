"""The page as a person uses it: by clicks and keys, in a real browser, with friendly and with hostile content."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from roller_capture.runs.books import SampleState
from roller_capture.view.attempt import load_attempt
from roller_capture.view.family import family_of
from roller_capture.view.gaps import gaps_of
from roller_capture.view.html import command
from roller_capture.view.html.command import PageRequest, write_html
from tests.runs.made_run import MadeRun
from tests.support.publish import publish_family
from tests.view.busy_attempt import NOTICE, busy_attempt
from tests.view.html.chromium import chromium, detail, opened, row, rows
from tests.view.html.hostile import hostile_attempt
from tests.view.html.sessions import long_attempt
from tests.view.published import Record, forge, note_run, without_calls


class Pages:
    """Each page is written once for all tests of this module; the attempts are not to be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with pytest.MonkeyPatch.context() as patch:
            self.busy_attempt = busy_attempt(folder / "run" / "samples" / "busy" / "capture" / "attempt-0001", patch)
        self.busy = self.write(self.busy_attempt, "busy.html")

    def write(self, attempt: Path, name: str, prices: Path | None = None) -> Path:
        """The page of an attempt."""
        assert write_html(PageRequest(attempt, self.folder / name, prices=prices)) == 0
        return self.folder / name


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    folder: Path = tmp_path_factory.mktemp("pages")
    return Pages(folder)


@pytest.fixture
def busy(browser: Browser, pages: Pages) -> Iterator[Page]:
    with opened(browser, pages.busy) as page:
        yield page


TREE = [
    "root 5 calls",
    "#1 title done",
    "#2 → Agent \N{MULTIPLICATION SIGN}4 done",
    "child aaaa000000000001 2 calls",
    "#4 → Task done",
    "child bbbb000000000003 1 call",
    "#5 done",
    "#6 done",
    "child aaaa000000000002 failed 1 call",
    "#3 done",
    "child cccc000000000004 1 call",
    "#9 done",
    "#7 failed 529 purpose unknown",
    "#8 done",
    "#10 done",
    "child dddd000000000005 interrupted pending 0 calls",
    "calls of no agent 2 calls",
    "#11 done",
    "#12 ambiguous done",
]


def test_the_tree_is_that_of_the_terminal(busy: Page) -> None:
    """Children stand under the call that spawned them, in the order of arrival."""
    assert rows(busy) == TREE


def test_an_agent_opens_and_closes_and_calls_can_be_left_out(busy: Page) -> None:
    row(busy, "child aaaa000000000001").locator(".twist").click()
    assert rows(busy) == [*TREE[:4], *TREE[8:]]
    row(busy, "child aaaa000000000001").locator(".twist").click()
    assert rows(busy) == TREE
    busy.get_by_role("button", name="Agents", exact=True).click()
    assert rows(busy) == [item for item in TREE if not item.startswith("#")]


def test_what_is_missing_is_said_in_the_words_of_the_terminal(busy: Page, pages: Pages) -> None:
    attempt = load_attempt(pages.busy_attempt)
    gaps = gaps_of(attempt, family_of(attempt))
    said = busy.locator(".gap").all_inner_texts()
    assert len(said) == len(gaps) == 4
    assert all(gap.sentence in text and (gap.next_step or "") in text for gap, text in zip(gaps, said, strict=True))
    busy.locator(".gap .call-link", has_text="#12").click()
    expect(busy.locator("#detail h1")).to_contain_text("#12")
    assert "ambiguous, evidence names child aaaa000000000001, child aaaa000000000002" in detail(busy)


def test_a_call_shows_what_was_added_and_what_came_back(busy: Page) -> None:
    """#8 repeats what #7 sent, with a result more; #7's purpose is not known, so the call before is #2."""
    row(busy, "#8").click()
    expect(busy.locator("#detail h1")).to_have_text("#8 root← #7#10 →", use_inner_text=False)
    news = busy.locator("#detail h2", has_text="New since")
    expect(news).to_contain_text("New since #2 3 messages")
    added = busy.locator("#detail .message")
    expect(added).to_have_count(3)
    assert [item.strip().splitlines()[-1] for item in added.all_inner_texts()] == ["answer", "answer", "started"]
    assert busy.locator(".answer").inner_text().startswith("done")
    earlier = busy.locator(".part", has_text="Messages as before")
    earlier.locator(".fold-head").first.click()
    expect(earlier.locator(".message")).to_have_count(1)
    assert "the same prompt" in earlier.inner_text()


def test_what_the_cache_gave_is_seen_in_the_tree_and_said_in_the_call(busy: Page) -> None:
    """#6 sent 5,071 tokens, of which 5,000 came from the cache."""
    cells = busy.locator("#sheet .row.call .cell.cache")
    titles = [cell.get_attribute("title") for cell in cells.all()]
    assert [title for title in titles if title] == ["99 % of the input from the cache"]
    row(busy, "#6").click()
    facts = dict(fact.split("\n") for fact in busy.locator("#detail .grid > div").all_inner_texts())
    assert facts.keys() >= {"model", "input", "output", "started", "took", "http", "request"}
    assert (facts["cache read"], facts["cache written"], facts["from the cache"]) == ("5,000", "70", "99 %")


def test_what_a_compaction_took_away_is_said(browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    def compact(calls: list[Record]) -> None:
        said = [{"role": "user", "content": f"message {number}"} for number in range(4)]
        calls[0]["context"] = {"system": "before", "messages": said}
        calls[2]["context"] = {"system": "after", "messages": [said[0], {"role": "user", "content": "the summary"}]}

    attempt = pages.folder / "compacted"
    publish_family(attempt, monkeypatch)
    with opened(browser, pages.write(forge(attempt, calls=compact), "compacted.html"), "#0/c2") as page:
        assert page.locator(".changes").inner_text().split(". ") == [
            "3 messages of #1 are not in this request any more",
            "Not as in #1: system.",
        ]
        expect(page.locator("#detail .messages .message")).to_have_count(1)
        assert "the summary" in detail(page)


def test_a_failed_call_says_why(busy: Page) -> None:
    row(busy, "#7").click()
    text = detail(busy)
    assert "http error: HTTP 529: overloaded_error: Overloaded" in text
    assert "Not exportable: execution not completed." in text


def test_a_relation_leads_to_the_place_in_the_conversation_and_to_the_native_record(busy: Page) -> None:
    row(busy, "child cccc000000000004").locator(".name").click()
    fact = busy.locator(".fact", has_text="result in the context of root")
    fact.locator(".fold-head").first.click()
    record = fact.locator(".evidence", has_text="native record").first
    record.locator(".fold-head").first.click()
    expect(record.locator(".json")).to_contain_text("line1", use_inner_text=False)
    fact.get_by_role("button", name="#10 at /messages/4/content/0", exact=True).click()
    expect(busy.locator("#detail h1")).to_contain_text("#10")
    expect(busy.locator(".flash")).to_contain_text(NOTICE)
    expect(busy.locator(".flash")).to_have_attribute("data-pointer", "/messages/4/content/0")
    expect(busy.locator(".flash .mark")).to_contain_text("result of child cccc000000000004")
    busy.go_back()
    expect(busy.locator("#detail h1")).to_contain_text("child cccc000000000004")


def test_a_spawn_leads_to_the_tool_call(busy: Page) -> None:
    row(busy, "child bbbb000000000003").locator(".name").click()
    busy.locator(".fact", has_text="spawned by Task").locator(".fold-head").first.click()
    busy.get_by_role("button", name="tool call in #4").click()
    expect(busy.locator(".flash .tool-name")).to_have_text("Task")
    busy.locator(".flash .mark .agent-link").click()
    expect(busy.locator("#detail h1")).to_contain_text("child bbbb000000000003")


def test_search_finds_texts_names_and_ids_and_leads_to_them(busy: Page) -> None:
    busy.keyboard.press("/")
    busy.keyboard.type(NOTICE)
    expect(busy.locator("#found .hit")).to_have_count(1)
    busy.keyboard.press("Enter")
    expect(busy.locator(".flash")).to_contain_text(NOTICE)
    assert busy.evaluate("[...CSS.highlights.get('found')].map(range => range.toString())") == [NOTICE]
    busy.fill("#query", "done")
    places = busy.locator("#found .hit")
    expect(places.nth(2)).to_be_visible()
    busy.locator("#query").blur()
    for keys, place in ((("n", "n"), 1), (("n",), 2), (("p",), 1)):
        for key in keys:
            busy.keyboard.press(key)
        expect(places.nth(place)).to_have_class(re.compile("selected"))
    busy.fill("#query", "CCCC00000000")
    expect(busy.locator("#found .hit").first).to_contain_text("child cccc000000000004")
    busy.fill("#query", "529")
    expect(busy.locator("#found .hit .n").first).to_have_text("#7")
    busy.fill("#query", "what nobody said")
    expect(busy.locator("#found")).to_contain_text("0 places")
    busy.keyboard.press("Escape")
    expect(busy.locator("#rows")).to_be_visible()
    assert rows(busy) == TREE


def test_the_keyboard_is_enough(busy: Page) -> None:
    def heading() -> str:
        return " ".join(busy.locator("#detail h1").inner_text().split())

    def shows(what: object, *keys: str, of: Callable[[], object] = heading) -> None:
        """After the keys it shows this, as soon as the browser has drawn it."""
        for key in keys:
            busy.keyboard.press(key)
        for _ in range(500):
            if of() == what:
                break
            busy.wait_for_timeout(20)
        assert of() == what

    def chosen() -> str | None:
        return busy.locator("#rows").get_attribute("aria-activedescendant")

    def first_word() -> str:
        return heading().split()[0]

    shows("root", "ArrowDown")
    shows("#2 root ← #1 #7 →", "j", "j")
    shows("#7", "]", of=first_word)
    shows("#2", "[", of=first_word)
    shows("#4", "ArrowDown", "ArrowDown", of=first_word)
    shows("child aaaa000000000001", "ArrowLeft")
    shows([*TREE[:4], *TREE[8:]], "ArrowLeft", of=lambda: rows(busy))
    shows(TREE, "ArrowRight", of=lambda: rows(busy))
    shows("#12", "End", of=first_word)
    shows(7, "a", of=lambda: len(rows(busy)))
    shows("claude-code", "a", "g", of=first_word)
    busy.keyboard.press("?")
    expect(busy.locator("#keys")).to_be_visible()
    busy.keyboard.press("Escape")
    expect(busy.locator("#keys")).to_be_hidden()
    assert chosen() is None
    shows("row-a0", "j", of=chosen)


def test_light_and_dark(browser: Browser, pages: Pages) -> None:
    """As the system says, and the other way round by a key; canvas and text follow."""

    def look(page: Page) -> tuple[str, str]:
        style = "getComputedStyle(document.querySelector('#left'))"
        return page.evaluate(f"{style}.backgroundColor"), page.evaluate(f"{style}.color")

    looks = {}
    for scheme in ("light", "dark"):
        with opened(browser, pages.busy, scheme=scheme) as page:
            looks[scheme] = look(page)
            page.keyboard.press("t")
            looks[f"{scheme} and t"] = look(page)
    assert looks["light"] == looks["dark and t"] == ("rgb(255, 255, 255)", "rgb(28, 32, 38)")
    assert looks["dark"] == looks["light and t"] == ("rgb(25, 28, 32)", "rgb(227, 230, 234)")


OPEN_EVERYTHING = """async () => {
    for (let quiet = 0; quiet < 3; ) {
        const closed = document.querySelectorAll('#detail .fold:not(.open) > .fold-head');
        closed.forEach((head) => head.click());
        quiet = closed.length ? 0 : quiet + 1;
        await new Promise((done) => setTimeout(done, 20));
    }
}"""


def test_hostile_content_stays_text(browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is opened; nothing runs, no element comes out of it, nothing is asked for, nothing is hidden."""
    attempt = hostile_attempt(pages.folder / "</script><script>window.canary=1</script>"[:8] / "a", monkeypatch)
    page_file = pages.write(attempt, "hostile.html")
    own = "script, style, meta, base, img, iframe, svg, link, object, embed"
    with opened(browser, page_file) as page:
        before = page.locator(own).count()
        for place in range(len(rows(page))):
            page.locator("#sheet .row").nth(place).click()
            page.evaluate(OPEN_EVERYTHING)
            assert page.locator(own).count() == before
            text = page.locator("body").inner_text()
            assert "<script>window.canary = 1</script>" in text
            assert not set(text) & set("\u2028\u2029\u202e\u2066\u200b\ufeff\x00\x07\x1b\x9b")
        page.fill("#query", "<script>")
        expect(page.locator("#found mark").first).to_have_text("<script>")
        assert page.evaluate("window.canary") is None
        assert page.locator("#detail [onerror], #detail [onload], #detail [href], #detail [src]").count() == 0


def test_the_policy_refuses_what_would_slip_through(browser: Browser, pages: Pages) -> None:
    """A second wall behind the first: even a mistake in our own script could not make markup of data."""
    with opened(browser, pages.busy, refused="TrustedHTML") as page:
        script = "(() => { try { document.body.innerHTML = '<b>x</b>'; } catch { return 'refused'; } })()"
        assert page.evaluate(script) == "refused"


def test_two_thousand_calls_keep_the_page_small(
    browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only rows that can be seen are there: at the top, at the end, and after a jump, the selected one among them."""
    attempt = long_attempt(pages.folder / "long", monkeypatch, agents=100, calls_each=19)
    with opened(browser, pages.write(attempt, "long.html")) as page:
        assert page.locator("#chips").inner_text().split("\n")[3:5] == ["2,001 calls", "101 agents"]
        assert page.locator("#rows").get_attribute("aria-rowcount") == "101"
        page.keyboard.press("a")
        assert page.locator("#rows").get_attribute("aria-rowcount") == "2102"
        assert page.evaluate("document.querySelectorAll('*').length") < 2000
        page.keyboard.press("End")
        expect(page.locator(".row.selected")).to_contain_text("#2001")
        expect(page.locator("#detail .message")).to_have_count(2)
        page.fill("#query", "toolu_5_3")  # its name, in the response, in the call and the result that are sent on
        expect(page.locator(".found-head")).to_contain_text("Esc to close")
        texts = page.locator("#found .hit .kind").all_inner_texts()
        assert sorted(texts) == ["call", "message", "message", "response"]
        page.keyboard.press("Escape")
        page.evaluate("location.hash = '#0/c1000'")
        expect(page.locator(".row.selected")).to_contain_text("#1001")
        assert page.locator("#sheet .row").count() < 80
        assert page.evaluate("document.querySelectorAll('*').length") < 2000


def test_large_texts_and_long_conversations_open_on_demand(
    browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three megabytes in one message, and 500 messages in one request: neither is in the page before it is wanted."""
    words = "a long text that goes on. " * 120_000
    folder = pages.folder / "large"
    publish_family(folder, monkeypatch)
    many = [{"role": "user", "content": f"message number {place}"} for place in range(500)]

    def enlarge(calls: list[dict[str, object]]) -> None:
        calls[0]["context"] = {"messages": [{"role": "user", "content": f"{words}the very end"}]}
        calls[2]["context"] = {"messages": many}

    with opened(browser, pages.write(forge(folder, calls=enlarge), "large.html"), "#0/c0") as page:
        assert "opens on demand" in detail(page)
        assert page.evaluate("document.body.innerText.length") < 10_000
        page.locator("#detail .message .fold-head").click()
        expect(page.locator(".more").first).to_contain_text("more characters")
        assert page.evaluate("document.body.innerText.length") < 20_000
        page.fill("#query", "the very end")
        page.locator("#found .hit").click()
        expect(page.locator(".flash")).to_contain_text("the very end")
        page.keyboard.press("Escape")
        page.evaluate("location.hash = '#0/c2'")
        expect(page.locator("#detail .message")).to_have_count(60)
        page.get_by_role("button", name="show 60 of 440 more messages").click()
        expect(page.locator("#detail .message")).to_have_count(120)
        page.fill("#query", "message number 333")
        page.locator("#found .hit").click()
        expect(page.locator(".flash")).to_contain_text("message number 333")


def test_numbers_keep_their_spelling_and_costs_are_shown(
    browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pages.folder / "numbers"
    publish_family(folder, monkeypatch)
    attempt = forge(folder, calls=lambda calls: calls[0]["context"].update(seed=12345678901234567890123, top_p=1.0))
    prices = pages.folder / "prices.json"
    prices.write_text(json.dumps({"currency": "EUR", "per_tokens": 1, "models": {"fake-*": {"input": 2, "output": 1}}}))
    with opened(browser, pages.write(attempt, "numbers.html", prices), "#0/c0") as page:
        parameters = page.locator(".part", has_text="Parameters")
        parameters.locator(".fold-head").first.click()
        expect(parameters).to_contain_text("12345678901234567890123")
        expect(parameters).to_contain_text("1.0")
        assert "11.0000 EUR" in detail(page)
        assert "33.0000 EUR" in page.locator("#chips").inner_text()
        assert page.locator("#row-c0 .cell.cost").inner_text() == "11.00"
    run = pages.folder / "priced"
    for name in ("one", "two"):
        publish_family(run / name, monkeypatch)
    with opened(browser, pages.write(run, "priced.html", prices)) as page:
        heads = page.locator(".runs th").all_inner_texts()
        assert page.locator(".runs tbody td").nth(heads.index("cost")).inner_text() == "33.0000 EUR"


def test_a_run_is_a_table_that_leads_to_its_attempts(
    browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = pages.folder / "run"
    publish_family(run / "samples" / "small" / "capture" / "attempt-0001", monkeypatch)
    with opened(browser, pages.write(run, "run.html")) as page:
        lines = page.locator(".runs tbody tr")
        assert [line.split("\t")[0] for line in lines.all_inner_texts()] == [
            "busy · attempt-0001",
            "small · attempt-0001",
        ]
        heads = page.locator(".runs th").all_inner_texts()
        assert "harness" not in heads  # all have the same: it stands above
        assert page.locator("#detail .grid > div").first.inner_text().split("\n") == ["harness", "claude-code 2.1.332"]
        cells = dict(zip(heads, lines.first.locator("td").all_inner_texts(), strict=True))
        assert [cells[name] for name in ("agents", "calls", "exportable")] == ["6", "12", "9"]
        assert cells["remarks"].startswith("1 agent failed, 1 agent interrupted, 1 call failed, identity ambiguous (1)")
        assert lines.nth(1).locator("td").last.inner_text().strip() == ""
        page.fill("#query", "partial")
        expect(lines).to_have_count(1)
        page.get_by_role("link", name="busy · attempt-0001").click()
        expect(page.locator("#home")).to_have_text("run / busy · attempt-0001")
        assert rows(page) == TREE
        page.go_back()
        expect(page.locator(".runs")).to_be_visible()
        page.get_by_role("link", name="small · attempt-0001").click()
        expect(page.locator("#home")).to_have_text("run / small · attempt-0001")
        assert rows(page) == [
            "root 2 calls",
            "#1 purpose unknown → Agent done",
            "child a0123456 1 call",
            "#2 purpose unknown answer",
            "#3 purpose unknown done",
        ]
        page.keyboard.press("u")
        expect(page.locator(".runs tbody tr")).to_have_count(2)
        for key in ("ArrowDown", "j", "ArrowUp", "ArrowUp", "ArrowDown"):
            page.keyboard.press(key)
        expect(page.locator(".runs a").nth(1)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#home")).to_have_text("run / small · attempt-0001")
        page.keyboard.press("u")
        page.keyboard.press("/")
        page.keyboard.type("small")
        page.keyboard.press("Enter")  # at once
        expect(lines).to_have_count(1)
        page.keyboard.press("Enter")
        expect(page.locator("#home")).to_have_text("run / small · attempt-0001")


def test_a_list_of_pages_leads_to_each_and_back(
    browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a run with more attempts than one page holds."""
    monkeypatch.setattr(command, "MOST_ATTEMPTS", 1)
    run = pages.folder / "many"
    for name in ("one", "two"):
        publish_family(run / "samples" / name / "capture" / "attempt-0001", monkeypatch)
    with opened(browser, pages.write(run, "many.html")) as page:
        lines = page.locator(".runs tbody tr")
        expect(lines).to_have_count(2)
        page.fill("#query", "two")
        expect(lines).to_have_count(1)
        page.get_by_role("link", name="two · attempt-0001").click()
        expect(page.locator("#home")).to_have_text("two · attempt-0001")
        assert page.url.endswith("/many-attempts/000002.html")
        row(page, "#2").click()
        expect(page.locator("#detail h1")).to_contain_text("#2")
        page.go_back()
        page.go_back()
        expect(page.locator("#home")).to_have_text("many")
        lines.first.locator("td").nth(2).click()
        expect(page.locator("#home")).to_have_text("one · attempt-0001")
        expect(page.locator("#sheet .row")).to_have_count(5)


def test_a_run_counts_what_failed_and_leaves_out_what_was_made_again(
    browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = MadeRun(pages.folder / "again", monkeypatch)
    run.begin()
    again = run.done("again", state=SampleState.FAILED)
    entry = run.record(again)
    again.settle(entry, run.publish(again, entry))
    run.done("bad", state=SampleState.FAILED)
    note_run(run.attempt("bad"), exit_codes=[3], stderr_tail="boom: no way")
    with opened(browser, pages.write(run.directory, "again.html")) as page:
        facts = page.locator("#detail .grid > div").all_inner_texts()
        assert [fact.split("\n") for fact in facts[1:5]] == [
            ["run completed", "1"],
            ["run failed", "1"],
            ["capture complete", "2"],
            ["calls", "6"],
        ]
        assert "1 attempt is superseded" in detail(page)
        expect(page.locator(".runs .older td").first).to_have_text("again · attempt-0001 superseded")
        assert "exit code 3: boom: no way" in page.locator(".runs tr", has_text="bad").inner_text()
        page.set_viewport_size({"width": 420, "height": 800})
        box = page.locator("#detail").bounding_box()
        assert box is not None
        assert box["height"] > 700


def test_a_run_that_failed_without_a_call_says_why_and_has_no_empty_headings(
    browser: Browser, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = pages.folder / "nothing"
    publish_family(attempt, monkeypatch)
    forge(without_calls(attempt), manifest=lambda whole: whole.update(execution_status="failed"))
    note_run(attempt, exit_codes=[3], ended_by="harness", stderr_tail="<b>Traceback</b>\nboom: no way")
    with opened(browser, pages.write(attempt, "nothing.html")) as page:
        assert page.locator("#detail .bad-note").inner_text().split("\n\n") == [
            "The run failed: exit code 3.",
            "Its error output ends:",
            "<b>Traceback</b>\nboom: no way",
        ]
        assert page.locator("#detail h2").all_inner_texts() == ["What is missing"]
        assert "No model call was recorded." in detail(page)


@pytest.mark.parametrize("width", [1280, 420])
def test_everything_has_room(browser: Browser, pages: Pages, width: int) -> None:
    """The triangle of a sentence that wraps stands beside it; no button is cut off, and the last bar ends in view."""
    with opened(browser, pages.busy, "#0/a1") as page:
        page.set_viewport_size({"width": width, "height": 900})
        heads = page.locator("#detail .fact > .fold-head")
        lines = [head.locator("> :last-child").bounding_box() for head in heads.all()]
        twists = [head.locator(".twist").bounding_box() for head in heads.all()]
        assert max(line["height"] for line in lines if line) > 30
        for line, twist in zip(lines, twists, strict=True):
            assert line is not None
            assert twist is not None
            assert twist["x"] + twist["width"] <= line["x"]
            assert abs(twist["y"] - line["y"]) < 8
        for button in page.locator("#tools button").all():
            box = button.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
        left, lane = page.locator("#left").bounding_box(), page.locator("#row-c0 canvas").bounding_box()
        assert left is not None
        assert lane is not None
        assert left["x"] + left["width"] - 20 < lane["x"] + lane["width"] <= left["x"] + left["width"] - 8
