"""A few real faults, from the command line on: they strike, and the table comes out."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_small_run(tmp_path: Path) -> None:
    """Kinds that take few processes; the seed is said, and everything holds."""
    kinds = [part for kind in ("signals", "clock") for part in ("--only", kind)]
    command = [sys.executable, "-W", "ignore", "-m", "faults", *kinds, "--seed", "5", "--times", "0.01"]
    run = subprocess.run(
        [*command, "--directory", str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr.startswith("seed 5\n")
    assert "proxy gets SIGTERM" in run.stdout
    assert "clock set back" in run.stdout
    assert "0 invariants broken" in run.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
