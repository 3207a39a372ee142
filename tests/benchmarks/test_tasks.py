from pathlib import Path

import pytest

from benchmarks import compressed, finalizer, proxy, published
from benchmarks.__main__ import SECTIONS
from benchmarks.child import TASKS
from benchmarks.client import Connection
from benchmarks.cost import measure
from benchmarks.options import Options
from benchmarks.proxies import NAMES, Proxy, model_service
from benchmarks.sessions import Shape, clone, record_session

SHAPE = Shape(calls=8, first_body=2_000, last_body=2_000, answer=100)


def test_every_task_says_what_it_cost(tmp_path: Path) -> None:
    """One after the other on one small session: time and memory are positive, and the peak is the highest."""
    record_session(tmp_path / "recorded", SHAPE)
    clone(tmp_path / "recorded", tmp_path / "attempt")
    for cost in (
        measure("finalize", tmp_path / "attempt"),
        measure("unavoidable", tmp_path / "recorded", tmp_path / "written"),
    ):
        assert cost.seconds > 0
        assert cost.processor_seconds > 0
        assert cost.peak_memory >= cost.memory_before > 0
    for task in ("view_attempt", "validate", "read_heads", "skip_to_heads", "hash_files", "validate_deep"):
        TASKS[task](tmp_path / "attempt")
    clone(tmp_path / "recorded", tmp_path / "packed")
    for task in ("finalize_compressed", "read_contexts", "read_each_alone", "validate"):
        TASKS[task](tmp_path / "packed")
    assert (tmp_path / "packed" / "calls.jsonl.zst").exists()
    assert not (tmp_path / "written").exists()


def test_a_task_that_fails_says_why(tmp_path: Path) -> None:
    """No figure comes from work that was not done."""
    with pytest.raises(RuntimeError, match=r"finalize failed: .*nothing was recorded"):
        measure("finalize", tmp_path)


async def test_the_client_times_each_event_of_the_model_service() -> None:
    """The first byte, every event's way, and the gaps between them."""
    with model_service() as port:
        connection = await Connection.open(port)
        for _ in range(2):
            seen = await connection.call(b"{}", 5, 0.001)
            assert (len(seen.first_bytes), len(seen.delays), len(seen.gaps)) == (1, 5, 4)
            assert min(seen.first_bytes) > 0
            assert min(seen.delays) > 0
        connection.close()


async def test_every_proxy_measurement_gives_figures_for_its_table() -> None:
    """One short round without a proxy in between, as all three of them."""
    with model_service() as port:
        proxies = [Proxy(name, port, 1) for name in NAMES]
        measured = proxy.Measured()
        await proxy.repeat(proxies, 0, measured, proxy.Load(streams=(2,), events=3, samples=2, flat_out_seconds=0.02))
    tables = proxy.tables(measured, streams=(2,))
    assert [len(table.rows) for table in tables] == [3, 3, 3]
    assert {row[1] for table in tables for row in table.rows} == set(NAMES)


def test_sections_are_those_of_the_documentation() -> None:
    """The names that `--only` takes."""
    assert list(SECTIONS) == ["proxy", "finalizer", "view", "validate", "compressed", "many"]


def test_a_quick_run_is_small_and_a_full_one_is_not() -> None:
    """The floors speak of 160 growing calls, 10,000 small ones."""
    full, quick = Options(Path(), 5), Options(Path(), 1, scale=20)
    assert finalizer.growing(full).calls == 160
    assert finalizer.small(full).calls == 10_000
    assert finalizer.growing(quick).calls == 8
    assert published.large(full).calls == 500
    assert compressed.grown(full).calls == 160
    assert compressed.grown(quick).calls == 8
