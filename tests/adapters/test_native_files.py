"""Tests of file discovery that never leaves its root."""

import os
from pathlib import Path, PurePosixPath

import pytest

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree, PathKind


@pytest.fixture
def tree(tmp_path: Path) -> NativeTree:
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder-link").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return NativeTree(root, GapLog())


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("folder", PathKind.FOLDER),
        (".", PathKind.FOLDER),
        ("folder/file", PathKind.FILE),
        ("folder/none", PathKind.MISSING),
        ("folder/file/below", PathKind.MISSING),
        ("link", PathKind.REFUSED),
        ("folder-link", PathKind.REFUSED),
        ("folder-link/secret", PathKind.REFUSED),
        ("pipe", PathKind.REFUSED),
        ("../secret", PathKind.REFUSED),
        ("folder/../../secret", PathKind.REFUSED),
        ("nul\0byte", PathKind.MISSING),
        ("x" * 300, PathKind.MISSING),
    ],
)
def test_what_stands_at_a_path(tree: NativeTree, path: str, kind: PathKind) -> None:
    """Links, what lies behind them, devices and ways out are refused."""
    assert tree.kind(PurePosixPath(path)) is kind


@pytest.mark.parametrize("path", ["link", "folder-link/secret", "pipe", "../secret"])
def test_a_refused_file_is_not_opened_but_named(tmp_path: Path, tree: NativeTree, path: str) -> None:
    """A refusal is a gap, and the file is no source."""
    gaps = GapLog()
    tree = NativeTree(tmp_path / "root", gaps)
    with tree.open(PurePosixPath(path)) as stream:
        assert stream is None
    assert [(gap.code.value, gap.source) for gap in gaps.gaps()] == [("file_refused", path)]
    assert tree.sources == ()


def test_an_opened_file_is_a_source_unless_it_was_only_looked_into(tree: NativeTree) -> None:
    """Only evidence is kept."""
    with tree.open(PurePosixPath("folder/file"), as_evidence=False) as stream:
        assert stream is not None
    assert tree.sources == ()
    with tree.open(PurePosixPath("folder/file")) as stream:
        assert stream is not None
        assert stream.read() == b"inside"
    assert [source.source for source in tree.sources] == ["folder/file"]


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    """The user named it."""
    (tmp_path / "root" / "folder").mkdir(parents=True)
    (tmp_path / "root" / "folder" / "file").touch()
    (tmp_path / "home").symlink_to(tmp_path / "root")
    with NativeTree(tmp_path / "home", GapLog()).open(PurePosixPath("folder/file")) as stream:
        assert stream is not None


def test_names_that_cannot_be_published_are_left_out(tmp_path: Path) -> None:
    """A name without a UTF-8 form or with control characters is no evidence source."""
    for name in (b"good", b"bad\xff", b"bad\n"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"")
    assert NativeTree(tmp_path, GapLog()).names(PurePosixPath(".")) == ["good"]


def test_a_missing_file_is_no_gap(tmp_path: Path) -> None:
    """What is not there is for the adapter to judge."""
    gaps = GapLog()
    with NativeTree(tmp_path, gaps).open(PurePosixPath("none")) as stream:
        assert stream is None
    assert gaps.gaps() == ()


def test_a_folder_that_may_not_be_entered_is_named(tree: NativeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names may be listed all the same, so that nothing would tell what was not read."""

    def refused(path: Path) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    gaps = GapLog()
    monkeypatch.setattr(tree, "_gaps", gaps)
    monkeypatch.setattr(Path, "lstat", refused)
    assert tree.kind(PurePosixPath("folder/file")) is PathKind.MISSING
    assert [(gap.code.value, gap.source) for gap in gaps.gaps()] == [("native_log_unreadable", "folder/file")]
