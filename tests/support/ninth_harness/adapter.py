"""One adapter file: a session a run, its log has a line for each answer (`{"session": …, "response": …}`)."""

from dataclasses import replace
from pathlib import PurePosixPath

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.capture_protocol import (
    AdapterInput,
    Evidence,
    IdentityClaim,
    NativeCapture,
    NativeCoverage,
    NativeIdentityField,
    NativeOutput,
    NativeParticipant,
)
from roller_capture.vocabulary import CoverageStrength, EvidenceKind, ExecutionStatus, Role, SubtaskSupport

LOG = "ninth.jsonl"
SESSION_HEADER = "x-ninth-session"


def read(source: AdapterInput) -> NativeCapture:
    """The contract of `roller_capture.capture_protocol`."""
    gaps = GapLog()
    tree = NativeTree(source.native_root, gaps) if source.native_root is not None else None
    outputs: list[NativeOutput] = []
    if tree is not None:
        with tree.open(PurePosixPath(LOG)) as stream:
            for line in read_lines(stream) if stream is not None else ():
                session, response = str(line.record["session"]), str(line.record["response"])
                evidence = Evidence(EvidenceKind.NATIVE_RECORD, LOG, f"line:{line.number} response:{response}")
                outputs.append(NativeOutput(session, response, evidence))
    first = {output.participant_key: output.evidence for output in reversed(outputs)}
    header = f"header:{SESSION_HEADER}"
    return NativeCapture(
        harness_version=str(source.launcher["harness_version"]) if source.launcher else None,
        version_tested=True,
        participants=tuple(
            NativeParticipant(key, Role.ROOT, None, {"session_id": (key,)}, ExecutionStatus.COMPLETED, (evidence,))
            for key, evidence in first.items()
        ),
        identity_fields=(NativeIdentityField(SESSION_HEADER, "session_id", exclusive=True),),
        identity_claims=tuple(
            IdentityClaim(header, key, key, replace(evidence, kind=EvidenceKind.NATIVE_HEADER))
            for key, evidence in first.items()
        ),
        absent_header_claims=(),
        purpose_claims=(),
        relations=(),
        context_probes=(),
        coverage=NativeCoverage("response_id", CoverageStrength.PER_ID, tuple(outputs), "log_lines"),
        subtasks=SubtaskSupport.NOT_AVAILABLE,
        sources=tree.sources if tree is not None else (),
        gaps=gaps.gaps(),
    )
