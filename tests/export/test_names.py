"""The names of outputs: none that promises another form, and errors name what the user named."""

from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.export import output_files
from roller_capture.export.output_files import OutputFiles
from roller_capture.remote.location import Location
from roller_capture.remote.sending import Destination
from tests.export.families import publish_generations, run_export

REFUSED = [
    ("calls", "x.jsonl.gz", "export calls writes JSON Lines (.jsonl) or Parquet (.parquet), and no .gz"),
    ("calls", "x.csv", "and no .csv"),
    ("calls", "x.json", "and no .json"),
    ("calls", "x.HAR", "and no .har"),
    ("calls --format parquet", "x.json", "and no .json"),
    ("main", "x.jsonl.zst", "export main writes JSON Lines (.jsonl), and no .zst"),
    ("main", "x.json", "and no .json"),
    ("main --as sft", "x.tsv", "export main --as sft writes JSON Lines (.jsonl) or Parquet (.parquet), and no .tsv"),
    ("har", "x.jsonl", "export har writes HAR 1.2, which is JSON (.har, .json), and no .jsonl"),
    ("har", "x.har.xz", "and no .xz"),
    ("otel", "spans.parquet", "export otel writes lines of OTLP/JSON (.jsonl, .json), and no .parquet"),
    ("otel", "x.pb", "and no .pb"),
    ("atif", "x.jsonl", "export atif writes JSON: NAME.json for one attempt, or a folder, and no .jsonl"),
    ("atif", "x.zip", "and no .zip"),
]
TAKEN = [
    *(("calls", name) for name in ("x", "x.ndjson", "x.txt", "x.v1", ".csv")),
    *(("main", name) for name in ("x.jsonl", "x.actf")),
    *(("har", name) for name in ("x.har", "x.json", "x")),
    *(("otel", name) for name in ("x.json", "x.jsonl", "x.otlp")),
    *(("atif", name) for name in ("x.json", "x.JSON", "x", "x.d")),
]


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Published once."""
    with pytest.MonkeyPatch.context() as patch:
        return publish_generations(tmp_path_factory.mktemp("a") / "attempt", patch)


@pytest.mark.parametrize(("command", "name", "words"), REFUSED)
def test_a_name_that_promises_another_form_is_refused(
    attempt: Path, tmp_path: Path, command: str, name: str, words: str
) -> None:
    """One line that says what is written; exit 2, and nothing is there."""
    code, _, err = run_export(*command.split(), attempt, "--output", tmp_path / name)
    assert (code, err.count("\n")) == (2, 1)
    assert f"--output {name}: " in err
    assert f"{words}: change the name" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("command", "name"), TAKEN)
def test_other_names_go_on_as_before(attempt: Path, tmp_path: Path, command: str, name: str) -> None:
    """They promise nothing, or what is written."""
    assert run_export(command, attempt, "--output", tmp_path / name)[0] == 0
    assert (tmp_path / name).is_dir() is (command == "atif" and not name.lower().endswith(".json"))


@pytest.mark.parametrize("command", ["calls", "main --as sft"])
def test_a_card_that_is_there_is_told_by_the_file_that_was_named(attempt: Path, tmp_path: Path, command: str) -> None:
    """The user named no card."""
    output = tmp_path / "rows.jsonl"
    (tmp_path / "rows.jsonl.card.md").write_text("mine")
    code, _, err = run_export(*command.split(), attempt, "--output", output)
    told = f"--output {output}: its rows.jsonl.card.md is there already: name another file, or give --overwrite"
    assert (code, err) == (2, f"error: {told}\n")
    (tmp_path / "rows.jsonl.card.md").unlink()
    (tmp_path / "rows.jsonl.card.md").mkdir()
    _, _, err = run_export(*command.split(), attempt, "--output", output, "--overwrite")
    assert f"--output {output}: its rows.jsonl.card.md is no regular file" in err


def test_of_all_that_is_there_the_named_file_comes_first(attempt: Path, tmp_path: Path) -> None:
    """As it was named."""
    output = tmp_path / "rows.jsonl"
    assert run_export("calls", attempt, "--output", output)[0] == 0
    _, _, err = run_export("calls", attempt, "--output", output)
    assert err == f"error: {output}: is there already: name another file, or give --overwrite\n"


class _NoBucket(Destination):
    """Each file that is looked at or put is refused by its own name."""

    def __init__(self) -> None:
        self.location = Location("s3://nowhere/out")

    def check(self, names: object, *, overwrite: bool) -> None:
        assert isinstance(names, list)
        if not overwrite:
            raise RollerError(f"{self.location / names[0]}: there is no such bucket", exit_code=2)

    def send(self, folder: Path, names: object, *, overwrite: bool) -> None:  # noqa: ARG002
        assert isinstance(names, list)
        raise RollerError(f"{self.location / names[0]}: there is no such bucket")


def test_what_is_wrong_elsewhere_is_told_by_the_file_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the card, which is looked at, and sent, with it."""
    monkeypatch.setattr(output_files, "destination_of", lambda _folder: _NoBucket())
    paths = (tmp_path / "x.jsonl.card.md", tmp_path / "x.jsonl")
    with pytest.raises(RollerError) as caught:
        OutputFiles(paths, overwrite=False).check()
    assert str(caught.value) == "s3://nowhere/out/x.jsonl: there is no such bucket"
    files = OutputFiles(paths, overwrite=True)
    files.check()

    def write() -> None:
        with files.writing():
            for path in paths:
                files.write(path, "1")
            files.publish()

    with pytest.raises(RollerError) as caught:
        write()
    told = "--output s3://nowhere/out/x.jsonl: s3://nowhere/out/x.jsonl.card.md: there is no such bucket"
    assert str(caught.value) == told


@pytest.mark.parametrize(("options", "words"), [((), "name one: "), (("o", "e"), "name only one of them: ")])
def test_spans_go_to_one_place(attempt: Path, tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    """Exit 2."""
    named = ["--output", str(tmp_path / "x.jsonl"), "--endpoint", "http://127.0.0.1:1"] if options else []
    code, _, err = run_export("otel", attempt, *named)
    assert (code, err) == (2, f"error: {words}--output FILE, or --endpoint URL\n")
