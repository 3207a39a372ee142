"""`roller-capture acceptance`: every scenario of a harness, one row each: passed, failed, or not applicable."""

import contextlib
import importlib
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from roller_capture import json_text
from roller_capture.acceptance.expected import SCENARIO_NAMES, Cell, NotApplicable, Plan
from roller_capture.acceptance.judge import accounting_differences, differences
from roller_capture.acceptance.real_service import real_differences
from roller_capture.acceptance.run import MODEL, RUN, RunFailedError, Setting, run_cell, run_real
from roller_capture.acceptance.truth_table import TruthTable
from roller_capture.collect.checks import check_seconds
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import find_launcher
from roller_capture.launchers.binaries import find_binary
from roller_capture.launchers.refusal import check_protocol, no_model
from roller_capture.paths import full_path
from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.terminal import answer, print_table, safe, say
from roller_capture.vocabulary import Protocol

DEFAULT_TIMEOUT: Final = 300.0
_SHORT_NAMES: Final[Mapping[str, str]] = {
    Protocol.ANTHROPIC_MESSAGES: "Messages",
    Protocol.OPENAI_CHAT_COMPLETIONS: "Chat",
    Protocol.OPENAI_RESPONSES: "Responses",
}
"""How the table names the protocols; in JSON they have their full names."""


class Result(StrEnum):
    """What became of a cell."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the answer. `differences` says what is wrong, or shows that nothing else is."""

    harness: str
    version: str
    scenario: str
    protocol: str
    model: str
    result: Result
    reason: str | None = None
    calls: int = 0
    relations: int = 0
    wrong: int = 0
    unattributed: int = 0
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AcceptanceRequest:
    """The options of the command. With `api_base` a real service answers, and `key` is for it."""

    harness: str
    scenarios: tuple[str, ...] = ()
    harness_bin: Path | None = None
    protocol: str | None = None
    api_base: str | None = None
    model: str | None = None
    key: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    as_json: bool = False
    keep: Path | None = None


def run_acceptance(request: AcceptanceRequest) -> int:
    """Runs, prints a row as each is known, then the whole; the exit code. Raises `RollerError` for a wrong call."""
    check_seconds("--timeout", request.timeout)
    plan = find_plan(request.harness)
    names = _names(request, plan)
    launcher = find_launcher(request.harness)
    check_protocol(request.protocol, request.harness, launcher.traits)
    if request.api_base and request.model is None and launcher.traits.needs_model:
        raise no_model(request.harness)
    binary = find_binary(request.harness, launcher, request.harness_bin)
    rows: list[Row] = []
    with _directory(request.keep) as directory:
        setting = Setting(request.harness, binary, directory, request.timeout, request.protocol)
        made = _real_rows(request, plan, setting) if request.api_base else _rows(plan, names, setting)
        for row in made:
            rows.append(row)
            say(f"{row.scenario}: {row.result}{f' ({row.reason})' if row.reason else ''}")
            for difference in row.differences:
                say(f"  {safe(difference)}")
        kept = sorted(directory.glob(f"*/{RUN}")) if request.keep is not None else []
    if kept:
        say(f"kept, to be looked at: roller-capture view {shlex.quote(str(kept[0]))}" + _more(kept[1:]))
    if request.as_json:
        answer(json_text.dumps_ascii([asdict(row) for row in rows]))
    else:
        print_table(_table(rows), compact=True)
    return int(any(row.result is Result.FAILED for row in rows))


def _more(kept: list[Path]) -> str:
    return f" (and {len(kept)} more beside it)" if kept else ""


def find_plan(harness: str) -> Plan:
    """The plan of a harness. Raises `RollerError` (exit 2) where there is none."""
    if harness not in HARNESSES:
        raise RollerError(f"{harness!r} is no known harness: use one of {', '.join(HARNESSES)}", exit_code=2)
    name = f"roller_capture.acceptance.plans.{harness.replace('-', '_')}"
    try:
        plan: Plan = importlib.import_module(name).PLAN
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        advice = "no script knows how it delegates; `collect` a run of it and `validate --deep` that"
        raise RollerError(f"there is no acceptance for {harness}: {advice}", exit_code=2) from None
    return plan


def find_script(plan: Plan, scenario: str) -> Scenario:
    """A fresh script of a plan."""
    module, _, name = plan.scripts.partition(":")
    scripts: Mapping[str, Callable[[], Scenario]] = getattr(importlib.import_module(module), name)
    return scripts[scenario]()


def judge_cell(plan: Plan, setting: Setting, name: str) -> Row:
    """Runs one scenario and compares. A harness that cannot do it must show that."""
    protocol = setting.protocol or find_launcher(setting.harness).traits.protocols[0].value
    entry = plan.cell(name, protocol)
    refused = isinstance(entry, NotApplicable)
    cell = Cell(entry.proof, entry.expected) if isinstance(entry, NotApplicable) else entry
    good = Result.NOT_APPLICABLE if refused else Result.PASSED
    reason = entry.reason.value if isinstance(entry, NotApplicable) else None
    facts: dict[str, Any] = {"model": MODEL, "protocol": protocol, "reason": reason}
    head = (setting.harness, setting.binary.version, name)
    try:
        script = find_script(plan, cell.scenario)
        capture = run_cell(setting, cell, script, plan.arguments(script))
    except RunFailedError as error:
        return Row(*head, **facts, result=Result.FAILED, differences=[str(error)])
    table = TruthTable(capture, plan.delegation_tools, plan.plain_tool_id)
    found = [*differences(table, cell.expected), *accounting_differences(table, cell.expected, plan.coverage)]
    return Row(
        *head,
        **facts,
        result=Result.FAILED if found else good,
        calls=len(capture.calls),
        relations=len(capture.relations),
        wrong=len(table.wrong),
        unattributed=len(table.unattributed),
        differences=found,
    )


def _rows(plan: Plan, names: tuple[str, ...], setting: Setting) -> Iterator[Row]:
    for number, name in enumerate(names, 1):
        say(f"scenario {number} of {len(names)}: {name}")
        yield judge_cell(plan, setting, name)


def _real_rows(request: AcceptanceRequest, plan: Plan, setting: Setting) -> Iterator[Row]:
    asked = "one delegation" if plan.delegates else "one tool call"
    say(f"{asked}, against a real service: judged by what needs no script")
    protocol = request.protocol or find_launcher(request.harness).traits.protocols[0].value
    head = (request.harness, setting.binary.version, "real-service", protocol, request.model or "the harness's own")
    try:
        attempt, validation = run_real(setting, plan, str(request.api_base), request.model, str(request.key))
    except RunFailedError as error:
        yield Row(*head, Result.FAILED, differences=[str(error)])
        return
    found, calls, relations, unattributed = real_differences(attempt, validation, delegates=plan.delegates)
    result = Result.FAILED if found else Result.PASSED
    yield Row(*head, result, None, calls, relations, 0, unattributed, found)


def _names(request: AcceptanceRequest, plan: Plan) -> tuple[str, ...]:
    for name in request.scenarios:
        if name not in plan.cells:
            raise RollerError(f"{name!r} is no scenario: use one of {', '.join(plan.cells)}", exit_code=2)
    return request.scenarios or tuple(name for name in SCENARIO_NAMES if name in plan.cells)


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """A folder for the runs: removed afterwards, unless the user wants to keep it."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="roller-acceptance-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RollerError(f"{keep}: cannot be made ({error.strerror})", exit_code=2) from None
    yield full_path(keep)


def _table(rows: list[Row]) -> Table:
    """To be printed compactly: then a row without differences fits into 120 columns."""
    table = Table(title=safe(rows[0].harness), title_justify="left")
    for heading in ("scenario", "result", "version", "protocol"):
        table.add_column(heading, no_wrap=True)
    table.add_column("model", overflow="fold")
    for heading in ("calls", "relations", "wrong", "no owner"):
        table.add_column(heading, justify="right")
    table.add_column("what differs, or why not", overflow="fold")
    for row in rows:
        made = (safe(row.version), _SHORT_NAMES.get(row.protocol, row.protocol), safe(row.model))
        numbers = (str(row.calls), str(row.relations), str(row.wrong), str(row.unattributed))
        why = safe("; ".join(row.differences) or row.reason or "")
        table.add_row(row.scenario, row.result.value, *made, *numbers, why)
    return table
