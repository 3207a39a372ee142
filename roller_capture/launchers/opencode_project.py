"""A project's own configuration folder (`.opencode/`), into which OpenCode installs its plugin package.

Measured with 1.18.33: it looks for such folders in the working directory and above it, up to the root of the git work
tree. In each that it can write to, it installs `@opencode-ai/plugin` unless that was done before (`node_modules` is
there, and the lock file names the package), and where a plugin is configured, as our hook is, the start waits for it.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture.adapters.native_values import as_mapping

PLUGIN_PACKAGE: Final = "@opencode-ai/plugin"

_FOLDER: Final = ".opencode"
_SECTIONS: Final = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


def folders_to_install_in(workdir: Path) -> list[Path]:
    """The folders of this project in which OpenCode would install its plugin package at its start."""
    return [folder for folder in _folders(workdir) if os.access(folder, os.W_OK) and not _is_installed(folder)]


def _folders(workdir: Path) -> Iterator[Path]:
    for place in (workdir, *workdir.parents):
        if (place / _FOLDER).is_dir():
            yield place / _FOLDER
        if (place / ".git").exists():
            return


def _is_installed(folder: Path) -> bool:
    locked = as_mapping(as_mapping(_document(folder / "package-lock.json").get("packages")).get(""))
    wanted = {PLUGIN_PACKAGE, *_names(_document(folder / "package.json"))}
    return (folder / "node_modules").is_dir() and wanted <= _names(locked)


def _names(package: Mapping[str, Any]) -> set[str]:
    return {name for section in _SECTIONS for name in as_mapping(package.get(section))}


def _document(path: Path) -> Mapping[str, Any]:
    """What a JSON file holds; nothing where it cannot be read, as OpenCode takes it too."""
    try:
        return as_mapping(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}
