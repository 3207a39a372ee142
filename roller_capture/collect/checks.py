"""Everything that can be checked before `collect` writes or starts anything."""

import math
import os
import resource
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from roller_capture.collect.api_base import ApiBase, parse_api_base
from roller_capture.collect.credentials import Keys, choose_keys, usual_key_variable
from roller_capture.collect.private_folder import no_temporary_room, temporary_trouble
from roller_capture.collect.request import CollectRequest
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import Launcher, LauncherTraits, find_launcher
from roller_capture.launchers.binaries import Binary, find_binary
from roller_capture.launchers.refusal import check_protocol, no_model
from roller_capture.paths import full_path
from roller_capture.runs.directory import check_new, check_old
from roller_capture.runs.samples_file import SampleSpec, prompt_problem, read_samples
from roller_capture.vocabulary import Protocol

FIRST_SAMPLE: Final = "sample-0001"
"""The id of a run's only sample, that of `--prompt`."""

MOST_JOBS: Final = 128
MOST_SECONDS: Final = 10_000_000
_OPEN_FILES: Final = 100
_OPEN_FILES_EACH: Final = 14


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that can be run."""

    launcher: Launcher
    binary: Binary
    api_base: ApiBase | None
    keys: Keys
    key_variable: str
    protocol: Protocol
    stated_protocol: Protocol | None
    """`protocol`, unless nobody knows what the harness speaks."""
    run_dir: Path
    workdir: Path | None
    samples: tuple[SampleSpec, ...]


def check_request(request: CollectRequest) -> CheckedRequest:
    """Finds what is needed, and refuses what cannot work. Raises `RollerError`, nearly always with exit code 2."""
    launcher = find_launcher(request.harness)
    traits = launcher.traits
    _check_what_to_run(request)
    _check_capture_options(request)
    _check_limits(request)
    _check_jobs(request)
    check_protocol(request.protocol, request.harness, traits)
    protocol = request.protocol or traits.protocols[0]
    _check_profile(request.profile, request.harness, traits, "--profile")
    _check_model(request.model, "--model")
    launcher.check_arguments(request.harness_args)
    workdir = _checked_workdir(request.workdir)
    samples = tuple(_checked_samples(request, launcher, workdir))
    api_base = None if request.api_base is None else parse_api_base(request.api_base)
    _check_temporary_folder()
    _check_authority(api_base if request.capture_calls else None)
    named = request.api_key_env is not None
    stated = request.protocol if HARNESSES[request.harness].is_users_own else protocol
    usual = usual_key_variable(traits, stated, api_base)
    variable = usual if request.api_key_env is None else request.api_key_env
    keys = choose_keys(variable, request.key_via, api_base, captured=request.capture_calls, named=named)
    run_dir = full_path(request.run_dir)
    (check_old if request.resume else check_new)(run_dir)
    return CheckedRequest(
        launcher=launcher,
        binary=find_binary(request.harness, launcher, request.harness_bin),
        api_base=api_base,
        keys=keys,
        key_variable=variable if variable in traits.key_variables else usual,
        protocol=protocol,
        stated_protocol=stated,
        run_dir=run_dir,
        workdir=workdir,
        samples=samples,
    )


def _check_what_to_run(request: CollectRequest) -> None:
    if request.samples is not None and request.prompts:
        raise _wrong("--prompt does not go with --samples: the prompts are in the file")
    if request.redo is not None and not request.resume:
        raise _wrong(f"--redo {request.redo} needs --resume: only then is there something to redo")
    if request.samples is not None:
        return
    if not request.prompts:
        raise _wrong(
            "nothing to do: give --prompt TEXT, more than once for several turns of one session, or --samples FILE"
        )
    for prompt in request.prompts:
        problem = prompt_problem(prompt)
        if problem is not None:
            raise _wrong(f"--prompt: {problem}")


def _check_jobs(request: CollectRequest) -> None:
    """Each attempt has a handful of files open here, and the shell's usual limit is 1024."""
    jobs = request.jobs
    if not 1 <= jobs <= MOST_JOBS:
        raise _wrong(f"--jobs {jobs}: give a number from 1 to {MOST_JOBS}")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OPEN_FILES + jobs * _OPEN_FILES_EACH
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise _wrong(
            f"--jobs {jobs}: needs {needed} open files, {limit} are allowed: raise that with ulimit -n {needed}"
        )
    if request.samples is None and jobs != 1:
        raise _wrong(f"--jobs {jobs} does not go with --prompt, which is one session: give many with --samples FILE")


def _checked_samples(request: CollectRequest, launcher: Launcher, workdir: Path | None) -> Iterator[SampleSpec]:
    """The samples, each with where it works; what is wrong with one names its line."""
    if request.samples is None:
        if launcher.traits.needs_model and request.model is None:
            raise no_model(request.harness)
        yield SampleSpec(FIRST_SAMPLE, request.prompts, workdir)
        return
    for sample in read_samples(request.samples.expanduser()):
        if launcher.traits.needs_model and request.model is None and sample.model is None:
            raise no_model(request.harness, sample.origin)
        _check_profile(sample.profile, request.harness, launcher.traits, f"{sample.origin}: profile")
        _check_model(sample.model, f"{sample.origin}: model")
        if sample.harness_args:
            try:
                launcher.check_arguments((*request.harness_args, *sample.harness_args))
            except RollerError as error:
                raise _wrong(f"{sample.origin}: harness_args: {error}") from None
        if sample.workdir is not None and not os.access(sample.workdir, os.W_OK | os.X_OK):
            raise _wrong(f"{sample.origin}: workdir {sample.workdir} cannot be written to")
        yield sample if sample.workdir is not None else replace(sample, workdir=workdir)


def _check_profile(profile: str | None, harness: str, traits: LauncherTraits, name: str) -> None:
    if profile is not None and profile not in traits.profiles:
        able = f"one of {', '.join(traits.profiles)}" if traits.profiles else "none: leave --profile out"
        raise _wrong(f"{name} {profile}: {harness} has {able}")


def _check_model(model: str | None, name: str) -> None:
    if model is not None and (not model or not model.isprintable()):
        raise _wrong(f"{name}: is empty or has control characters")


def _check_capture_options(request: CollectRequest) -> None:
    if request.network != "host":
        raise _wrong(
            f"--network {request.network}: only host: the harness must reach the proxy at this machine's 127.0.0.1"
        )
    if request.capture_calls and not request.wire_trace:
        raise _wrong("--no-wire-trace: calls are captured from the wire and from nothing else")
    if request.capture_calls and request.api_base is None:
        raise _wrong("--capture-calls needs --api-base URL: the proxy must be told which model service to forward to")


def _check_limits(request: CollectRequest) -> None:
    check_seconds("--timeout", request.timeout)
    check_seconds("--drain-timeout", request.drain_timeout)


def check_seconds(option: str, value: float) -> None:
    """Raises `RollerError` (exit 2) for what is no time that can be waited."""
    if not math.isfinite(value) or not 0 < value <= MOST_SECONDS:
        raise _wrong(f"{option} {value:g}: give a number of seconds above 0, at most {MOST_SECONDS:,}")


def _check_temporary_folder() -> None:
    """Home and proxy work in folders of their own there. A full one shows only when something is written."""
    try:
        tempfile.gettempdir()
    except OSError:
        raise _wrong("no temporary folder can be written to: make room, or name one with TMPDIR") from None
    trouble = temporary_trouble()
    if trouble is not None:
        raise no_temporary_room(trouble)


def _check_authority(api_base: ApiBase | None) -> None:
    """Of what OpenSSL is told to trust; the proxy would only fail with it."""
    path = os.environ.get("SSL_CERT_FILE")
    if not path or api_base is None or api_base.scheme != "https":
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (OSError, ValueError) as error:  # an `ssl.SSLError` is an `OSError`
        said = "holds no certificate" if isinstance(error, ssl.SSLError) else f"cannot be read ({error})"
        raise _wrong(f"SSL_CERT_FILE {path}: {said}: name a file with certificates, or unset it") from None


def _checked_workdir(workdir: Path | None) -> Path | None:
    if workdir is None:
        return None
    path = full_path(workdir)
    if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
        raise _wrong(f"--workdir {path}: is no directory that can be written to")
    return path


def _wrong(message: str) -> RollerError:
    return RollerError(message, exit_code=2)
