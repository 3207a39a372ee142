"""The format goes by the file's name, and never against it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.export.request import Format, format_of
from tests.export.main.test_main import two_turns
from tests.export.published import publish_calls, three_protocols


@pytest.mark.parametrize(
    ("name", "asked", "chosen"),
    [
        ("x.parquet", None, Format.PARQUET),
        ("x.PARQUET", None, Format.PARQUET),
        ("x.jsonl", None, Format.JSONL),
        ("x", None, Format.JSONL),
        ("x", Format.PARQUET, Format.PARQUET),
        ("x.parquet", Format.PARQUET, Format.PARQUET),
    ],
)
def test_the_name_decides_where_nothing_is_asked_for(name: str, asked: Format | None, chosen: Format) -> None:
    """Names that say nothing are JSON lines, as ever."""
    assert format_of(Path(name), asked) is chosen


@pytest.mark.parametrize(("name", "asked"), [("x.parquet", Format.JSONL), ("x.jsonl", Format.PARQUET)])
def test_a_contradiction_is_refused(name: str, asked: Format) -> None:
    """Readers go by the name."""
    with pytest.raises(RollerError, match=f"--format {asked}: {name} is the name of a ") as refused:
        format_of(Path(name), asked)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("kind", ["calls", "main"])
def test_a_parquet_file_is_one(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --format."""
    publish_calls(tmp_path / "attempt", monkeypatch, two_turns() if kind == "main" else three_protocols())
    output = tmp_path / "x.parquet"
    form = ["--as", "sft"] if kind == "main" else []
    result = CliRunner().invoke(app, ["export", kind, str(tmp_path / "attempt"), "--output", str(output), *form])
    assert result.exit_code == 0, result.stderr
    assert output.read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize("command", [("calls",), ("main",), ("atif",), ("otel",), ("har",)])
def test_a_dash_makes_no_file_of_that_name(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It means stdout elsewhere, and files here appear whole or not at all."""
    publish_calls(tmp_path / "attempt", monkeypatch, three_protocols())
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["export", *command, "attempt", "--output", "-"])
    assert isinstance(result.exception, RollerError)
    assert (result.exception.exit_code, str(result.exception)) == (2, "-: stdout is no file: name one")
    assert not (tmp_path / "-").exists()


def test_what_a_purpose_left_out_is_said_with_the_option_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls are exportable; they were made for something else than was asked for."""
    publish_calls(tmp_path / "attempt", monkeypatch, three_protocols())
    command = ["export", "calls", str(tmp_path / "attempt"), "--purpose", "title"]
    result = CliRunner().invoke(app, [*command, "--output", str(tmp_path / "x.jsonl")])
    assert result.exit_code == 1
    assert "purpose agent (exportable: --purpose agent takes them)" in result.stderr
    assert "nothing to export: no file was written; --purpose agent would take 3 exportable calls" in result.stderr
