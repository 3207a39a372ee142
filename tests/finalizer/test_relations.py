"""Relations tied to calls: the parent's call by its tool id, the receiver's requests by what they hold."""

import dataclasses
from typing import Any

import pytest

from roller_capture.capture_protocol import (
    ContextProbe,
    Delivery,
    NativeCapture,
    NativeRelation,
    NotificationItem,
    ToolResultItem,
)
from roller_capture.finalizer.identity import Identity
from roller_capture.finalizer.relations import RelationWriter, usable_probes
from roller_capture.finalizer.survey import HeldText, SurveyedCall
from roller_capture.records import RelationRecord
from roller_capture.vocabulary import BoundBy, DeliveryKind, IdentityStatus, RelationType
from tests.support.attempts import delivered, evidence, native_capture, participant
from tests.support.surveyed import surveyed

ROOT = participant("root")
CHILD = participant("c", parent="root")
GRANDCHILD = participant("g", parent="c")
TEXTS = ("<task-id>c</task-id>", "<tool-use-id>t1</tool-use-id>")
ACK = NativeRelation(
    RelationType.LAUNCH_ACKNOWLEDGED,
    "root",
    "c",
    "t1",
    (evidence(),),
    delivery=Delivery(DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, "t1"),
)
NOTICE = NativeRelation(
    RelationType.RESULT_DELIVERED,
    "root",
    "c",
    "t1",
    (evidence(),),
    delivery=Delivery(DeliveryKind.NOTIFICATION, BoundBy.RESPONSE_ID, "msg_9"),
)
NOTED = {TEXTS: (HeldText("/m/1", "d1"),)}


def owned(key: str | None) -> Identity:
    """Several keys are the candidates of an ambiguous call."""
    if key is not None and "|" in key:
        return Identity(IdentityStatus.AMBIGUOUS, None, tuple(key.split("|")), ())
    return Identity(IdentityStatus.RESOLVED if key else IdentityStatus.UNATTRIBUTED, key, (), ())


def relate(
    native: NativeCapture, *calls: tuple[str | None, SurveyedCall]
) -> tuple[list[RelationRecord], list[RelationRecord], list[str]]:
    """(native relations, in-context relations, codes of what is unproven)."""
    identities = [owned(key) for key, _ in calls]
    values = [call for _, call in calls]
    writer = RelationWriter(
        native,
        values,
        identities,
        scope="s",
        call_ids=[f"call_{index}" for index in range(len(calls))],
        participant_ids={item.key: f"p_{item.key}" for item in native.participants},
        retained_sources=frozenset({"projects/p/root.jsonl"}),
    )
    probes, faults = usable_probes(native, values, identities)
    return (
        list(writer.native_relations()),
        list(writer.context_relations(probes)),
        [fault.code.value for fault in faults],
    )


def holding(response_id: str | None = None, **request: Any) -> SurveyedCall:
    return surveyed(response_id, request=request)


@pytest.mark.parametrize(
    ("relation", "calls", "parent"),
    [
        pytest.param(delivered("c", "t1"), [("root", surveyed("m", tools=(("t1", "Agent"),)))], "call_0", id="one"),
        pytest.param(delivered("c", "t1"), [("root", surveyed("m"))], None, id="none"),
        pytest.param(
            delivered("c", "t1"),
            [("c", surveyed("m", tools=(("t1", "Agent"),)))],
            None,
            id="an output of someone else",
        ),
        pytest.param(
            delivered("c", "t1"),
            [(None, surveyed("m", tools=(("t1", "Agent"),)))],
            "call_0",
            id="an unattributed call with the id",
        ),
        pytest.param(
            delivered("c", "t1"),
            [(None, surveyed("m", tools=(("t1", "Agent"),), recorded={"foreign_credential": True}))],
            None,
            id="a call with another credential than this run's",
        ),
        pytest.param(
            delivered("c", "t1"),
            [
                ("root", surveyed("m1", tools=(("t1", "Agent"),))),
                (None, surveyed("m2", tools=(("t1", "Agent"),), recorded={"foreign_credential": True})),
            ],
            "call_0",
            id="the id again, in a call with another credential",
        ),
        pytest.param(
            delivered("c", "t1"),
            [("root|c", surveyed("m", tools=(("t1", "Agent"),)))],
            "call_0",
            id="an ambiguous call that may be the parent's",
        ),
        pytest.param(
            delivered("c", "t1"),
            [("c|g", surveyed("m", tools=(("t1", "Agent"),)))],
            None,
            id="an ambiguous call that cannot be the parent's",
        ),
        pytest.param(
            delivered("c", "t1"),
            [("root", surveyed("m1", tools=(("t1", "Agent"),))), ("root", surveyed("m2", tools=(("t1", "Agent"),)))],
            None,
            id="the id in two outputs",
        ),
        pytest.param(
            delivered("c", "t1", parent_output_id="m2"),
            [("root", surveyed("m1", tools=(("t1", "Agent"),))), ("root", surveyed("m2", tools=(("t1", "Agent"),)))],
            "call_1",
            id="the id in two outputs, the native log names one",
        ),
        pytest.param(
            delivered("c", "t1", parent_output_id="m2"),
            [("root", surveyed("m1", tools=(("t1", "Agent"),)))],
            None,
            id="the id in another output than the native log names",
        ),
        pytest.param(
            delivered("c", "t1", parent_output_id="m2"),
            [("root", surveyed(None, tools=(("t1", "Agent"),)))],
            "call_0",
            id="an output without a response id",
        ),
        pytest.param(
            delivered("c", "t1|i1"),
            [("root", surveyed("m", tools=(("t1", "Agent"),), item_ids=("i1",)))],
            "call_0",
            id="call id and item id both match",
        ),
        pytest.param(
            delivered("c", "t1|i1"),
            [("root", surveyed("m", tools=(("t1", "Agent"),), item_ids=("i9",)))],
            None,
            id="only the call id matches",
        ),
        pytest.param(
            dataclasses.replace(delivered("c", "x"), tool_call_id=None),
            [("root", surveyed("m", tools=(("t1", "Agent"),)))],
            None,
            id="no tool id at all",
        ),
    ],
)
def test_the_parent_call_is_the_only_one_whose_output_made_the_delegation(
    relation: NativeRelation, calls: list[tuple[str | None, SurveyedCall]], parent: str | None
) -> None:
    """Otherwise it is unknown, never the likeliest."""
    native = native_capture(ROOT, CHILD, relations=(relation,))
    records, _, _ = relate(native, *calls)
    assert records[0].parent_call_id == parent
    assert records[0].parent_call_status.value == ("resolved" if parent else "unknown")
    assert (records[0].model_tool_ref is None) == (parent is None)


def test_each_later_request_of_the_receiver_that_holds_the_result_is_one_relation() -> None:
    """Failed and retried ones too; requests of others, who may carry the same ids, are not looked at."""
    relation = delivered("c", "t1")
    native = native_capture(
        ROOT, CHILD, relations=(relation,), context_probes=(ContextProbe(relation, ToolResultItem("t1")),)
    )
    results = {"t1": ("/messages/2/content/0",)}
    _, found, faults = relate(
        native,
        ("root", surveyed("m", tools=(("t1", "Agent"),))),
        ("root", holding("m2", tool_results=results)),
        ("root", holding(None, tool_results=results)),
        ("c", holding("m3", tool_results=results)),
        (None, holding("m4", tool_results=results)),
    )
    assert [(item.type.value, item.context_call_id, item.context_pointer) for item in found] == [
        ("result_in_context", "call_1", "/messages/2/content/0"),
        ("result_in_context", "call_2", "/messages/2/content/0"),
    ]
    assert {item.parent_call_id for item in found} == {"call_0"}
    assert faults == []


def test_a_result_of_an_unknown_receiver_is_in_no_request() -> None:
    """A call without an owner is not the receiver that nobody knows."""
    relation = dataclasses.replace(delivered("c", "t1"), parent_key=None)
    native = native_capture(
        ROOT, CHILD, relations=(relation,), context_probes=(ContextProbe(relation, ToolResultItem("t1")),)
    )
    held = holding("m", tool_results={"t1": ("/messages/1",)})
    _, in_context, _ = relate(native, (None, held), ("root", held))
    assert in_context == []


def test_requests_that_hold_many_results_give_them_in_the_order_of_the_delegations() -> None:
    """Whatever the order in which they stand in the request."""
    children = [participant(f"c{number}", parent="root") for number in range(20)]
    relations = [delivered(child.key, f"t{number}") for number, child in enumerate(children)]
    probes = tuple(ContextProbe(relation, ToolResultItem(relation.tool_call_id or "")) for relation in relations)
    native = native_capture(ROOT, *children, relations=tuple(relations), context_probes=probes)
    results = {f"t{number}": (f"/messages/{number}",) for number in reversed(range(20))}
    held = holding("m", tool_results=results)
    _, in_context, codes = relate(native, ("root", held), ("c3", held), ("root", holding("m2")))
    assert [item.tool_call_id for item in in_context] == [f"t{number}" for number in range(20)]
    assert {item.context_call_id for item in in_context} == {"call_0"}
    assert codes == []


def test_a_launch_acknowledgement_in_context_is_never_a_result() -> None:
    """The tool result of a background launch carries only the acknowledgement."""
    native = native_capture(ROOT, CHILD, relations=(ACK,), context_probes=(ContextProbe(ACK, ToolResultItem("t1")),))
    _, found, _ = relate(native, ("root", holding("m", tool_results={"t1": ("/messages/1",)})))
    assert [item.type.value for item in found] == ["launch_ack_in_context"]


@pytest.mark.parametrize(
    ("calls", "in_context", "faults"),
    [
        pytest.param(
            [
                ("root", holding("msg_9", notifications=NOTED)),
                ("root", holding("x", notifications=NOTED)),
            ],
            ["call_0", "call_1"],
            [],
            id="bound by the answer, found in it and in a later request",
        ),
        pytest.param(
            [("root", holding("x", notifications=NOTED))],
            [],
            ["native_relation_unproven"],
            id="the text alone",
        ),
        pytest.param([("root", holding("msg_9"))], [], ["native_relation_unproven"], id="the id alone"),
        pytest.param(
            [("c", holding("msg_9", notifications=NOTED))],
            [],
            ["native_relation_unproven"],
            id="the answer is someone else's",
        ),
        pytest.param(
            [
                ("root", holding("before", notifications={TEXTS: (HeldText("/m/0", "quote"),)})),
                ("root", holding("msg_9", notifications=NOTED)),
                ("root", holding("after", notifications={TEXTS: (HeldText("/m/0", "quote"), *NOTED[TEXTS])})),
            ],
            ["call_1", "call_2"],
            [],
            id="a quote of its text is not the notification",
        ),
        pytest.param(
            [("root", holding("msg_9", notifications={TEXTS: (HeldText("/m/0", "quote"), *NOTED[TEXTS])}))],
            [],
            ["native_relation_unproven"],
            id="two places in the request that answers it",
        ),
        pytest.param(
            [("root", holding("msg_9", notifications=NOTED))] * 2,
            [],
            ["native_relation_unproven"],
            id="two answers with one id",
        ),
    ],
)
def test_a_notification_needs_its_bound_id_and_its_text_in_the_request(
    calls: list[tuple[str | None, SurveyedCall]], in_context: list[str], faults: list[str]
) -> None:
    """Text is required and never sufficient."""
    native = native_capture(
        ROOT, CHILD, relations=(NOTICE,), context_probes=(ContextProbe(NOTICE, NotificationItem(TEXTS, "msg_9")),)
    )
    _, found, codes = relate(native, *calls)
    assert [item.context_call_id for item in found] == in_context
    assert codes == faults


LATER = ("from c", "later text")


@pytest.mark.parametrize(
    ("later", "in_context"),
    [
        ({LATER: (HeldText("/m/1", "d2"),)}, ["call_0", "call_1"]),
        ({LATER: (HeldText("/m/1", "d2"),), **NOTED}, ["call_0", "call_1"]),
        ({LATER: (HeldText("/m/1", "d2"), HeldText("/m/2", "d2"))}, ["call_0"]),
        ({TEXTS: (HeldText("/m/0", "quote"),)}, ["call_0"]),
        ({}, ["call_0"]),
    ],
    ids=["there", "in both forms", "twice", "a quote of its text", "gone"],
)
def test_a_notification_is_known_in_the_form_that_later_runs_have_of_it(
    later: dict[tuple[str, ...], tuple[HeldText, ...]], in_context: list[str]
) -> None:
    """Where the adapter says so; the first request must hold it in its first form all the same."""
    item = NotificationItem(TEXTS, "msg_9", later_texts=LATER)
    native = native_capture(ROOT, CHILD, relations=(NOTICE,), context_probes=(ContextProbe(NOTICE, item),))
    first, second = holding("msg_9", notifications=NOTED), holding("after", notifications=later)
    _, found, codes = relate(native, ("root", first), ("root", second))
    assert ([one.context_call_id for one in found], codes) == (in_context, [])
    swapped = holding("msg_9", notifications={LATER: NOTED[TEXTS]})
    assert relate(native, ("root", swapped))[1:] == ([], ["native_relation_unproven"])


@pytest.mark.parametrize(
    ("calls", "in_context", "faults"),
    [
        ([("root", "u1", True), ("root", "u1", True)], ["call_0", "call_1"], []),
        ([("root", "u0", True), ("root", "u1", True)], ["call_0", "call_1"], []),
        ([("root", "u1", False), ("root", "u1", True)], [], ["native_relation_unproven"]),
        ([("root", "u0", True)], [], ["native_relation_unproven"]),
        ([("c", "u1", True), ("root", "u1", True)], [], ["native_relation_unproven"]),
        ([(None, "u1", True)], [], ["native_relation_unproven"]),
    ],
)
def test_a_notification_may_be_bound_by_a_header_of_the_first_call_that_must_hold_it(
    calls: list[tuple[str | None, str, bool]], in_context: list[str], faults: list[str]
) -> None:
    """Where a log has no response ids, a hook sends the message's id; retries and later calls carry the same one."""
    item = NotificationItem(TEXTS, "u1", field="header:x-roller-user-message-id")
    made = [
        (
            owner,
            surveyed(
                request={"notifications": NOTED if held else {}},
                recorded={"roller_headers": [("x-roller-user-message-id", message)]},
            ),
        )
        for owner, message, held in calls
    ]
    native = native_capture(ROOT, CHILD, relations=(NOTICE,), context_probes=(ContextProbe(NOTICE, item),))
    _, found, codes = relate(native, *made)
    assert ([item.context_call_id for item in found], codes) == (in_context, faults)


def test_a_notification_to_another_receiver_is_looked_for_in_that_ones_requests() -> None:
    """A grandchild's notification goes to the root when its launcher has finished."""
    relation = dataclasses.replace(NOTICE, parent_key="c", child_key="g", receiver_key="root")
    native = native_capture(
        ROOT,
        CHILD,
        GRANDCHILD,
        relations=(relation,),
        context_probes=(ContextProbe(relation, NotificationItem(TEXTS, "msg_9")),),
    )
    _, found, _ = relate(
        native,
        ("root", holding("msg_9", notifications=NOTED)),
        ("c", holding("y", notifications=NOTED)),
    )
    assert [(item.parent_participant_id, item.receiver_participant_id) for item in found] == [("p_c", "p_root")]
    assert found[0].context_call_id == "call_0"


def test_a_tool_id_of_two_delegations_proves_neither() -> None:
    """Counters such as exec:0 repeat; children of one batched call share an id by right."""
    first, second = delivered("c", "exec:0"), delivered("g", "exec:0")
    call = ("root", holding("m", tool_results={"exec:0": ("/messages/1",)}))
    probes = tuple(ContextProbe(one, ToolResultItem("exec:0")) for one in (first, second))
    _, found, codes = relate(native_capture(ROOT, CHILD, GRANDCHILD, context_probes=probes), call)
    assert (found, codes) == ([], ["native_id_not_unique"] * 2)
    batch = tuple(
        ContextProbe(dataclasses.replace(one, task_index=index), ToolResultItem("exec:0"))
        for index, one in enumerate((first, second))
    )
    _, found, codes = relate(native_capture(ROOT, CHILD, GRANDCHILD, context_probes=batch), call)
    assert ([item.task_index for item in found], codes) == ([0, 1], [])


def test_a_result_that_stands_twice_in_one_request_is_not_unique() -> None:
    """Two places for one id: no pointer is chosen."""
    relation = delivered("c", "t1")
    native = native_capture(ROOT, CHILD, context_probes=(ContextProbe(relation, ToolResultItem("t1")),))
    _, found, _ = relate(native, ("root", holding("m", tool_results={"t1": ("/messages/1", "/messages/2")})))
    assert found == []


def test_an_id_that_json_escapes_is_left_out_of_the_locator() -> None:
    """`validate --deep` looks for the id on the line, where it would stand escaped."""
    native = native_capture(ROOT, CHILD, relations=(delivered("c", 't "1'),))
    records, _, _ = relate(native, ("root", surveyed("m", tools=(('t "1', "Agent"),))))
    assert records[0].evidence[-1].locator == "line:1 call:call_0"


def test_evidence_says_whether_its_source_is_retained() -> None:
    """The native log may be gone; the formal files are always there."""
    relation = dataclasses.replace(
        delivered("c", "t1"), evidence=(evidence(), dataclasses.replace(evidence(), source="projects/p/gone.jsonl"))
    )
    native = native_capture(ROOT, CHILD, relations=(relation,))
    records, _, _ = relate(native, ("root", surveyed("m", tools=(("t1", "Agent"),))))
    assert [(item.source, item.retained) for item in records[0].evidence] == [
        ("projects/p/root.jsonl", True),
        ("projects/p/gone.jsonl", False),
        ("calls.jsonl", True),
    ]
