"""What is installed, what is imported, and who may know whom."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "roller_capture"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def imports(path: Path) -> set[str]:
    """Dotted names of what a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


TOOLS = ("tests", "benchmarks", "faults", "fuzz", "scripts")
OWN = {"roller_capture", *TOOLS}
TEST_TOOLS = [path for folder in TOOLS for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize(
    ("modules", "lines"),
    [
        pytest.param(
            MODULES, PROJECT["dependencies"] + PROJECT["optional-dependencies"]["ray"], id="package"
        ),  # which imports Ray in one module, and that only on demand
        pytest.param(
            TEST_TOOLS, PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"], id="tests-and-benchmarks"
        ),
    ],
)
def test_every_imported_package_is_declared(modules: list[Path], lines: list[str]) -> None:
    """A fresh machine has only what pyproject.toml names; what others bring along may go with their next version."""
    imported = {name.split(".")[0] for path in modules for name in imports(path)}
    third_party = imported - set(sys.stdlib_module_names) - OWN
    declared = {re.split(r"[^A-Za-z0-9_-]", line)[0].lower().replace("-", "_") for line in lines}
    owners = importlib.metadata.packages_distributions()  # several of a namespace such as `google`
    undeclared = {
        name
        for name in third_party
        if declared.isdisjoint(owner.lower().replace("-", "_") for owner in owners.get(name, [name]))
    }
    assert undeclared == set()


@pytest.mark.parametrize(
    ("part", "forbidden"),
    [
        ("roller_capture.recording", ("finalizer", "adapters", "cli", "publication", "integrity")),
        ("roller_capture.addon", ("finalizer", "adapters", "cli", "publication")),
        ("roller_capture.adapters", ("finalizer", "recording", "model_protocols", "publication", "working_files")),
        ("roller_capture.model_protocols", ("finalizer", "adapters", "recording", "working_files", "publication")),
        ("roller_capture.finalizer", ("adapters", "recording", "cli", "addon")),
        ("roller_capture.integrity", ("adapters", "recording", "cli", "addon")),
        ("roller_capture.runs", ("collect", "recording", "cli", "addon")),
        ("roller_capture.capture_protocol", ("finalizer", "adapters", "recording", "records", "working_files")),
    ],
)
def test_layers_do_not_know_each_other(part: str, forbidden: tuple[str, ...]) -> None:
    """Recorder and finalizer share only the working files; adapters know native logs, decoders know providers."""
    offenders = [
        (module_name(path), name)
        for path in MODULES
        if module_name(path) == part or module_name(path).startswith(f"{part}.")
        for name in imports(path)
        if any(name == f"roller_capture.{other}" or name.startswith(f"roller_capture.{other}.") for other in forbidden)
    ]
    assert offenders == []


def test_only_the_addon_and_the_reader_of_flows_import_mitmproxy() -> None:
    """And what mends mitmproxy for the addon; so everything else runs, and is tested, without a proxy."""
    users = {module_name(path) for path in MODULES for name in imports(path) if name.split(".")[0] == "mitmproxy"}
    mine = {"roller_capture.addon", "roller_capture.mitmproxy_gaps", "roller_capture.importing.flow_file"}
    assert users == mine


def test_the_wheel_holds_addon_and_schemas_and_finds_them(tmp_path: Path) -> None:
    """Installed from the wheel alone, `addon-path` and the schemas come from inside the package."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    shipped = {name for name in names if name.startswith("roller_capture/_shipped/")}
    assert "roller_capture/_shipped/addons/capture.py" in shipped
    assert {f"roller_capture/_shipped/schemas/{path.name}" for path in (ROOT / "schemas").iterdir()} <= shipped
    assert "roller_capture/py.typed" in names
    assets = "roller_capture/view/html/assets"
    assert {f"{assets}/{path.name}" for path in (ROOT / assets).iterdir()} <= names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)
    done = subprocess.run(
        [sys.executable, "-m", "roller_capture", "addon-path"],
        cwd=tmp_path / "site",
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(tmp_path / "site/roller_capture/_shipped/addons/capture.py")


def test_the_project_stands_alone_and_names_no_machine() -> None:
    """No path of the machine it was made on, and no registry host, in any tracked text."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        files = [path for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    else:
        files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    pattern = re.compile(rb"/work/(?:main|shared)|\.\./shared|registry\.npmjs|pypi\.org|files\.pythonhosted")
    offenders = [
        path.relative_to(ROOT).as_posix()
        for path in files
        if path.is_file() and path != Path(__file__) and pattern.search(path.read_bytes())
    ]
    assert offenders == []
