"""The attempt's private folder is made, and goes away whatever an agent did in it."""

from pathlib import Path

from roller_capture.collect.private_folder import make_private_folder, remove_private_folder


def test_a_folder_is_private() -> None:
    """And empty but for the folders of the harness."""
    made = make_private_folder()
    assert {path.name for path in made.root.iterdir()} == {"home", "tmp", "workspace"}
    assert {path.stat().st_mode & 0o777 for path in (made.root, made.home, made.temporary)} == {0o700}
    remove_private_folder(made.root)
    assert not made.root.exists()
    remove_private_folder(made.root)


def test_read_only_folders_go_and_links_are_not_followed(tmp_path: Path) -> None:
    """Package caches are read-only; a link leads to what is somebody else's."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (outside.parent / "kept").write_text("")
    made = make_private_folder()
    closed = made.home / "cache" / "deep"
    closed.mkdir(parents=True)
    (closed / "file").write_text("")
    (made.home / "link").symlink_to(outside)
    closed.chmod(0o000)
    closed.parent.chmod(0o500)
    remove_private_folder(made.root)
    assert not made.root.exists()
    assert outside.stat().st_mode & 0o777 == 0o500
