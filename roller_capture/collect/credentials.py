"""Which key the harness gets, and which one the proxy puts in its place (design section 4).

The real key is read from the environment and handed on by environment alone: never as an argument, never into a file.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from roller_capture.collect.api_base import ApiBase
from roller_capture.collect.request import KeyVia
from roller_capture.errors import RollerError
from roller_capture.launchers import LauncherTraits
from roller_capture.recording.credentials import MADE_UP_PREFIX, SHORTEST_SECRET
from roller_capture.vocabulary import Protocol

UPSTREAM_KEY: Final = "ROLLER_COLLECT_UPSTREAM_KEY"
DUMMY_KEY: Final = "ROLLER_COLLECT_DUMMY_KEY"
"""The proxy's own variables; no harness ever has them."""


_ANTHROPIC: Final = "ANTHROPIC_API_KEY"
_ANTHROPIC_HOST: Final = ".anthropic.com"
_VENDORS: Final[Mapping[Protocol, str]] = {
    Protocol.ANTHROPIC_MESSAGES: _ANTHROPIC,
    Protocol.OPENAI_CHAT_COMPLETIONS: "OPENAI_API_KEY",
    Protocol.OPENAI_RESPONSES: "OPENAI_API_KEY",
}
"""Where the official SDK of each protocol looks for its key."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one attempt.

    `for_harness` is what the harness is given. `upstream` is what the proxy puts in its place: `None` when the harness
    holds the real key itself, or when a service on this machine needs none; then what the harness sends passes.
    """

    for_harness: str | None = field(repr=False)
    upstream: str | None = field(repr=False)
    note: str
    marks_requests: bool = True

    def for_another_attempt(self) -> "Keys":
        """The same with a made-up key of its own: it proves which attempt a request belongs to."""
        made_up = self.for_harness is not None and self.for_harness.startswith(MADE_UP_PREFIX)
        return replace(self, for_harness=dummy_key()) if made_up else self

    @property
    def proxy_options(self) -> list[str]:
        """Options of the recording proxy: names of variables only."""
        if not self.marks_requests:
            return []
        options = ["--set", f"roller_dummy_key_env={DUMMY_KEY}"]
        if self.upstream is not None:
            options += ["--set", f"roller_upstream_key_env={UPSTREAM_KEY}"]
        return options

    @property
    def proxy_environment(self) -> Mapping[str, str]:
        """What the proxy's environment has beyond the user's."""
        environment = {DUMMY_KEY: self.for_harness or ""} if self.marks_requests else {}
        return environment if self.upstream is None else {**environment, UPSTREAM_KEY: self.upstream}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that must not be shown."""
        return tuple(key for key in (self.for_harness, self.upstream) if key)

    @property
    def real(self) -> tuple[str, ...]:
        """What must not be stored: the keys that open something."""
        return tuple(key for key in self.secrets if not key.startswith(MADE_UP_PREFIX))


def usual_key_variable(traits: LauncherTraits, protocol: Protocol | None, api_base: ApiBase | None) -> str:
    """The variable in which this harness looks for the key of such a service: by the protocol, or where nobody knows
    that, by the service's own name. A key of one vendor is never sent to another one for lack of a better."""
    vendor = _VENDORS.get(protocol) if protocol is not None else None
    if vendor is None and api_base is not None and f".{api_base.host}".endswith(_ANTHROPIC_HOST):
        vendor = _ANTHROPIC
    return vendor if vendor is not None and vendor in traits.key_variables else traits.key_variables[0]


def choose_keys(variable: str, via: KeyVia, api_base: ApiBase | None, *, captured: bool, named: bool = True) -> Keys:
    """Decides who gets which key. `named`: the user has named the variable, so it has to be there.

    Raises `RollerError` (exit 2) when there is no key and the service may need one.
    """
    if not variable.strip() or "=" in variable or "\0" in variable:
        raise RollerError(f"--api-key-env {variable!r}: is no name of a variable", exit_code=2)
    real = os.environ.get(variable, "").strip()
    if real and (not real.isascii() or not real.isprintable() or " " in real or len(real) < SHORTEST_SECRET):
        raise RollerError(
            f"{variable} holds no key: it must have at least {SHORTEST_SECRET} printable ASCII characters and no blank",
            exit_code=2,
        )
    on_this_machine = api_base is not None and api_base.is_loopback
    if not real and (named or not on_this_machine):
        raise RollerError(
            f"{variable} is not set: export the key of the model service, or name its variable with --api-key-env",
            exit_code=2,
        )
    if via is KeyVia.HARNESS or not captured:
        note = f"the harness itself holds the key from {variable}" if real else "no key"
        return Keys(real or dummy_key(), None, note, marks_requests=False)
    if not real:
        note = f"{variable} is not set: the service on this machine gets a made-up key"
        return Keys(dummy_key(), None, note)
    return Keys(dummy_key(), real, f"key from {variable}; the harness gets a made-up one in its place")


def dummy_key() -> str:
    """A key that opens nothing: 128 random bits, so it also proves which attempt a request belongs to."""
    return f"{MADE_UP_PREFIX}{secrets.token_hex(16)}"
