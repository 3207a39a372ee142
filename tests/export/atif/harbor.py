"""Harbor's own validator, from its package.

Its pins (cryptography, certifi, Python 3.12) do not go together with those of mitmproxy 11, so `make setup` puts the
package alone, without its dependencies, beside the environment's own: the validator needs pydantic and nothing else.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

PACKAGE = Path(os.environ.get("ROLLER_HARBOR", Path(sys.prefix) / "harbor"))
_VALIDATE = """
import json, sys
from pathlib import Path
from harbor.utils.trajectory_validator import TrajectoryValidator

found = {}
for name in sys.argv[1:]:
    validator = TrajectoryValidator()
    validator.validate(Path(name))
    found[name] = validator.get_errors()
print(json.dumps(found))
"""


def harbor_errors(paths: Iterable[Path]) -> list[str]:
    """What Harbor has against these trajectories."""
    if not PACKAGE.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{PACKAGE}: Harbor's package is missing: make setup installs it")
        # Somebody's own environment, not made by `make setup`: said loudly, and in CI a failure.
        pytest.skip("NOT RUN: Harbor's package is missing: make setup installs it")
    command = [sys.executable, "-c", _VALIDATE, *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [f"{name}: {error}" for name, errors in json.loads(done.stdout).items() for error in errors]
