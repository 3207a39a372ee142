"""The threads of an attempt: whose rollout is whose, who is whose child, and who is root."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from roller_capture.adapters.codex.facts import Rollout
from roller_capture.adapters.codex.locate import find_rollouts, thread_id_in
from roller_capture.adapters.codex.rollout import read_rollout
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.vocabulary import AttemptErrorCode


@dataclass(slots=True)
class Threads:
    """All threads by their ids, roots and children. `launched` are the children of which a delegation is proven,
    `contradicted` those whose own requests name another parent than their rollouts. `doubtful` are agents that records
    name where these disagree, or do not prove what became of a task; some of them may have no rollout."""

    by_id: Mapping[str, Rollout]
    contradicted: frozenset[str] = frozenset()
    launched: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)

    def parent_of(self, rollout: Rollout) -> Rollout | None:
        """The thread that the child's first line names, unless following it leads around in a circle."""
        if rollout.thread_id in self.contradicted:
            return None
        parent = self.by_id.get(rollout.meta.parent_id or "")
        above, seen = parent, {rollout.thread_id}
        while above is not None:
            if above.thread_id in seen:
                return None
            seen.add(above.thread_id)
            above = self.by_id.get(above.meta.parent_id or "")
        return parent

    def by_path(self, path: str, relative: Rollout) -> Rollout | None:
        """The thread with an agent path in the session of another one; the root's is `/root`."""
        found = [
            item
            for item in self.by_id.values()
            if item.meta.session_id == relative.meta.session_id
            and (item.meta.agent_path or (None if item.meta.is_subagent else "/root")) == path
        ]
        return found[0] if len(found) == 1 else None

    @property
    def roots(self) -> list[Rollout]:
        """The threads that are nobody's children."""
        return [item for item in self.by_id.values() if not item.meta.is_subagent]


def read_threads(tree: NativeTree, thread_ids: frozenset[str], gaps: GapLog) -> Threads:
    """Reads the rollouts of the given threads and of their descendants."""
    paths = find_rollouts(tree, thread_ids)
    named = {thread_id_in(path): path for path in paths}
    uses = Counter(thread_id_in(path) for path in paths)
    found: dict[str, Rollout] = {}
    for path in paths:
        thread_id = thread_id_in(path)
        if thread_id is None or uses[thread_id] > 1:
            gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, "two rollouts have the id of one thread", source=str(path))
            continue
        rollout = _read(tree, path, named, gaps)
        if rollout is not None:
            found[thread_id] = rollout
    return Threads(found)


def _read(
    tree: NativeTree, path: PurePosixPath, named: Mapping[str | None, PurePosixPath], gaps: GapLog
) -> Rollout | None:
    rollout = read_rollout(tree, path, named, gaps)
    if rollout is not None and rollout.thread_id != thread_id_in(path):
        reason = "a rollout's first line names another thread than its file name"
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=str(path), line=1)
        return None
    return rollout
