"""A rig for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.scripted_provider import ModelRequest, Reply, ScriptedProvider
from tests.collect.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    def decide(request: ModelRequest) -> Reply:
        return next((reply for word, reply in made.replies.items() if word in request.prompt_text), Reply(text="Hi."))

    (tmp_path / "work").mkdir()
    with ScriptedProvider(decide) as provider:
        made = Rig(tmp_path, provider)
        yield made
        for process in made.processes:
            if process.returncode is None:
                process.kill()
                process.communicate()
        assert provider.script_errors == []
