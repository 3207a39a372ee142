"""Who made a call: every combination of proof, disproof and silence."""

import dataclasses

import pytest

from roller_capture.capture_protocol import IdentityClaim, NativeCapture
from roller_capture.finalizer.identity import Attributor
from roller_capture.finalizer.survey import SurveyedCall
from roller_capture.vocabulary import EvidenceKind
from tests.support.attempts import CHILD_AGENT, ROOT_SESSION, SESSION_HEADER, evidence, native_capture, participant
from tests.support.surveyed import surveyed

ROOT_ONLY = native_capture(participant("root"), response_ids={"msg_root": "root"})
FAMILY = native_capture(
    participant("root"),
    participant(CHILD_AGENT, parent="root"),
    participant("a2", parent="root"),
    response_ids={"msg_root": "root", "msg_child": CHILD_AGENT, "msg_2": "a2"},
)
ROOT = surveyed("msg_root")
CHILD = surveyed("msg_child", agents=(CHILD_AGENT,))


def attribution(native: NativeCapture, *calls: SurveyedCall) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """(status, owner, candidates) of each call."""
    attributor = Attributor(native, calls)
    identities = [attributor.attribute(call) for call in calls]
    return [(item.status.value, item.participant_key, item.candidates) for item in identities]


def resolved(key: str) -> tuple[str, str | None, tuple[str, ...]]:
    return ("resolved", key, ())


UNATTRIBUTED = ("unattributed", None, ())


@pytest.mark.parametrize(
    ("native", "others", "call", "expected"),
    [
        pytest.param(FAMILY, (), ROOT, resolved("root"), id="root by response id"),
        pytest.param(FAMILY, (), CHILD, resolved(CHILD_AGENT), id="child by response id and header"),
        pytest.param(
            FAMILY,
            (surveyed("msg_root", tools=(("toolu_1", "Agent"),)),),
            surveyed("msg_child"),
            resolved(CHILD_AGENT),
            id="child by response id alone, where the root delegated",
        ),
        pytest.param(
            FAMILY,
            (ROOT,),
            surveyed("msg_child"),
            ("ambiguous", None, (CHILD_AGENT,)),
            id="child by response id alone, where no call shows that there is any child",
        ),
        pytest.param(FAMILY, (), surveyed(None, agents=("a2",)), resolved("a2"), id="failed child by header"),
        pytest.param(FAMILY, (CHILD,), surveyed(None), resolved("root"), id="failed root: children carry the header"),
        pytest.param(
            FAMILY,
            (surveyed(None, agents=("a2",)),),
            surveyed(None),
            resolved("root"),
            id="failed root: a child without any native id carries the header",
        ),
        pytest.param(ROOT_ONLY, (), surveyed(None), resolved("root"), id="failed root: nothing shows any child"),
        pytest.param(FAMILY, (ROOT,), surveyed(None), UNATTRIBUTED, id="absence proves nothing: no child carried it"),
        pytest.param(
            FAMILY,
            (surveyed("msg_child"), surveyed("msg_2", agents=("a2",))),
            surveyed(None),
            UNATTRIBUTED,
            id="absence proves nothing: one child did not carry it",
        ),
        pytest.param(
            ROOT_ONLY,
            (surveyed("msg_root", tools=(("toolu_1", "Agent"),)),),
            surveyed(None),
            UNATTRIBUTED,
            id="absence proves nothing: a delegation was made and no child is known",
        ),
        pytest.param(
            ROOT_ONLY,
            (surveyed(None, tools=(("toolu_1", None),)),),
            surveyed(None),
            UNATTRIBUTED,
            id="absence proves nothing: a tool without a name may be a delegation",
        ),
        pytest.param(
            ROOT_ONLY,
            (surveyed("msg_root", tools=(("toolu_1", "Bash"),)),),
            surveyed(None),
            resolved("root"),
            id="other tools are no delegation",
        ),
        pytest.param(FAMILY, (CHILD,), surveyed(None, session=None), UNATTRIBUTED, id="no session header"),
        pytest.param(FAMILY, (CHILD,), surveyed(None, session="other"), UNATTRIBUTED, id="another session"),
        pytest.param(
            FAMILY,
            (),
            surveyed("msg_root", agents=(CHILD_AGENT,)),
            ("ambiguous", None, tuple(sorted((CHILD_AGENT, "root")))),
            id="id and header disagree",
        ),
        pytest.param(
            FAMILY,
            (),
            surveyed("msg_root", agents=("stranger",)),
            ("ambiguous", None, ("root",)),
            id="id against a header that no log knows",
        ),
        pytest.param(FAMILY, (CHILD,), surveyed(None, agents=("stranger",)), UNATTRIBUTED, id="unknown agent"),
        pytest.param(
            FAMILY,
            (CHILD,),
            surveyed(None, agents=("a2", CHILD_AGENT)),
            ("ambiguous", None, tuple(sorted(("a2", CHILD_AGENT)))),
            id="two values of one header",
        ),
        pytest.param(FAMILY, (), surveyed(None, agents=("a2", "a2")), resolved("a2"), id="one value, sent twice"),
        pytest.param(
            FAMILY,
            (),
            surveyed("msg_root", session="other"),
            ("ambiguous", None, ("root",)),
            id="id of one session, header of another",
        ),
        pytest.param(
            FAMILY,
            (CHILD,),
            CHILD,
            resolved(CHILD_AGENT),
            id="response id in two calls: the header decides",
        ),
        pytest.param(
            FAMILY,
            (surveyed("msg_child"),),
            surveyed("msg_child"),
            ("ambiguous", None, (CHILD_AGENT,)),
            id="response id in two calls: nothing else decides",
        ),
        pytest.param(
            FAMILY,
            (surveyed("msg_child", agents=("a2",)),),
            surveyed("msg_child", agents=("a2",)),
            ("ambiguous", None, tuple(sorted(("a2", CHILD_AGENT)))),
            id="response id in two calls: the header contradicts",
        ),
        pytest.param(
            FAMILY,
            (surveyed("msg_2", agents=("a2",)),),
            surveyed("msg_child"),
            ("ambiguous", None, (CHILD_AGENT,)),
            id="an id in a child's log, without the header that children's calls carry here",
        ),
        pytest.param(
            FAMILY,
            (),
            surveyed(None, agents=("a2",), session="other"),
            ("ambiguous", None, ("a2",)),
            id="header of a child, session of another run",
        ),
        pytest.param(
            FAMILY,
            (CHILD,),
            surveyed("msg_child", agents=(CHILD_AGENT,), session="other"),
            ("ambiguous", None, (CHILD_AGENT,)),
            id="an id in two calls, the header decides, the session contradicts",
        ),
        pytest.param(FAMILY, (), surveyed("msg_unknown"), UNATTRIBUTED, id="an id that no log knows"),
        pytest.param(native_capture(), (), ROOT, UNATTRIBUTED, id="no native logs at all"),
        pytest.param(
            FAMILY,
            (),
            surveyed("msg_child", agents=(CHILD_AGENT,), recorded={"foreign_credential": True}),
            UNATTRIBUTED,
            id="every id is right, but the credential is not this attempt's",
        ),
    ],
)
def test_a_call_has_the_owner_that_its_ids_prove_or_none(
    native: NativeCapture,
    others: tuple[SurveyedCall, ...],
    call: SurveyedCall,
    expected: tuple[str, str | None, tuple[str, ...]],
) -> None:
    """Never a winner between two proofs, never a guess without one."""
    assert attribution(native, *others, call)[-1] == expected


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        ((), ("ambiguous", None, tuple(sorted((CHILD_AGENT, "root"))))),
        ((CHILD_AGENT,), resolved(CHILD_AGENT)),
    ],
)
def test_a_native_id_in_two_logs_needs_other_evidence(
    agents: tuple[str, ...], expected: tuple[str, str | None, tuple[str, ...]]
) -> None:
    """Two logs claim one response id: the header may decide, else both are candidates."""
    second = IdentityClaim("response_id", "msg_root", CHILD_AGENT, evidence())
    native = dataclasses.replace(FAMILY, identity_claims=(*FAMILY.identity_claims, second))
    # A child that does not carry the header makes absence prove nothing.
    assert attribution(native, surveyed("msg_2"), surveyed("msg_root", agents=agents))[-1] == expected


def test_a_proven_absence_is_other_evidence_for_an_id_in_two_logs() -> None:
    """Every call matched to a child alone carried the header, so a call without it is the root's."""
    second = IdentityClaim("response_id", "msg_root", CHILD_AGENT, evidence())
    native = dataclasses.replace(FAMILY, identity_claims=(*FAMILY.identity_claims, second))
    calls = (surveyed("msg_2", agents=("a2",)), surveyed("msg_root"))
    assert attribution(native, *calls)[-1] == resolved("root")


def test_a_session_that_the_launcher_did_not_start_disproves_no_absence() -> None:
    """It is a child by role, but the harness marks its calls with no header of children."""
    stray = dataclasses.replace(participant("stray", parent="root"), native_ids={})
    native = dataclasses.replace(
        FAMILY,
        participants=(*FAMILY.participants, stray),
        identity_claims=(*FAMILY.identity_claims, IdentityClaim("response_id", "msg_s", "stray", evidence())),
    )
    assert attribution(native, CHILD, surveyed("msg_s", session="s2"), surveyed(None))[-1] == resolved("root")


def test_the_evidence_says_which_field_had_which_value_in_which_log() -> None:
    """Published with the call, so that a reader can check the attribution."""
    attributor = Attributor(FAMILY, [CHILD, surveyed(None)])
    named = [(item.kind, item.name, item.value) for item in attributor.attribute(CHILD).evidence]
    assert named == [
        (EvidenceKind.RESPONSE_ID, "response_id", "msg_child"),
        (EvidenceKind.NATIVE_HEADER, "header:x-claude-code-agent-id", CHILD_AGENT),
    ]
    absent = attributor.attribute(surveyed(None)).evidence
    assert [(item.kind, item.value) for item in absent] == [(EvidenceKind.HEADER_ABSENT, None)]


def test_a_body_field_can_be_the_identity() -> None:
    """Harnesses that put their session id into the request body."""
    claim = IdentityClaim("context:/metadata/session", ROOT_SESSION, "root", evidence())
    native = dataclasses.replace(ROOT_ONLY, identity_claims=(claim,), absent_header_claims=())
    found = surveyed("x", request={"context_values": {"/metadata/session": ROOT_SESSION}})
    assert attribution(native, found, surveyed("y")) == [resolved("root"), UNATTRIBUTED]
    assert SESSION_HEADER in dict(found.recorded.headers)
