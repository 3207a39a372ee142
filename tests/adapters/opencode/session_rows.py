"""Small sessions of OpenCode, written as the extract of its database, for tests of single rules."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roller_capture.adapters.opencode import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture

Row = dict[str, Any]
ROOT = "ses_root"
CHILD = "ses_child"


class Rows:
    """Rows in the order in which OpenCode writes them; ids count up by themselves."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._count = 0

    def session(self, identifier: str = ROOT, parent: str | None = None, **more: Any) -> "Rows":
        self.rows.append({"table": "session", "id": identifier, "parent_id": parent, "version": "1.18.33", **more})
        return self

    def message(self, session: str, data: Mapping[str, Any], identifier: str | None = None) -> str:
        self._count += 1
        identifier = identifier or f"msg_{self._count:03d}"
        self.rows.append({"table": "message", "id": identifier, "session_id": session, "data": json.dumps(data)})
        return identifier

    def part(self, session: str, message: str, data: Mapping[str, Any]) -> "Rows":
        self._count += 1
        row = {"id": f"prt_{self._count:03d}", "message_id": message, "session_id": session, "data": json.dumps(data)}
        self.rows.append({"table": "part", **row})
        return self

    def prompt(self, session: str = ROOT) -> str:
        """A message that somebody typed."""
        message = self.message(session, {"role": "user", "time": {"created": 1}})
        self.part(session, message, {"type": "text", "text": "Do it."})
        return message

    def answer(self, session: str = ROOT, *parts: Mapping[str, Any], finish: str = "stop", **more: Any) -> str:
        """A model answer that ended well, with the given parts between its begin and its end."""
        data = {"role": "assistant", "mode": "build", "time": {"created": 1, "completed": 2}, "finish": finish, **more}
        message = self.message(session, {key: value for key, value in data.items() if value is not None})
        for part in ({"type": "step-start"}, *parts, {"type": "step-finish", "reason": finish}):
            self.part(session, message, part)
        return message

    def notice(
        self, child: str = CHILD, state: str = "completed", session: str = ROOT, *, synthetic: bool = True
    ) -> str:
        """The automatic message about a child's end, or the same text as somebody would type it."""
        message = self.message(session, {"role": "user", "time": {"created": 1}})
        mark = {"synthetic": True} if synthetic else {}
        self.part(session, message, {"type": "text", "text": wrapped(child, state), **mark})
        return message

    def write(self, folder: Path) -> Path:
        """The extract, in a folder of its own."""
        native = folder / "native"
        native.mkdir(parents=True, exist_ok=True)
        (native / "opencode.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        return native

    def read(self, folder: Path, **seen: str) -> NativeCapture:
        """What the adapter makes of it. `seen` are header values of the attempt's calls, `_` for `-`."""
        headers = {name.replace("_", "-"): frozenset({value}) for name, value in seen.items()}
        return read(AdapterInput(self.write(folder), {"x-session-id": frozenset({ROOT}), **headers}))


def wrapped(child: str, state: str) -> str:
    """How OpenCode 1.18 wraps a child's result for its parent."""
    return f'<task id="{child}" state="{state}">\n<task_result>\nThe answer.\n</task_result>\n</task>'


def task(child: str | None = CHILD, call_id: str = "call_1", status: str = "completed", **more: Any) -> Row:
    """A delegating tool part. `metadata` members come after those that OpenCode writes."""
    metadata = {} if child is None else {"sessionId": child, "parentSessionId": more.pop("parent", ROOT)}
    metadata |= more.pop("metadata", {})
    state = {"status": status, "input": {}, **({"metadata": metadata} if metadata else {}), **more}
    if status == "completed":
        told = "running" if metadata.get("background") else "completed"
        state.setdefault("output", wrapped(str(child), told))
    return {"type": "tool", "tool": "task", "callID": call_id, "state": state}


def launch(child: str = CHILD, call_id: str = "call_1") -> Row:
    """The acknowledgement of a child in the background."""
    return task(child, call_id, metadata={"background": True, "jobId": child})


def one_child(*parts: Row, child_answer: Mapping[str, Any] | None = None) -> Rows:
    """A root that delegated by `parts`, the child's session, and nothing after the root's answer."""
    rows = Rows().session().session(CHILD, ROOT)
    rows.prompt()
    rows.answer(ROOT, *parts, finish="tool-calls")
    rows.prompt(CHILD)
    if child_answer is None:
        rows.answer(CHILD)
    elif child_answer:
        rows.answer(CHILD, **child_answer)
    return rows


def kinds(capture: NativeCapture) -> list[str]:
    """The types of all native relations, in order."""
    return [relation.type.value for relation in capture.relations]


def codes(capture: NativeCapture) -> list[str]:
    """The codes of all gaps, in order."""
    return [gap.code.value for gap in capture.gaps]
