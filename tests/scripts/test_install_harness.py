"""The install script: pinned, checked, cached, and honest about what could not be had. With npm and pip played."""

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CHECKS = """
binary_in() { [ -x "$1/bin/tool" ] && printf '%s\\n' "$1/bin/tool"; }
version_of() { "$1"; }
"""


USUAL = "basename cat chmod cmp cp dirname flock ln ls mkdir mktemp rm sed sh tr"
"""Every command that the script and its checks need beside npm and Python."""


class Clone:
    """A repository with one pinned harness, and commands of our own on PATH."""

    def __init__(self, directory: Path, lock: str = "package-lock.json") -> None:
        self.root = directory / "a clone"
        self.cache = directory / "the cache"
        self.commands = directory / "bin"
        self.system = directory / "system"
        for folder in (self.root / "scripts", self.root / "harnesses/tool/1.2", self.commands, self.system):
            folder.mkdir(parents=True)
        for name in USUAL.split():
            found = shutil.which(name)
            assert found is not None, name
            (self.system / name).symlink_to(found)
        script = (REPOSITORY / "scripts/install_harness.sh").read_text(encoding="utf-8")
        (self.root / "scripts/install_harness.sh").write_text(script, encoding="utf-8")
        (self.root / "harnesses/tool/harness.sh").write_text(CHECKS, encoding="utf-8")
        (self.root / "harnesses/tool/1.2" / lock).write_text("locked", encoding="utf-8")
        (self.root / "harnesses/tool/1.2/.npmrc").write_text("", encoding="utf-8")

    def command(self, name: str, script: str) -> None:
        """A program on PATH, which counts its calls in the file `called`."""
        path = self.commands / name
        path.write_text(f"#!/bin/sh\necho {name} >> {self.commands / 'called'}\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def installer(self, version: str, *, where: str = ".") -> str:
        """A script that puts the tool of a version where npm was told to work."""
        tool = f"{where}/bin/tool"
        return f"mkdir -p {where}/bin; printf '#!/bin/sh\\necho {version}\\n' > {tool}; chmod +x {tool}"

    @property
    def called(self) -> list[str]:
        """The played commands, in order."""
        path = self.commands / "called"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The script, with the played commands first on PATH."""
        environment = {
            "PATH": f"{self.commands}:{self.system}",
            "HOME": str(self.root),
            "ROLLER_HARNESS_CACHE": str(self.cache),
            "PYTHON": str(self.commands / "python"),
        }
        command = ["sh", str(self.root / "scripts/install_harness.sh"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_installs_once_and_links(tmp_path: Path) -> None:
    """What is there is only checked; the link leads into the cache."""
    clone = Clone(tmp_path)
    clone.command("npm", clone.installer("1.2"))
    for _ in range(2):
        result = clone.run("tool")
        assert result.returncode == 0, result.stderr
    assert clone.called == ["npm"]
    link = clone.root / ".harnesses/tool/1.2"
    assert link.readlink() == clone.cache / "tool/1.2"
    assert result.stderr.endswith(f"tool 1.2: {clone.cache}/tool/1.2/bin/tool\n")


def test_pip_goes_into_an_environment_of_its_own(tmp_path: Path) -> None:
    """With hashes, from wheels alone."""
    clone = Clone(tmp_path, lock="requirements.txt")
    environment = clone.cache / "tool/1.2/venv"
    pip = f'echo "$@" > {tmp_path}/arguments; {clone.installer("1.2", where=f"{str(clone.cache)!r}/tool/1.2")}'
    clone.command("fake-pip", pip)
    clone.command("python", f'mkdir -p "$3/bin"; cp {clone.commands}/fake-pip "$3/bin/python"')
    result = clone.run("tool", "1.2")
    assert result.returncode == 0, result.stderr
    assert environment.is_dir()
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8")
    assert "--require-hashes --only-binary :all:" in arguments


@pytest.mark.parametrize(
    ("arguments", "npm", "code", "text"),
    [
        ((), None, 2, "usage:"),
        (("other",), None, 2, "no harness other: there are tool"),
        (("../harnesses/tool",), None, 2, "no harness ../harnesses/tool"),
        (("tool", "9"), None, 2, "tool 9 is not pinned: there are 1.2/"),
        (("tool",), None, 3, "npm is missing: install Node.js"),
        (("tool",), "exit 1", 3, "npm could not install tool 1.2"),
        (("tool",), "1.3", 1, "is not tool 1.2"),
        (("tool",), "true", 1, "is not tool 1.2"),
    ],
)
def test_what_cannot_be_had_is_said(
    tmp_path: Path, arguments: tuple[str, ...], npm: str | None, code: int, text: str
) -> None:
    """3: not our fault, and reported as not run; 1: something is wrong; 2: a wrong call."""
    clone = Clone(tmp_path)
    if npm is not None:
        clone.command("npm", clone.installer(npm) if npm[0].isdigit() else npm)
    result = clone.run(*arguments)
    assert (result.returncode, text in result.stderr) == (code, True), result.stderr
    assert not (clone.root / ".harnesses").exists()


def test_an_installation_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    """Though its program is there and tells the right version."""
    clone = Clone(tmp_path)
    clone.command("npm", f"{clone.installer('1.2')}; exit 1")
    assert clone.run("tool").returncode == 3
    clone.command("npm", clone.installer("1.2"))
    assert clone.run("tool").returncode == 0
    assert clone.called == ["npm", "npm"]


def test_a_new_lock_file_is_installed_anew(tmp_path: Path) -> None:
    """Also where the version is the same."""
    clone = Clone(tmp_path)
    clone.command("npm", clone.installer("1.2"))
    assert clone.run("tool").returncode == 0
    (clone.root / "harnesses/tool/1.2/package-lock.json").write_text("other", encoding="utf-8")
    assert clone.run("tool").returncode == 0
    assert clone.called == ["npm", "npm"]


def test_what_is_no_link_of_ours_is_left_alone(tmp_path: Path) -> None:
    """Somebody's own files may stand there."""
    clone = Clone(tmp_path)
    clone.command("npm", clone.installer("1.2"))
    (clone.root / ".harnesses/tool/1.2").mkdir(parents=True)
    result = clone.run("tool")
    assert result.returncode == 2
    assert "is in the way" in result.stderr
