"""Which URLs are taken, and what is never repeated of the others."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture import iter_attempts, open_attempt
from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.remote import Location, place


@pytest.mark.parametrize("text", ["run", "/a/run", "s3:/bucket/run", "c://x", "-", "~/run"])
def test_a_path_stays_a_path(text: str) -> None:
    assert place(text) == Path(text)


@pytest.mark.parametrize("text", ["s3://bucket/run", "s3://bucket/run/", "s3://bucket/run//", "S3://bucket/run"])
def test_a_url_is_kept_without_its_last_slashes(text: str) -> None:
    url = place(text)
    assert isinstance(url, Location)
    assert (str(url), url.name, str(url.parent), str(url / "a")) == (
        "s3://bucket/run",
        "run",
        "s3://bucket",
        "s3://bucket/run/a",
    )


def test_a_url_of_this_machine_has_no_host() -> None:
    url = place("file:///data/run")
    assert isinstance(url, Location)
    assert url.parts == ("", "data", "run")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("s3://key:secret@bucket/run", "a user name or password"),
        ("ftp://user@host/secret", "a user name or password"),
        ("s3://bucket/run?X-Amz-Signature=secret", "a URL with ?"),
        ("s3://bucket/run#secret", "a URL with ?"),
        ("simplecache::s3://bucket/secret", "chained"),
        ("simplecache::s3://key:secret@bucket/run", "a user name or password"),
        ("S3://key:secret@bucket/run", "a user name or password"),
        ("s3://bucket/a::s3://secret", "chained"),
        ("https://host/secret", "no folders"),
    ],
)
def test_what_may_hold_a_credential_is_refused_and_not_repeated(text: str, word: str) -> None:
    with pytest.raises(RollerError, match=word) as refused:
        place(text)
    assert "secret" not in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    ["s3://", "s3://bucket/../other", "s3://bucket//run", "s3://bucket/a\nb", 's3://bucket/"', "s3://bucket/a\\b"],
)
def test_names_that_lead_elsewhere_are_no_url(text: str) -> None:
    with pytest.raises(RollerError, match="is no URL of a bucket or folder") as refused:
        place(text)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        "collect --harness claude-code --prompt hello --run-dir URL",
        "import archive.har --harness claude-code --attempt URL",
        "import URL --harness claude-code --attempt new",
        "migrate URL --output new",
        "migrate old --output URL",
        "prune URL",
        "view run --html URL",
        "validate run --junit URL",
        "hooks hermes --install URL",
        "demo URL",
    ],
)
def test_where_only_paths_can_be_used_a_url_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a path it would be a folder `s3:` in the current one."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command.replace("URL", "s3://bucket/run").split())
    assert isinstance(result.exception, RollerError)
    assert str(result.exception) == "s3://bucket/run: no URL can be used here: name a path of this machine"
    assert list(tmp_path.iterdir()) == []


def test_the_python_api_takes_no_url() -> None:
    for take in (open_attempt, lambda path: next(iter_attempts(path))):
        with pytest.raises(RollerError, match="no URL can be used here"):
            take("s3://bucket/run")
