"""The order of the steps that turn the rollouts of Codex into a `NativeCapture`."""

from collections import Counter
from typing import Final

from roller_capture.adapters.codex import identity
from roller_capture.adapters.codex.facts import Rollout
from roller_capture.adapters.codex.locate import is_thread_id, root_threads
from roller_capture.adapters.codex.record_shapes import DELEGATION_TOOLS
from roller_capture.adapters.codex.relations import NativeRelations, execution_status, find_relations
from roller_capture.adapters.codex.threads import Threads, read_threads
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id
from roller_capture.adapters.wire_parents import contradicted_children
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NativeParticipant
from roller_capture.vocabulary import AttemptErrorCode, LifecycleStatus, Role, SubtaskSupport

TESTED_VERSIONS: Final = frozenset({"0.171.0"})


def read(source: AdapterInput) -> NativeCapture:
    """Reads the rollouts of the threads that the attempt's requests name, and of all their descendants, below
    `source.native_root`.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    tree = _tree(source, gaps)
    if tree is None:
        return _capture(source, Threads({}), NativeRelations(), None, gaps)
    threads = read_threads(tree, _thread_ids(source, tree, gaps), gaps)
    parents = {thread_id: rollout.meta.parent_id for thread_id, rollout in threads.by_id.items()}
    headers = (identity.THREAD_HEADER, identity.PARENT_HEADER)
    threads.contradicted = contradicted_children(source.wire_calls, *headers, parents, gaps)
    relations = find_relations(threads, gaps)
    return _capture(source, threads, relations, tree, gaps)


def _tree(source: AdapterInput, gaps: GapLog) -> NativeTree | None:
    root = source.native_root
    try:
        if root is not None and root.is_dir():
            return NativeTree(root, gaps)
    except OSError:
        pass
    gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no folder with native logs")
    return None


def _thread_ids(source: AdapterInput, tree: NativeTree, gaps: GapLog) -> frozenset[str]:
    """The threads to read: those that requests name, be it as their parent or root (of a review the root itself makes
    no request), and the one that the launcher started. Without any, the only root in the run's own copy of the logs."""
    seen = source.wire_headers.get(identity.THREAD_HEADER, frozenset())
    if not all(is_thread_id(item) for item in seen):
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a request's thread id has no known form")
    named = as_id(source.launcher.get("root_native_id"))
    everything = seen.union(
        *(source.wire_headers.get(header, ()) for header in identity.RELATIVE_HEADERS), {named or ""}
    )
    usable = frozenset(item for item in everything if is_thread_id(item))
    if usable:
        return usable
    is_own = _is_own_copy(source)
    present = root_threads(tree) if is_own else []
    if len(present) == 1:
        return frozenset(present)
    held = f"the run's own logs hold {len(present) or 'none'}" if is_own else "the logs are not the run's own copy"
    gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, f"no request and no launcher names the thread, and {held}")
    return frozenset()


def _is_own_copy(source: AdapterInput) -> bool:
    """Whether the native root holds the logs of this run only: `work/native`, as a launcher fills it."""
    root = source.native_root
    return bool(source.launcher) or (root is not None and root.parts[-2:] == ("work", "native"))


def _capture(
    source: AdapterInput, threads: Threads, relations: NativeRelations, tree: NativeTree | None, gaps: GapLog
) -> NativeCapture:
    seen = source.wire_headers.get(identity.THREAD_HEADER, frozenset())
    if tree is not None:
        _name_missing_threads(source, threads, seen, gaps)
    roots = _root_ids(source, threads, gaps)
    versions = sum((rollout.versions for rollout in threads.by_id.values()), Counter[str]())
    for version in sorted(versions.keys() - TESTED_VERSIONS):
        gaps.add(AttemptErrorCode.NATIVE_VERSION_UNTESTED, f"version {version} of Codex was never tested")
    metadata = source.wire_headers.get(identity.METADATA_HEADER, frozenset())
    is_known = bool(threads.roots) and seen | threads.doubtful <= threads.by_id.keys()
    return NativeCapture(
        harness_version=max(versions, key=lambda item: versions[item]) if versions else None,
        version_tested=bool(versions) and TESTED_VERSIONS.issuperset(versions),
        participants=tuple(_participant(item, threads, relations, roots) for item in threads.by_id.values()),
        identity_fields=identity.IDENTITY_FIELDS,
        identity_claims=tuple(identity.identity_claims(threads)),
        absent_header_claims=(),
        purpose_claims=tuple(identity.purpose_claims(threads, metadata)),
        relations=tuple(relations.relations),
        context_probes=tuple(relations.probes),
        coverage=identity.coverage(threads),
        subtasks=SubtaskSupport.SUPPORTED,
        delegation_tools=DELEGATION_TOOLS,
        sources=tree.sources if tree is not None else (),
        gaps=gaps.gaps(),
        lifecycle=None if is_known else LifecycleStatus.UNKNOWN,
    )


def _name_missing_threads(source: AdapterInput, threads: Threads, seen: frozenset[str], gaps: GapLog) -> None:
    for thread_id in sorted(seen - threads.by_id.keys()):
        label = thread_id if is_thread_id(thread_id) else "of unusable form"
        gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, f"requests name thread {label}, of which no rollout is read")
    if not threads.by_id and not seen and source.launcher.get("root_native_id") is not None:
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no rollout of the thread that the launcher started")


def _root_ids(source: AdapterInput, threads: Threads, gaps: GapLog) -> frozenset[str]:
    """Which threads are roots: the one that the launcher started, else all that are nobody's children."""
    present = {rollout.thread_id for rollout in threads.roots}
    named = as_id(source.launcher.get("root_native_id"))
    if named is not None and present and named not in present:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "the thread that the launcher started is no root with a rollout")
    elif named is None and len(present) > 1:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, f"{len(present)} threads are nobody's children")
    elif named is not None and len(present) > 1:
        reason = "a thread that the launcher did not start, and that is nobody's child, made requests"
        gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)
    return frozenset({named}) if named is not None and named in present else frozenset(present)


def _participant(
    rollout: Rollout, threads: Threads, relations: NativeRelations, roots: frozenset[str]
) -> NativeParticipant:
    parent = threads.parent_of(rollout)
    is_root = rollout.thread_id in roots
    unknown = LifecycleStatus.UNKNOWN
    return NativeParticipant(
        key=rollout.thread_id,
        role=Role.ROOT if is_root else Role.CHILD,
        parent_key=parent.thread_id if parent is not None and not is_root else None,
        native_ids={"thread_id": (rollout.thread_id,)},
        execution_status=execution_status(rollout),
        evidence=(rollout.evidence(),),
        lifecycle=LifecycleStatus.COMPLETE if is_root else relations.lifecycles.get(rollout.thread_id, unknown),
    )
