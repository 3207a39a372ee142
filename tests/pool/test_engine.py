"""Where jobs are done, and what is said where that cannot be."""

import subprocess
import sys

import pytest

from roller_capture.errors import RollerError
from roller_capture.pool import THIS_PROCESS, Engine, ProcessPool, Workers


def test_one_process_needs_no_other() -> None:
    """Two do, and a cluster always."""
    assert not THIS_PROCESS.are_needed
    assert Workers(2).are_needed
    assert Workers(1, Engine.RAY).are_needed
    with Workers(2).pool() as pool:
        assert isinstance(pool, ProcessPool)


def test_an_address_without_ray_is_refused() -> None:
    """Nothing is started, and it is not passed over in silence."""
    assert Workers(1, address="127.0.0.1:6379").are_needed
    with pytest.raises(RollerError, match="goes with --engine ray") as caught:
        Workers(2, address="127.0.0.1:6379").pool()
    assert caught.value.exit_code == 2


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, that is said, with what to do."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "roller_capture.pool.ray_pool", raising=False)
    with pytest.raises(RollerError, match=r"pip install 'roller-capture\[ray\]'") as caught:
        Workers(2, Engine.RAY).pool()
    assert caught.value.exit_code == 2


def test_nobody_imports_ray_without_asking_for_it() -> None:
    """It is large."""
    program = "import roller_capture.cli, roller_capture.pool, sys; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
