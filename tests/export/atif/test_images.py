"""`export atif`: images become files beside the trajectories, in the place in which they were sent."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.export.atif.harbor import harbor_errors
from tests.export.families import (
    CHILD,
    GO,
    GRANDCHILD,
    answer,
    asked,
    launch,
    publish,
    result,
    run_export,
    said,
    text,
    use,
)
from tests.export.published import CHAT_REQUEST, CHAT_RESPONSE, RESPONSES_REQUEST, RESPONSES_RESPONSE, publish_calls

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n one").decode()
GIF = base64.b64encode(b"GIF89a two").decode()


def image(data: str = PNG, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def look(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def exported(attempt: Path, folder: Path) -> dict[str, Any]:
    """The trajectory; Harbor has nothing against it, and finds its images."""
    code, _, err = run_export("atif", attempt, "--output", folder)
    assert code == 0, err
    (path,) = folder.glob("*.json")
    assert harbor_errors([path]) == []
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def told(folder: Path, content: list[dict[str, Any]]) -> list[str | bytes]:
    """Texts, and the images that the paths lead to."""
    return [
        part["text"] if part["type"] == "text" else (folder / part["source"]["path"]).read_bytes() for part in content
    ]


def test_images_of_messages_and_of_tool_results_have_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is sent with both requests, and is one file."""
    reads = answer("1", use("t1", "Read"))
    first = look(text("see "), image(), text("this"))
    read = {"type": "tool_result", "tool_use_id": "t1", "content": [text("a.gif"), image(GIF, "image/gif")]}
    last = answer("2", text("done"))
    calls = [("root", asked(first), reads, {}), ("root", asked(first, said(reads), look(read)), last, {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    root = exported(tmp_path / "a", tmp_path / "o")
    _, asked_for, reading, done = root["steps"]
    assert told(tmp_path / "o", asked_for["message"]) == ["see ", base64.b64decode(PNG), "this"]
    assert asked_for["message"][1]["source"]["media_type"] == "image/png"
    assert told(tmp_path / "o", reading["observation"]["results"][0]["content"]) == ["a.gif", base64.b64decode(GIF)]
    assert done["message"] == "done"
    files = sorted(path.suffix for path in (tmp_path / "o").iterdir())
    assert files == [".gif", ".json", ".png"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "o").iterdir())


SENT = {
    "openai-chat-completions": {
        **CHAT_REQUEST,
        "messages": [look({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}})],
    },
    "openai-responses": {
        **RESPONSES_REQUEST,
        "input": [
            look({"type": "input_image", "image_url": f"data:image/png;charset=utf-8;base64,{PNG}", "detail": "auto"})
        ],
    },
}
ANSWERS = {"openai-chat-completions": CHAT_RESPONSE, "openai-responses": RESPONSES_RESPONSE}


@pytest.mark.parametrize("protocol", SENT)
def test_data_urls_are_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    """As Chat Completions and Responses send them."""
    publish_calls(tmp_path / "a", monkeypatch, [(protocol, SENT[protocol], ANSWERS[protocol])])
    root = exported(tmp_path / "a", tmp_path / "o")
    (seen,) = [step for step in root["steps"] if step["source"] == "user"]
    assert told(tmp_path / "o", seen["message"]) == [base64.b64decode(PNG)]


REFUSED = {
    "no chat form: an image that is not in the request": {"type": "image", "source": {"type": "url", "url": "h://x"}},
    "an image of a type that the format has not": image(media_type="image/bmp"),
    "an image that is no base64": image(data="é"),
    "no chat form: tool_reference": {"type": "tool_reference", "tool_name": "Read"},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_image_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Nothing is guessed, and nothing fetched."""
    calls = [("root", asked(look(image(), REFUSED[reason])), answer("1", text("a")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "o")
    assert (code, f"1  {reason}" in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_images_need_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file has no place for them."""
    publish(
        tmp_path / "a",
        monkeypatch,
        [("root", asked(look(image())), answer("1", text("a")), {})],
        parents={},
        relations=(),
    )
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "o.json")
    assert (code, "its 1 image need files of their own: name a folder" in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_another_image_is_another_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts alone would go on from each other."""
    reads = answer("1", use("t1", "Read"))
    calls = [
        ("root", asked(look(text("see"), image())), reads, {}),
        ("root", asked(look(text("see"), image(GIF)), said(reads), result("t1", "x")), answer("2", text("done")), {}),
    ]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "o")
    assert (code, "the history changed" in err) == (1, True)


def test_attempts_share_the_file_of_the_same_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written once, and both lead to it."""
    for name in "ab":
        calls = [("root", asked(look(image())), answer(name, text("x")), {})]
        place = tmp_path / "run" / name
        publish(place, monkeypatch, calls, parents={}, relations=(), capture_id=f"cap_{name:x>20}")
    code, out, err = run_export("atif", tmp_path / "run", "--output", tmp_path / "o", "--json")
    assert (code, json.loads(out)["images"], "  1 image beside them" in err) == (0, 1, True)
    (picture,) = (tmp_path / "o").glob("image-*.png")
    for name in "ab":
        steps = json.loads((tmp_path / "o" / f"{name}.json").read_text())["steps"]
        assert [step["message"][0]["source"]["path"] for step in steps if step["source"] == "user"] == [picture.name]


def test_images_of_what_is_left_out_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child's conversation is refused, and that of its child has no place: their images would belong to nothing."""
    delegates, passes_on = answer("r1", use("toolu_1")), answer("c1", use("toolu_2"))
    calls = [
        ("root", asked(GO), delegates, {}),
        (CHILD, asked(look(image(), image(media_type="image/bmp"))), passes_on, {}),
        (GRANDCHILD, asked(look(image(GIF, "image/gif"))), answer("g1", text("42")), {}),
        ("root", asked(GO, said(delegates), result("toolu_1", "42")), answer("r2", text("done")), {}),
    ]
    relations = (*launch("root", CHILD, "toolu_1", "msg_r1"), *launch(CHILD, GRANDCHILD, "toolu_2", "msg_c1"))
    publish(tmp_path / "a", monkeypatch, calls, parents={CHILD: "root", GRANDCHILD: CHILD}, relations=relations)
    exported(tmp_path / "a", tmp_path / "o")
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["a.json"]
