"""Everything that can be checked before `collect` writes or starts anything."""

import math
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roller_capture.collect.api_base import ApiBase, parse_api_base
from roller_capture.collect.credentials import Keys, choose_keys
from roller_capture.collect.request import CollectRequest
from roller_capture.collect.run_folder import check_new
from roller_capture.errors import RollerError
from roller_capture.launchers import Launcher, find_launcher
from roller_capture.launchers.binaries import Binary, find_binary
from roller_capture.vocabulary import Protocol

_LONGEST_PROMPT: Final = 128 * 1024 - 1
"""Bytes: Linux takes no longer argument."""


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that can be run."""

    launcher: Launcher
    binary: Binary
    api_base: ApiBase | None
    keys: Keys
    key_variable: str
    protocol: Protocol
    run_dir: Path
    workdir: Path | None


def check_request(request: CollectRequest) -> CheckedRequest:
    """Finds what is needed, and refuses what cannot work. Raises `RollerError`, nearly always with exit code 2."""
    launcher = find_launcher(request.harness)
    traits = launcher.traits
    _check_prompts(request.prompts)
    _check_capture_options(request)
    _check_limits(request)
    protocol = request.protocol or traits.protocols[0]
    if protocol not in traits.protocols:
        able = ", ".join(traits.protocols)
        raise _wrong(f"--protocol {protocol}: {request.harness} speaks {able}")
    if request.profile is not None and request.profile not in traits.profiles:
        able = f"one of {', '.join(traits.profiles)}" if traits.profiles else "none: leave --profile out"
        raise _wrong(f"--profile {request.profile}: {request.harness} has {able}")
    if request.model is not None and (not request.model or not request.model.isprintable()):
        raise _wrong("--model: is empty or has control characters")
    launcher.check_arguments(request.harness_args)
    workdir = _checked_workdir(request.workdir)
    api_base = None if request.api_base is None else parse_api_base(request.api_base)
    _check_temporary_folder()
    _check_authority(api_base if request.capture_calls else None)
    named = request.api_key_env is not None
    variable = traits.key_variables[0] if request.api_key_env is None else request.api_key_env
    keys = choose_keys(variable, request.key_via, api_base, captured=request.capture_calls, named=named)
    run_dir = request.run_dir.expanduser().absolute()
    check_new(run_dir)
    return CheckedRequest(
        launcher=launcher,
        binary=find_binary(request.harness, launcher, request.harness_bin),
        api_base=api_base,
        keys=keys,
        key_variable=variable if variable in traits.key_variables else traits.key_variables[0],
        protocol=protocol,
        run_dir=run_dir,
        workdir=workdir,
    )


def _check_prompts(prompts: tuple[str, ...]) -> None:
    if not prompts:
        raise _wrong("nothing to do: give --prompt TEXT, more than once for several turns of one session")
    for prompt in prompts:
        try:
            size = len(prompt.encode())
        except UnicodeEncodeError:
            raise _wrong("--prompt: is no valid text") from None
        if not prompt.strip() or "\0" in prompt:
            raise _wrong("--prompt: is empty or holds a NUL character")
        if size > _LONGEST_PROMPT:
            raise _wrong(
                f"--prompt: {size} bytes are more than an argument can hold ({_LONGEST_PROMPT}): "
                "put the text into a file of the --workdir and name the file"
            )


def _check_capture_options(request: CollectRequest) -> None:
    if request.network != "host":
        raise _wrong(
            f"--network {request.network}: only host: the harness must reach the proxy at this machine's 127.0.0.1"
        )
    if not request.wire_trace:
        raise _wrong("--no-wire-trace: calls are captured from the wire and from nothing else")
    if request.capture_calls and request.api_base is None:
        raise _wrong("--capture-calls needs --api-base URL: the proxy must be told which model service to forward to")


def _check_limits(request: CollectRequest) -> None:
    for option, value in (("--timeout", request.timeout), ("--drain-timeout", request.drain_timeout)):
        if not math.isfinite(value) or not 0 < value <= 10_000_000:
            raise _wrong(f"{option} {value:g}: give seconds above 0")


def _check_temporary_folder() -> None:
    """Home and proxy work in folders of their own there."""
    try:
        tempfile.gettempdir()
    except OSError:
        raise _wrong("no temporary folder can be written to: make room, or name one with TMPDIR") from None


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
    path = workdir.expanduser().absolute()
    if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
        raise _wrong(f"--workdir {path}: is no directory that can be written to")
    return path


def _wrong(message: str) -> RollerError:
    return RollerError(message, exit_code=2)
