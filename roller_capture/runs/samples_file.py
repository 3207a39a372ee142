"""The file of samples: one JSON object a line, `{id, prompt | turns[], workdir?, model?, profile?, harness_args?}`.

All of it is checked before anything runs; what is wrong is one line with file and line number (exit 2).
"""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from roller_capture.errors import RollerError
from roller_capture.json_text import MAX_DEPTH
from roller_capture.paths import full_path

LONGEST_PROMPT: Final = 128 * 1024 - 1
"""Bytes: Linux takes no longer argument."""

_LONGEST_LINE: Final = 64 * 1024 * 1024
_LONGEST_ID: Final = 120
"""Bytes of UTF-8: a folder's name can have 255, and exports add to it."""

_ID_PUNCTUATION: Final = frozenset("._-+@=,~")
_MEMBERS: Final = ("id", "prompt", "turns", "workdir", "model", "profile", "harness_args")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """What one sample is: `turns` of one session, and what it has of its own (`None`: as the whole run).

    `harness_args` come after those of the run. `origin` names file and line, for messages.
    """

    sample_id: str
    turns: tuple[str, ...]
    workdir: Path | None = None
    model: str | None = None
    profile: str | None = None
    harness_args: tuple[str, ...] = ()
    origin: str = "--prompt"


def read_samples(path: Path) -> list[SampleSpec]:
    """The samples in their order; lines that hold nothing are passed over. Raises `RollerError` (exit 2)."""
    samples: list[SampleSpec] = []
    seen: dict[str, tuple[str, int]] = {}
    for number, line in _lines(path):
        where = f"{path}:{number}"
        sample = _sample(line, where, path.absolute().parent)
        folded = unicodedata.normalize("NFKC", sample.sample_id).casefold()
        twin, line_number = seen.setdefault(folded, (sample.sample_id, number))
        if line_number != number:
            same = "is" if twin == sample.sample_id else "is, but for case,"
            _refuse(where, f"id {sample.sample_id!r} {same} the one of line {line_number}")
        samples.append(sample)
    if not samples:
        raise RollerError(f"{path}: holds no sample: write one JSON object a line, with id and prompt", exit_code=2)
    return samples


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    _refuse(f"{path}:{number}", f"is longer than {_LONGEST_LINE} bytes")
                text = (line.removeprefix(_BOM) if number == 1 else line).strip(b" \t\r\n")
                if text:
                    yield number, text
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RollerError(f"--samples {path}: cannot be read ({reason})", exit_code=2) from None


def _sample(line: bytes, where: str, base: Path) -> SampleSpec:
    record = _object(line, where)
    unknown = [name for name in record if name not in _MEMBERS]
    if unknown:
        _refuse(where, f"{unknown[0]!r} is no member of a sample: it can have {', '.join(_MEMBERS)}")
    sample_id = record.get("id")
    if not isinstance(sample_id, str):
        _refuse(where, "id is missing" if "id" not in record else "id is no text")
    problem = id_problem(sample_id)
    if problem is not None:
        _refuse(where, f"id {sample_id[:60]!r} {problem}")
    arguments = _texts(record, "harness_args", where)
    return SampleSpec(
        sample_id=sample_id,
        turns=_turns(record, where),
        workdir=_workdir(record, where, base),
        model=_text(record, "model", where),
        profile=_text(record, "profile", where),
        harness_args=arguments or (),
        origin=where,
    )


def _object(line: bytes, where: str) -> dict[str, Any]:
    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(members)
        if len(found) != len(members):
            names = [name for name, _ in members]
            twice = next(name for name in found if names.count(name) > 1)
            _refuse(where, f"{twice!r} is there twice")
        return found

    try:
        value = json.loads(line.decode(), object_pairs_hook=pairs, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        _refuse(where, f"is no UTF-8 at byte {error.start}")
    except RecursionError:
        _refuse(where, f"nests deeper than {MAX_DEPTH}")
    except ValueError as error:
        _refuse(where, f"is no JSON ({error})")
    if not isinstance(value, dict):
        _refuse(where, "is no JSON object")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def id_problem(sample_id: str) -> str | None:
    """Why an id can be no folder's name; `None` when it can."""
    if not sample_id:
        return "is empty"
    if not all(character.isalnum() or character in _ID_PUNCTUATION for character in sample_id):
        return f"is no safe folder name: use letters, digits and {' '.join(sorted(_ID_PUNCTUATION))}"
    if sample_id[0] in ".-~" or sample_id[-1] == ".":
        return "is no safe folder name: it begins with . - or ~, or ends with ."
    try:
        size = len(sample_id.encode())
    except UnicodeEncodeError:
        return "is no valid text"
    if size > _LONGEST_ID:
        return f"is too long: {size} bytes, at most {_LONGEST_ID}"
    if unicodedata.normalize("NFC", sample_id) != sample_id:
        return "is not in Unicode's normal form C, so two spellings of it would look alike"
    return None


def _turns(record: dict[str, Any], where: str) -> tuple[str, ...]:
    if "prompt" in record and "turns" in record:
        _refuse(where, "has both prompt and turns: give one of them")
    if "prompt" in record:
        prompt = record["prompt"]
        if not isinstance(prompt, str):
            _refuse(where, "prompt is no text")
        turns: tuple[str, ...] = (prompt,)
    elif "turns" in record:
        turns = _texts(record, "turns", where) or ()
        if not turns:
            _refuse(where, "turns is empty")
    else:
        _refuse(where, "prompt is missing (or turns, for several of one session)")
    for turn in turns:
        problem = prompt_problem(turn)
        if problem is not None:
            _refuse(where, f"{'prompt' if 'prompt' in record else 'a turn'} {problem}")
    return turns


def prompt_problem(prompt: str) -> str | None:
    """Why a text can be no turn; `None` when it can."""
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError:
        return "is no valid text"
    if not prompt.strip() or "\0" in prompt:
        return "is empty or holds a NUL character"
    if size > LONGEST_PROMPT:
        return (
            f"has {size} bytes, more than an argument can hold ({LONGEST_PROMPT}): "
            "put the text into a file of the --workdir and name the file"
        )
    return None


def _text(record: dict[str, Any], name: str, where: str) -> str | None:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        _refuse(where, f"{name} is no text")
    return value


def _texts(record: dict[str, Any], name: str, where: str) -> tuple[str, ...] | None:
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        _refuse(where, f"{name} is no list of texts")
    return tuple(value)


def _workdir(record: dict[str, Any], where: str, base: Path) -> Path | None:
    """Relative to the folder of the samples file, so that both can be moved together."""
    text = _text(record, "workdir", where)
    if text is None:
        return None
    if not text or "\0" in text:
        _refuse(where, "workdir is empty or holds a NUL character")
    try:
        path = full_path(base / Path(text).expanduser())
        is_folder = path.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        _refuse(where, f"workdir {text!r} cannot be used ({error})")
    if not is_folder:
        _refuse(where, f"workdir {path} is no directory")
    return path


def duplicates(values: Sequence[Path | None]) -> int:
    """How many of them are some other's too."""
    given = [value for value in values if value is not None]
    return len(given) - len(set(given))


def _refuse(where: str, problem: str) -> NoReturn:
    raise RollerError(f"{where}: {problem}", exit_code=2)
