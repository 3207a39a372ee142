"""The order of the steps that turn Pi's session logs into a `NativeCapture`.

Pi as it is bundled has no delegation tool (protocol, "Execution boundaries"): a session is a root, and there are no
relations. Extensions can bring such tools; then whether it can delegate is unknown, and nothing is guessed.
"""

from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id, as_word
from roller_capture.adapters.pi import identity
from roller_capture.adapters.pi.locate import find_logs, is_file_name, own_sessions
from roller_capture.adapters.pi.session_log import SessionLog, read_log
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NativeParticipant
from roller_capture.vocabulary import AttemptErrorCode, EvidenceKind, LifecycleStatus, Role, SubtaskSupport

TESTED_VERSIONS: Final = frozenset({"1.6.0"})
_BUNDLED_TOOLS: Final = frozenset({"read", "bash", "edit", "write", "grep", "find", "ls", "powershell"})


def read(source: AdapterInput) -> NativeCapture:
    """Reads the logs of the sessions that the attempt's requests name, below `source.native_root`.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    version = _version(source, gaps)
    tree = _tree(source, gaps)
    logs = [] if tree is None else _read_logs(tree, _session_ids(source, tree, gaps), gaps)
    roots = _roots(source, logs, gaps)
    coverage = identity.coverage(logs, source.wire_headers, gaps)
    hook_seen = bool(source.wire_headers.get(identity.HOOK_SESSION))
    return NativeCapture(
        harness_version=version,
        version_tested=version in TESTED_VERSIONS,
        participants=tuple(_participant(log, is_root=log.session_id in roots) for log in logs),
        identity_fields=identity.IDENTITY_FIELDS,
        identity_claims=tuple(identity.identity_claims(logs, source.wire_headers)),
        absent_header_claims=(),
        purpose_claims=tuple(identity.purpose_claims(logs)),
        relations=(),
        context_probes=(),
        coverage=coverage,
        subtasks=_subtasks(logs),
        sources=tree.sources if tree is not None else (),
        gaps=gaps.gaps(),
        # A run by hand may do without the hook; one by `collect` has it always.
        hook_header=identity.HOOK_SESSION if hook_seen or source.launcher else None,
        lifecycle=None if logs and not _strangers(source, logs) else LifecycleStatus.UNKNOWN,
    )


def _version(source: AdapterInput, gaps: GapLog) -> str | None:
    """What the hook sent, else what the launcher was told: Pi's logs do not name the version that wrote them."""
    sent = {as_word(value) for value in source.wire_headers.get(identity.HOOK_VERSION, frozenset())} - {None}
    version = sent.pop() if len(sent) == 1 else as_word(source.launcher.get("harness_version"))
    if version not in TESTED_VERSIONS:
        named = "a version that is not told" if version is None else f"version {version}"
        gaps.add(AttemptErrorCode.NATIVE_VERSION_UNTESTED, f"{named} of Pi was never tested")
    return version


def _tree(source: AdapterInput, gaps: GapLog) -> NativeTree | None:
    root = source.native_root
    try:
        if root is not None and root.is_dir():
            return NativeTree(root, gaps)
    except OSError:
        pass
    gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no folder with native logs")
    return None


def _on_the_wire(source: AdapterInput) -> frozenset[str]:
    return frozenset().union(*(source.wire_headers.get(header, frozenset()) for header in identity.SESSION_HEADERS))


def _session_ids(source: AdapterInput, tree: NativeTree, gaps: GapLog) -> frozenset[str]:
    """The sessions to read: those seen on the wire and the one that the launcher started. Where Pi sends no id at all,
    the only session of the run's own copy of the logs."""
    named = as_id(source.launcher.get("root_native_id"))
    seen = _on_the_wire(source) | ({named} if named is not None else set())
    usable = frozenset(item for item in seen if is_file_name(item))
    if len(usable) < len(seen):
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a session id cannot be the name of a log")
    if usable:
        return usable
    is_own = _is_own_copy(source)
    present = own_sessions(tree) if is_own else []
    if len(present) == 1:
        return frozenset(present)
    held = f"the run's own logs hold {len(present) or 'none'}" if is_own else "the logs are not the run's own copy"
    gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, f"no request and no launcher names the session, and {held}")
    return frozenset()


def _is_own_copy(source: AdapterInput) -> bool:
    """Whether the native root holds the logs of this run only: `work/native`, as a launcher fills it."""
    root = source.native_root
    return bool(source.launcher) or (root is not None and root.parts[-2:] == ("work", "native"))


def _read_logs(tree: NativeTree, session_ids: frozenset[str], gaps: GapLog) -> list[SessionLog]:
    logs = []
    for session_id, paths in find_logs(tree, session_ids).items():
        if len(paths) == 1:
            log = read_log(tree, paths[0], session_id, gaps)
            if str(paths[0]) in {source.source for source in tree.sources}:
                logs.append(log)
        elif paths:
            reason = f"session {session_id} has {len(paths)} logs, so that none of them is known to be its own"
            gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason)
        else:
            gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, f"there is no log of session {session_id}")
    return logs


def _roots(source: AdapterInput, logs: list[SessionLog], gaps: GapLog) -> frozenset[str]:
    """Which sessions are roots: the one that the launcher started, else all, which is a gap if there is not one."""
    everyone = frozenset(log.session_id for log in logs)
    named = as_id(source.launcher.get("root_native_id"))
    if named in everyone:
        if len(everyone) > 1:
            reason = "a session that the launcher did not start made requests"
            gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)
        return frozenset({named} if named is not None else ())
    if named is not None and everyone:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "the session that the launcher started has no log")
    if len(everyone) > 1:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, f"{len(everyone)} sessions made requests, none is marked as root")
    return everyone


def _participant(log: SessionLog, *, is_root: bool) -> NativeParticipant:
    return NativeParticipant(
        key=log.session_id,
        role=Role.ROOT if is_root else Role.CHILD,
        parent_key=None,
        native_ids={"session_id": (log.session_id,)},
        execution_status=log.execution_status,
        evidence=(log.header_evidence(EvidenceKind.NATIVE_RECORD),),
        lifecycle=LifecycleStatus.COMPLETE if is_root else LifecycleStatus.UNKNOWN,
    )


def _subtasks(logs: list[SessionLog]) -> SubtaskSupport:
    """Not available where every log says which tools there were, and all of them are Pi's own."""
    bundled = bool(logs) and all(log.tools is not None and log.tools <= _BUNDLED_TOOLS for log in logs)
    return SubtaskSupport.NOT_AVAILABLE if bundled else SubtaskSupport.UNKNOWN


def _strangers(source: AdapterInput, logs: list[SessionLog]) -> frozenset[str]:
    """Sessions that made requests, and of which there is no log."""
    return _on_the_wire(source) - {log.session_id for log in logs}
