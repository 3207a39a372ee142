"""The `roller-capture` command: reads the command line, calls the package, prints, and sets the exit code. No logic.

Exit codes everywhere: 0 fine; 1 the data is not good; 2 the call is wrong (design section 3).
"""

import errno
import os
import signal
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from roller_capture import __version__
from roller_capture.collect.command_line import MODEL_HELP, PROFILE_HELP, CollectCommand
from roller_capture.collect.request import DEFAULT_DRAIN_TIMEOUT, DEFAULT_TIMEOUT, CollectRequest, KeyVia, Redo
from roller_capture.errors import RollerError
from roller_capture.export.request import CallExport, Form, Format, MainExport, MainForm, format_of
from roller_capture.harnesses import HARNESSES
from roller_capture.pool.engine import Engine, Workers
from roller_capture.remote import local_path, place
from roller_capture.shipped import shipped_path
from roller_capture.terminal import answer, progress, say
from roller_capture.vocabulary import Blocker, DebugRetention, ExecutionStatus, Protocol, Purpose

# Each command imports what it needs: `--help` and `view` must not wait for the finalizer's or the demo's imports.


class RunStatus(StrEnum):
    """How a run can be said to have ended: what is not known is not said."""

    COMPLETED = ExecutionStatus.COMPLETED
    FAILED = ExecutionStatus.FAILED
    INTERRUPTED = ExecutionStatus.INTERRUPTED


_INTERRUPTED: Final = 128 + signal.SIGINT

Jobs = Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="How many processes work side by side.")]
EngineOption = Annotated[Engine, typer.Option("--engine", help="Processes of this machine, or of a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option("--address", help="The Ray cluster [default: one is started on this machine].")
]

Places = Annotated[
    list[Any],
    typer.Argument(metavar="PATH", parser=place, help="Attempts, or run directories of attempts; also URLs."),
]


def _no_stdout(path: Path | None) -> Path | None:
    """Files get their names when they are whole, so none is a stream. Raises `RollerError` (exit 2)."""
    if path == Path("-"):
        raise RollerError("-: stdout is no file: name one", exit_code=2)
    return path


Output = Annotated[
    Any,
    typer.Option(metavar="FILE", parser=place, callback=_no_stdout, help="The file to write, or the URL to put it at."),
]

AllAttempts = Annotated[
    bool, typer.Option("--all-attempts", help="Also attempts of a run's samples that were made again.")
]


app = typer.Typer(
    name="roller-capture",
    help="Who called the model, with what, and what came back - with the evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_UsageError: Any = typer.BadParameter.__mro__[1]
"""Typer's own for a wrong command line. It has no public name: that of a wrong value is derived from it."""


_OUTPUT_TROUBLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""What a stdout says that cannot be written to."""


def main() -> NoReturn:
    """Entry point: a closed pipe and an interrupt end quietly, as people expect of a command."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # a stream that is closed would else be the next file that is opened, here and in what is started
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - libraries write there without asking
    try:
        _refuse_empty(sys.argv[1:])
        code = app(standalone_mode=False)
        if code == _INTERRUPTED:  # what Typer makes of Ctrl-C
            say("interrupted")
        sys.exit(code)
    except _UsageError as error:
        _say_usage_error(error)
        sys.exit(error.exit_code)
    except RollerError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        if error.errno not in _OUTPUT_TROUBLE:
            raise
        say(f"error: the output could not be written: {error.strerror}")
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        sys.exit(_INTERRUPTED)
    finally:
        _settle_streams()


def _refuse_empty(arguments: list[str]) -> None:
    """An empty text, as an unset variable gives it, would mean the current directory. Raises `RollerError` (exit 2)."""
    before = ""
    for argument in arguments:
        if argument == "--":
            return
        option = argument.removesuffix("=") if argument.startswith("--") else before
        is_empty = argument == "" or (argument.startswith("--") and argument.endswith("=") and argument.count("=") == 1)
        if is_empty and option != "--prompt":
            raise RollerError(f"{option if option.startswith('--') else 'an argument'} is empty: name one", exit_code=2)
        before = argument


def _say_usage_error(error: Any) -> None:
    """One line for an option that does not exist, a value that is none; the help for a call without anything."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    say(f"error: {message}: see {_command_named(sys.argv[1:])} --help")


def _command_named(arguments: list[str]) -> str:
    """The command as far as the line names one: an option without its value is an error before any command is known."""
    words = ["roller-capture"]
    command: Any = typer.main.get_command(app)
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument)
        if command is None:
            break
        words.append(argument)
    return " ".join(words)


def _settle_streams() -> None:
    """Python flushes both once more at its end: what could not be written there must not fail a second time."""
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_version(wanted: bool) -> None:
    if wanted:
        answer(f"roller-capture {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(cls=CollectCommand, context_settings={"allow_interspersed_args": False})
def collect(
    run_dir: Annotated[
        Path,
        typer.Option(parser=local_path, help="A new or empty directory for the run; with --resume, that of a run."),
    ],
    prompt: Annotated[
        list[str] | None, typer.Option(help="A turn; more of them are turns of the same session.")
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="FILE.jsonl", help="Many samples, one JSON object a line: id, prompt, ..."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="How many of --samples run at once.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run: what is done is checked and reused.")
    ] = False,
    redo: Annotated[
        Redo | None, typer.Option(help="With --resume: run these again, too (partial: captures that are not complete).")
    ] = None,
    harness: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"The harness to run: {', '.join(HARNESSES)}.")
    ] = None,
    capture_calls: Annotated[
        bool, typer.Option("--capture-calls", help="Capture; without it the harness runs uncaptured.")
    ] = False,
    claude_capture_calls: Annotated[
        bool, typer.Option("--claude-capture-calls", help="The same as --harness claude-code --capture-calls.")
    ] = False,
    api_base: Annotated[str | None, typer.Option(metavar="URL", help="The model service, with or without /v1.")] = None,
    model: Annotated[str | None, typer.Option(help=MODEL_HELP)] = None,
    protocol: Annotated[Protocol | None, typer.Option(help="The protocol that the harness is to speak.")] = None,
    profile: Annotated[str | None, typer.Option(help=PROFILE_HELP)] = None,
    harness_bin: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="PATH", help="The program [default: newest in .harnesses/, then PATH]."
        ),
    ] = None,
    workdir: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="DIR", help="Where the agent works [default: a fresh folder, then removed]."
        ),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(metavar="VAR", help="The variable with the real key [default: by the protocol]."),
    ] = None,
    key_via: Annotated[
        KeyVia, typer.Option(help="Who gets the real key: the proxy alone, or the harness.")
    ] = KeyVia.PROXY,
    capture_debug: Annotated[
        DebugRetention, typer.Option(help="When to keep raw/: native logs, raw responses, events.")
    ] = DebugRetention.ON_ERROR,
    compress: Annotated[
        bool, typer.Option("--compress", help="Publish calls.jsonl.zst (docs/compressed-calls.md), not calls.jsonl.")
    ] = False,
    model_alias: Annotated[
        list[str] | None, typer.Option(metavar="A=B", help="The service answers with B when asked for A.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for all turns together.")] = DEFAULT_TIMEOUT,
    drain_timeout: Annotated[
        float, typer.Option(help="Seconds for subtasks after the root's answer.")
    ] = DEFAULT_DRAIN_TIMEOUT,
    network: Annotated[str, typer.Option(help="Only host.")] = "host",
    wire_trace: Annotated[bool, typer.Option(help="Always on.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 when the capture is only partial.")] = False,
    harness_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- HARNESS ARGS]", help="Further arguments for the harness.")
    ] = None,
) -> None:
    """Run a harness behind the recording proxy and publish what it did.

    Example: roller-capture collect --harness claude-code --capture-calls --api-base https://api.anthropic.com
    --run-dir ~/agent-runs/first --workdir . --prompt "Ask a subagent to count the files here"
    """
    from roller_capture.collect.command import run_collect

    if claude_capture_calls:
        if harness not in (None, "claude-code"):
            _fail(RollerError(f"--claude-capture-calls does not go with --harness {harness}", exit_code=2))
        harness, capture_calls = "claude-code", True
    if harness is None:
        how = ": --resume goes with the options that the run was begun with" if resume else ""
        _fail(RollerError(f"--harness NAME is missing{how}", exit_code=2))
    request = CollectRequest(
        harness=harness,
        run_dir=run_dir,
        prompts=tuple(prompt or ()),
        api_base=api_base,
        capture_calls=capture_calls,
        model=model,
        protocol=protocol,
        profile=profile,
        harness_bin=harness_bin,
        workdir=workdir,
        api_key_env=api_key_env,
        key_via=key_via,
        capture_debug=capture_debug,
        compress=compress,
        model_aliases=_aliases(model_alias or []),
        timeout=timeout,
        drain_timeout=drain_timeout,
        network=network,
        wire_trace=wire_trace,
        strict=strict,
        harness_args=tuple(harness_args or ()),
        samples=samples,
        jobs=jobs,
        resume=resume,
        redo=redo,
    )
    try:
        # Not by `typer.Exit`: what ended it has been said, and 130 would be told once more as an interrupt.
        sys.exit(run_collect(request))
    except RollerError as error:
        _fail(error)


@app.command()
def finalize(
    attempts: Annotated[
        list[Any],
        typer.Argument(
            metavar="ATTEMPT_DIR", parser=place, help="Directories that a recorder wrote into, or runs; also URLs."
        ),
    ],
    harness: Annotated[
        str | None, typer.Option(help="The harness that made the calls, if attempt.json should not decide.")
    ] = None,
    native: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="HOME of the run, or the harness's folder in it; its logs must be there [default: work/native/].",
        ),
    ] = None,
    capture_debug: Annotated[
        DebugRetention, typer.Option(help="When to keep raw/: native logs, raw responses, events.")
    ] = DebugRetention.ON_ERROR,
    compress: Annotated[
        bool, typer.Option("--compress", help="Publish calls.jsonl.zst (docs/compressed-calls.md), not calls.jsonl.")
    ] = False,
    execution_status: Annotated[
        RunStatus | None, typer.Option(help="How the run ended, if the launcher did not note it.")
    ] = None,
    model_alias: Annotated[
        list[str] | None, typer.Option(metavar="A=B", help="The service answers with B when asked for A.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 when a capture is only partial.")] = False,
    jobs: Jobs = 1,
    engine: EngineOption = Engine.LOCAL,
    address: Address = None,
) -> None:
    """Attribute the recorded calls, publish the attempt, and validate it.

    Example: roller-capture finalize runs/attempt-0001 --native ~/agent-home
    """
    from roller_capture.finalize_attempt import FinalizeRequest
    from roller_capture.finalize_command import FinalizeCommand, run_finalize

    aliases = _aliases(model_alias or [])
    status = None if execution_status is None else ExecutionStatus(execution_status)
    if native is not None and (not native.strip() or not Path(native).is_dir()):  # an empty text would mean "."
        _fail(RollerError(f"{native or '(empty)'}: is no directory: --native names the HOME of the run", exit_code=2))
    request = FinalizeRequest(
        harness=harness,
        native=None if native is None else Path(native),
        needs_native_logs=native is not None,
        debug_retention=capture_debug,
        execution_status=status,
        model_aliases=aliases,
        compress=compress,
    )
    try:
        raise typer.Exit(
            run_finalize(FinalizeCommand(tuple(attempts), request, Workers(jobs, engine, address), strict))
        )
    except RollerError as error:
        _fail(error)


def _aliases(pairs: Iterable[str]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for pair in pairs:
        asked, separator, answered = pair.partition("=")
        if not separator or not asked or not answered:
            _fail(RollerError(f"--model-alias {pair}: write it as ASKED=ANSWERED", exit_code=2))
        aliases[asked] = answered
    return aliases


@app.command()
def validate(
    paths: Places,
    json_output: Annotated[bool, typer.Option("--json", help="Print the findings as JSON on stdout.")] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also resolve every evidence locator and every context pointer.")
    ] = False,
    allow_unfinished: Annotated[
        bool, typer.Option("--allow-unfinished", help="Attempts that are not yet published are no finding.")
    ] = False,
    jobs: Jobs = 1,
    engine: EngineOption = Engine.LOCAL,
    address: Address = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            callback=_no_stdout,
            help="Also write the findings as JUnit XML into this file.",
        ),
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print the findings on stdout as annotations for GitHub Actions.")
    ] = False,
) -> None:
    """Check published attempts, or a run as Resume checks it: schema, hashes, references, statuses, books.

    Example: roller-capture validate runs/ --deep --junit report.xml
    """
    from roller_capture.validate_command import ValidateRequest, run_validate

    request = ValidateRequest(
        paths=tuple(paths),
        deep=deep,
        allow_unfinished=allow_unfinished,
        as_json=json_output,
        junit=junit,
        github=github,
        workers=Workers(jobs, engine, address),
    )
    try:
        raise typer.Exit(run_validate(request))
    except RollerError as error:
        _fail(error)


@app.command()
def decode(
    files: Annotated[list[Path], typer.Argument(parser=local_path, metavar="FILE", help="Raw response bodies.")],
    protocol: Annotated[Protocol, typer.Option(help="The protocol of the endpoint that answered.")],
    content_encoding: Annotated[
        str | None, typer.Option(help="The response's Content-Encoding, such as gzip, br or zstd.")
    ] = None,
) -> None:
    """Show what the decoder makes of raw response bodies, one ASCII JSON line each.

    Example: roller-capture decode --protocol anthropic-messages raw/responses/*.body
    """
    from roller_capture.decode_command import decode_file, render

    worst = 0
    for file in files:
        try:
            answer(render(decode_file(file, protocol, content_encoding)))
        except RollerError as error:
            say(f"error: {error}")
            worst = max(worst, error.exit_code)
    raise typer.Exit(worst)


@app.command()
def acceptance(
    harness: Annotated[str, typer.Option(metavar="NAME", help="The harness to try.")],
    scenario: Annotated[list[str] | None, typer.Option(help="One scenario; may be repeated [default: all].")] = None,
    protocol: Annotated[Protocol | None, typer.Option(help="The protocol that the harness is to speak.")] = None,
    harness_bin: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="PATH", help="The program [default: newest in .harnesses/, then PATH]."
        ),
    ] = None,
    api_base: Annotated[
        str | None, typer.Option(metavar="URL", help="A real service instead of the scripted one; it costs tokens.")
    ] = None,
    api_key_env: Annotated[str | None, typer.Option(metavar="VAR", help="The variable with the key for it.")] = None,
    model: Annotated[str | None, typer.Option(help="The model to ask it for.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for each scenario.")] = 300.0,
    keep: Annotated[
        Path | None, typer.Option(parser=local_path, metavar="DIR", help="Keep the runs in this directory.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Run the real harness against a scripted model service and check each capture against what really happened.

    Example: roller-capture acceptance --harness claude-code --scenario parallel
    """
    from roller_capture.acceptance.command import AcceptanceRequest, run_acceptance

    key = None if api_key_env is None else os.environ.get(api_key_env)
    if (api_base is None) != (api_key_env is None):
        _fail(RollerError("--api-base and --api-key-env go together", exit_code=2))
    if api_key_env is not None and not key:
        _fail(RollerError(f"{api_key_env} is not set: it has to hold the key for --api-base", exit_code=2))
    if api_base is not None and scenario:
        _fail(RollerError("--scenario needs the scripted service: leave --api-base away", exit_code=2))
    if api_base is None and model is not None:
        _fail(RollerError("--model is for a real service: give --api-base too", exit_code=2))
    request = AcceptanceRequest(
        harness=harness,
        scenarios=tuple(scenario or ()),
        harness_bin=harness_bin,
        protocol=protocol,
        api_base=api_base,
        model=model,
        key=key,
        timeout=timeout,
        as_json=json_output,
        keep=keep,
    )
    raise typer.Exit(run_acceptance(request))


@app.command()
def hooks(
    harness: Annotated[str, typer.Argument(metavar="NAME", help="The harness that you start yourself.")],
    install: Annotated[
        Path | None, typer.Option(parser=local_path, metavar="DIR", help="Copy the hook into this folder.")
    ] = None,
) -> None:
    """Print where the hook of a harness is, if it needs one, and every step of a run without collect.

    Example: pi -e "$(roller-capture hooks pi)" -p "count the files here"
    """
    from roller_capture.hook_files import hook_path, install_hook, steps

    path = hook_path(harness) if install is None else install_hook(harness, install)
    if path is None:
        say(f"{harness} needs no hook: its own headers and logs say who made a call")
    else:
        answer(str(path))
    for step in steps(harness, path):
        say(step)


@app.command()
def view(
    path: Annotated[
        Any, typer.Argument(metavar="PATH", parser=place, help="An attempt, or a folder of attempts; also a URL.")
    ],
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
    evidence: Annotated[bool, typer.Option("--evidence", help="Name the source and place of every proof.")] = False,
    no_calls: Annotated[bool, typer.Option("--no-calls", help="Show the agents without their single calls.")] = False,
    width: Annotated[int | None, typer.Option(min=20, help="Columns of the terminal [default: as it is].")] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours on a terminal.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            callback=_no_stdout,
            help="Write one page for a browser; it needs no network.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="With --html: replace the file.")] = False,
    prices: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="FILE", help="With --html: a price table (JSON), to show what calls cost."
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Follow a capture that is still running.")] = False,
) -> None:
    """Show the calls of a published attempt as a tree by agent, or a folder of attempts as a table.

    Example: roller-capture view runs/attempt-0001 --evidence

    As a page: roller-capture view ~/agent-runs/first --html first.html
    """
    if html is None and (overwrite or prices is not None):
        _fail(RollerError("--overwrite and --prices go with --html FILE", exit_code=2))
    if sum((json_output, html is not None, live)) > 1:
        _fail(RollerError("--json, --html and --live exclude each other: give one", exit_code=2))
    if (html is not None or live) and (evidence or no_calls):
        _fail(RollerError("--evidence and --no-calls do not go with --html or --live", exit_code=2))
    if live and not isinstance(path, Path):
        _fail(RollerError("--live follows a capture on this machine: no URL goes with it", exit_code=2))
    from roller_capture.remote.elsewhere import Elsewhere

    try:
        with Elsewhere() as elsewhere:
            here, unfetched = elsewhere.whole(path)
            if html is not None:
                from roller_capture.view.html.command import PageRequest, write_html

                code = write_html(PageRequest(here, html, overwrite, prices, unfetched))
            elif live:
                from roller_capture.view.live.command import follow

                code = follow(here, width=width, color=not no_color)
            else:
                from roller_capture.view.command import view as show_attempts

                code = show_attempts(
                    here,
                    json_output=json_output,
                    evidence=evidence,
                    calls=not no_calls,
                    width=width,
                    color=not no_color,
                    unfetched=unfetched,
                )
    except RollerError as error:
        _fail(error)
    raise typer.Exit(code)


export_app = typer.Typer(
    help="Write published attempts in the formats of training and exchange.\n\n"
    "Example: roller-capture export calls ~/agent-runs/first --output calls.jsonl",
    no_args_is_help=True,
)
app.add_typer(export_app, name="export")


@export_app.command("calls")
def export_calls(
    paths: Places,
    output: Output,
    file_format: Annotated[
        Format | None, typer.Option("--format", help="JSON lines, or Parquet [default: by the file's name].")
    ] = None,
    form: Annotated[
        Form, typer.Option("--as", help="Each protocol's own messages, or one chat form for all.")
    ] = Form.NATIVE,
    purpose: Annotated[
        list[Purpose] | None, typer.Option(help="What the calls were made for; may be repeated [default: agent].")
    ] = None,
    allow: Annotated[
        list[Blocker] | None, typer.Option(metavar="BLOCKER", help="Export calls that this bars; may be repeated.")
    ] = None,
    nested: Annotated[
        bool, typer.Option("--nested", help="Write provider objects as they are, not as JSON text (JSON lines).")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    all_attempts: AllAttempts = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
    jobs: Jobs = 1,
    engine: EngineOption = Engine.LOCAL,
    address: Address = None,
) -> None:
    """Write one row for each exportable call: who asked, what was sent, what came back.

    Example: roller-capture export calls ~/agent-runs/first --output calls.parquet --format parquet
    """
    from roller_capture.export.calls import export_calls as write_calls
    from roller_capture.remote.elsewhere import Elsewhere

    try:
        with Elsewhere() as elsewhere:
            file = elsewhere.output(output)
            request = CallExport(
                paths=elsewhere.inputs(paths),
                output=file,
                file_format=format_of(file, file_format),
                form=form,
                purposes=tuple(purpose or (Purpose.AGENT,)),
                allow=tuple(allow or ()),
                nested=nested,
                overwrite=overwrite,
                as_json=json_output,
                workers=Workers(jobs, engine, address),
                all_attempts=all_attempts,
            )
            raise typer.Exit(write_calls(request))
    except RollerError as error:
        _fail(error)


@app.command("import")
def import_files(
    sources: Annotated[
        list[Path], typer.Argument(parser=local_path, metavar="FILE", help="What mitmdump -w wrote, or a HAR.")
    ],
    attempt: Annotated[
        Path, typer.Option(parser=local_path, metavar="DIR", help="The attempt to make; must not be there yet.")
    ],
    harness: Annotated[str, typer.Option(metavar="NAME", help="The harness that made the calls.")],
    native: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="PATH", help="HOME of the run, or the harness's folder in it: its logs."
        ),
    ] = None,
) -> None:
    """Make an attempt's working files from what another recorder saw, for finalize; what that does not prove is named.

    Example: roller-capture import flows.mitm --attempt runs/attempt-0001 --harness claude-code --native agent-home
    """
    from roller_capture.importing.command import ImportRequest, import_attempt, outcome_lines

    try:
        with progress(f"import {attempt}") as bar:
            request = ImportRequest(tuple(sources), attempt, harness, native, bar)
            outcome = import_attempt(request)
    except RollerError as error:
        _fail(error)
    for line in outcome_lines(request, outcome):
        say(line)


@app.command()
def prune(
    paths: Annotated[
        list[Path], typer.Argument(parser=local_path, metavar="PATH", help="Attempts, or folders of attempts.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how much room that would give.")] = False,
) -> None:
    """Take raw/ (native logs, raw responses, events) out of published attempts; the formal files stay.

    Example: roller-capture prune ~/agent-runs/first --dry-run
    """
    from roller_capture.prune_command import prune as prune_attempts
    from roller_capture.runs.outside_books import note_publication, note_superseded

    raise typer.Exit(prune_attempts(paths, dry_run=dry_run, before_swap=note_publication, after_swap=note_superseded))


@app.command()
def migrate(
    path: Annotated[
        Path, typer.Argument(parser=local_path, metavar="PATH", help="An attempt, or a folder of attempts.")
    ],
    output: Annotated[
        Path, typer.Option(parser=local_path, metavar="DIR", help="Where the copy goes; must not be there yet.")
    ],
    from_raw: Annotated[
        bool, typer.Option("--from-raw", help="Derive everything anew from raw/, with today's adapters.")
    ] = False,
) -> None:
    """Copy attempts of an earlier layout into today's, ids kept; the originals are never written to.

    Example: roller-capture migrate old/attempt-0001 --output migrated/attempt-0001
    """
    from roller_capture.migrate_command import migrate as migrate_attempts

    try:
        raise typer.Exit(migrate_attempts(path, output, from_raw=from_raw))
    except RollerError as error:
        _fail(error)


@export_app.command("main")
def export_main(
    paths: Places,
    output: Output,
    file_format: Annotated[
        Format | None,
        typer.Option("--format", help="JSON lines, or Parquet (of --as sft) [default: by the file's name]."),
    ] = None,
    form: Annotated[
        MainForm, typer.Option("--as", help="The whole trajectory, or messages and tools for training.")
    ] = MainForm.ACTF,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    all_attempts: AllAttempts = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
    jobs: Jobs = 1,
    engine: EngineOption = Engine.LOCAL,
    address: Address = None,
) -> None:
    """Write the root's own conversation: one row for each segment between compactions.

    Example: roller-capture export main ~/agent-runs/first --output train.jsonl --as sft
    """
    from roller_capture.export.main.command import export_main as write_trajectories
    from roller_capture.remote.elsewhere import Elsewhere

    try:
        with Elsewhere() as elsewhere:
            file = elsewhere.output(output)
            request = MainExport(
                elsewhere.inputs(paths),
                file,
                form,
                Workers(jobs, engine, address),
                format_of(file, file_format),
                overwrite=overwrite,
                as_json=json_output,
                all_attempts=all_attempts,
            )
            raise typer.Exit(write_trajectories(request))
    except RollerError as error:
        _fail(error)


@export_app.command("atif")
def export_atif(
    paths: Places,
    output: Annotated[
        Any,
        typer.Option(
            metavar="FILE|DIR",
            parser=place,
            callback=_no_stdout,
            help="A file NAME.json for one attempt, else a folder of such files.",
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    all_attempts: AllAttempts = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
) -> None:
    """Write trajectories in Harbor's interchange format (ATIF), with those of subagents inside.

    Example: roller-capture export atif ~/agent-runs/first --output trajectories/
    """
    from roller_capture.export.atif.command import AtifExport
    from roller_capture.export.atif.command import export_atif as write_trajectories
    from roller_capture.remote.elsewhere import Elsewhere

    try:
        with Elsewhere() as elsewhere:
            inputs, place_of_files = elsewhere.inputs(paths), elsewhere.output(output)
            request = AtifExport(
                inputs, place_of_files, overwrite=overwrite, as_json=json_output, all_attempts=all_attempts
            )
            raise typer.Exit(write_trajectories(request))
    except RollerError as error:
        _fail(error)


@export_app.command("otel")
def export_otel(
    paths: Places,
    output: Annotated[
        Any,
        typer.Option(
            metavar="FILE",
            parser=place,
            callback=_no_stdout,
            help="The file of OTLP/JSON lines to write, an attempt a line.",
        ),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="Send them to this collector instead (OTLP/HTTP).")
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="With what was said: messages, tools, arguments, results.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    all_attempts: AllAttempts = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
) -> None:
    """Write OpenTelemetry spans of agents, model calls and tools (GenAI conventions), parents by relations.

    Example: roller-capture export otel ~/agent-runs/first --endpoint http://127.0.0.1:4318
    """
    from roller_capture.export.otel.command import OtelExport
    from roller_capture.export.otel.command import export_otel as write_spans
    from roller_capture.remote.elsewhere import Elsewhere

    try:
        with Elsewhere() as elsewhere:
            file = None if output is None else elsewhere.output(output)
            inputs = elsewhere.inputs(paths)
            request = OtelExport(
                inputs,
                file,
                endpoint,
                content,
                overwrite=overwrite,
                as_json=json_output,
                all_attempts=all_attempts,
            )
            raise typer.Exit(write_spans(request))
    except RollerError as error:
        _fail(error)


@export_app.command("har")
def export_har(
    paths: Places,
    output: Output,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    all_attempts: AllAttempts = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
) -> None:
    """Write all model calls as an HTTP archive (HAR 1.2), with response bodies where raw/ was kept.

    Example: roller-capture export har ~/agent-runs/first --output first.har
    """
    from roller_capture.export.har.command import HarExport
    from roller_capture.export.har.command import export_har as write_archive
    from roller_capture.remote.elsewhere import Elsewhere

    try:
        with Elsewhere() as elsewhere:
            inputs, file = elsewhere.inputs(paths), elsewhere.output(output)
            request = HarExport(inputs, file, overwrite=overwrite, as_json=json_output, all_attempts=all_attempts)
            raise typer.Exit(write_archive(request))
    except RollerError as error:
        _fail(error)


@app.command("addon-path")
def addon_path() -> None:
    """Print the path of the mitmproxy addon.

    Example: mitmdump -q -s "$(roller-capture addon-path)" --set roller_attempt=DIR --set roller_harness=claude-code
    """
    try:
        answer(str(shipped_path("addons", "capture.py")))
    except RollerError as error:
        _fail(error)


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Argument(parser=local_path, metavar="DIR", help="Where to put the attempt [default: demo-attempt]."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Only serve the scripted model, for a first collect without a key.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="With --serve: the port [default: a free one].")
    ] = None,
) -> None:
    """Record, finalize and validate a scripted agent with one subagent; no credentials, no harness.

    Example: roller-capture demo --serve
    """
    if serve and directory is not None:
        _fail(RollerError("--serve records nothing: leave the directory away", exit_code=2))
    if port is not None and not serve:
        _fail(RollerError("--port goes with --serve", exit_code=2))
    try:
        if serve:
            from roller_capture.demo_service import serve as serve_model

            raise typer.Exit(serve_model(port or 0))
        from roller_capture.demo import run_demo

        raise typer.Exit(run_demo(directory or Path("demo-attempt")))
    except RollerError as error:
        _fail(error)


def _fail(error: RollerError) -> NoReturn:
    say(f"error: {error}")
    raise typer.Exit(error.exit_code)
