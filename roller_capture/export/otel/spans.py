"""The spans of an attempt: an agent for each participant, a chat for each call, a tool for each tool call that ran.

    invoke_agent (root) ─┬─ chat
                         ├─ execute_tool ── invoke_agent (child) ── …
                         └─ chat

Parents come from identities and relations alone. What is not proven has no parent: a call that belongs to nobody, an
agent whose launch is not known. Times are those of the requests. An agent's span reaches from its first request to its
last answer. A tool's own times are not on the wire: its span reaches from the answer that asked for it to the request
that first holds its result, and `roller.times` says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from roller_capture import json_text
from roller_capture.api import Attempt, Call, Participant, Relation
from roller_capture.export.otel.call_attributes import call_attributes, error_of, provider
from roller_capture.export.otel.content import Content, content_of
from roller_capture.export.otel.otlp import Attribute, Kind, Span, span_id, trace_id
from roller_capture.export.otel.survey import Survey, ToolKey, survey, times_of
from roller_capture.model_protocols.request import iter_tool_results
from roller_capture.vocabulary import ExecutionStatus, RelationType, Role

_ENDED_BADLY: Final = (ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED)
_NO_CONTENT: Final = Content({}, {}, {})


@dataclass(slots=True)
class Untold:
    """What has no span, and why."""

    calls_without_times: int = 0
    agents_without_calls: int = 0
    tool_calls_without_result: int = 0
    tool_calls_not_unique: int = 0
    requests_unreadable: int = 0
    calls_without_content: int = 0


@dataclass(slots=True)
class _Running:
    """A tool call whose result no request has held yet."""

    arguments: str | None = None


@dataclass(slots=True)
class AttemptSpans:
    """Makes the spans of one attempt; no more of it is in memory than tool calls that still run."""

    attempt: Attempt
    with_content: bool
    untold: Untold = field(default_factory=Untold)
    _survey: Survey = field(default_factory=Survey)
    _running: dict[ToolKey, _Running] = field(default_factory=dict)
    _told: set[ToolKey] = field(default_factory=set)

    def spans(self) -> Iterator[Span]:
        """All spans: calls and tools in order of arrival, then agents."""
        self._survey = survey(self.attempt)
        self.untold.tool_calls_not_unique += len(self._survey.not_unique)
        held = self._results_held()
        for call in self.attempt.calls():
            yield from self._of_call(call, held.get(call.call_id, []))
        yield from self._of_launches_without_result()
        for participant in self.attempt.participants:
            yield from self._of_agent(participant)

    def resource(self, manifest_path: str) -> dict[str, Attribute]:
        """Attributes of what made the spans."""
        attempt = self.attempt
        return {
            "service.name": attempt.harness,
            "service.version": attempt.harness_version,
            "roller.capture_id": attempt.capture_id,
            "roller.sample_id": attempt.sample_id,
            "roller.attempt": attempt.path.absolute().name,
            "roller.manifest_path": manifest_path,
            "roller.manifest_sha256": attempt.manifest_sha256,
            "roller.execution_status": attempt.execution_status,
            "roller.capture_status": attempt.capture_status,
        }

    def _of_call(self, call: Call, held: list[Relation]) -> Iterator[Span]:
        context = self._context(call)
        content = content_of(call, context) if self.with_content else _NO_CONTENT
        self.untold.calls_without_content += "roller.no_content" in content.attributes
        start, end = times_of(call)
        if start is None or end is None:
            self.untold.calls_without_times += 1
        else:
            told = call_attributes(call, context if isinstance(context, dict) else {})
            model = told.get("gen_ai.request.model")
            yield Span(
                trace_id(self.attempt.capture_id),
                self._id("call", call.call_id),
                f"chat {model}" if model else "chat",
                Kind.CLIENT,
                start,
                end,
                self._agent_span(call.participant_id),
                told | content.attributes,
                [link for relation in held for link in self._link(relation)],
                error_of(call),
            )
        if call.participant_id is not None:
            yield from self._tools_that_ended(call.participant_id, call, context, start, content)
            self._tools_that_run(call.participant_id, call, content)

    def _tools_that_run(self, owner: str, call: Call, content: Content) -> None:
        for reference in call.record["tool_refs"]:
            key = (owner, reference["tool_call_id"])
            if key in self._survey.tool_calls and key not in self._survey.not_unique:
                self._running[key] = _Running(content.arguments.get(reference["tool_call_id"]))

    def _tools_that_ended(
        self, owner: str, call: Call, context: Any, end: int | None, content: Content
    ) -> Iterator[Span]:
        """The request holds their results, and is the first that does."""
        wanted = frozenset(tool_call_id for name, tool_call_id in self._running if name == owner)
        if not wanted or end is None:
            return
        for tool_call_id, _pointer in iter_tool_results(call.protocol, context, wanted):
            running = self._running.pop((owner, tool_call_id), None)
            if running is not None:
                told = {"roller.result_call_id": call.call_id}
                result = content.results.get(tool_call_id)
                yield from self._tool((owner, tool_call_id), running, end, {**told, "gen_ai.tool.call.result": result})

    def _of_launches_without_result(self) -> Iterator[Span]:
        """A tool call that launched an agent ran, whether or not a request held its result. Of others nobody knows."""
        for key, running in self._running.items():
            children = self._survey.launched.get(key, [])
            if not children:
                self.untold.tool_calls_without_result += 1
                continue
            extents = [self._survey.extents[child] for child in children if child in self._survey.extents]
            asked_at = self._survey.tool_calls[key].asked_at or 0
            yield from self._tool(key, running, max([asked_at, *(extent.end for extent in extents)]), {})

    def _tool(self, key: ToolKey, running: _Running, end: int, told: dict[str, Attribute]) -> Iterator[Span]:
        owner, tool_call_id = key
        made = self._survey.tool_calls[key]
        if made.asked_at is None:
            self.untold.calls_without_times += 1
            return
        self._told.add(key)
        known: dict[str, Attribute] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": made.name,
            "gen_ai.tool.call.id": tool_call_id,
            "gen_ai.agent.id": owner,
            "gen_ai.tool.call.arguments": running.arguments,
            "roller.call_id": made.call_id,
            "roller.times": "from the answer that asked to the request that holds the result",
        }
        yield Span(
            trace_id(self.attempt.capture_id),
            self._id("tool", owner, tool_call_id),
            f"execute_tool {made.name}" if made.name else "execute_tool",
            Kind.INTERNAL,
            min(made.asked_at, end),
            end,
            self._agent_span(owner),
            known | told,
            [(self._id("call", made.call_id), {"roller.link": "asked_by"})],
        )

    def _of_agent(self, participant: Participant) -> Iterator[Span]:
        name = participant.participant_id
        extent = self._survey.extents.get(name)
        if extent is None:
            self.untold.agents_without_calls += 1
            return
        told: dict[str, Attribute] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider(extent.protocols),
            "gen_ai.agent.id": name,
            "gen_ai.agent.version": self.attempt.harness_version,
            "gen_ai.conversation.id": extent.conversation_id,
            "roller.role": participant.role,
            "roller.parent_participant_id": participant.parent_participant_id,
            "roller.execution_status": participant.execution_status,
            "roller.times": "from the first request to the end of the last answer",
        }
        if participant.role is Role.ROOT:
            told["gen_ai.agent.name"] = self.attempt.harness
        launches = [(key, relation) for key, relation in self._survey.launches.get(name, []) if key in self._told]
        yield Span(
            trace_id(self.attempt.capture_id),
            self._id("agent", name),
            f"invoke_agent {self.attempt.harness}" if participant.role is Role.ROOT else "invoke_agent",
            Kind.INTERNAL,
            extent.start,
            extent.end,
            self._parent_of(participant, launches),
            told,
            [
                (self._id("tool", *key), {"roller.link": "launched_by", "roller.relation_id": relation.relation_id})
                for key, relation in launches[1:]
            ],
            str(participant.execution_status) if participant.execution_status in _ENDED_BADLY else None,
        )

    def _parent_of(self, participant: Participant, launches: list[tuple[ToolKey, Relation]]) -> str | None:
        """The tool call of its first launch, else the agent that is known to have launched it."""
        if launches:
            return self._id("tool", *launches[0][0])
        return self._agent_span(participant.parent_participant_id)

    def _agent_span(self, participant_id: str | None) -> str | None:
        """No span is the child of one that is not there."""
        known = participant_id is not None and participant_id in self._survey.extents
        return self._id("agent", str(participant_id)) if known else None

    def _results_held(self) -> dict[str, list[Relation]]:
        """In-context relations by the call whose request holds the item."""
        held: dict[str, list[Relation]] = {}
        for relation in self.attempt.relations:
            if relation.type is RelationType.RESULT_IN_CONTEXT:
                held.setdefault(str(relation.context_call_id), []).append(relation)
        return held

    def _link(self, relation: Relation) -> Iterator[tuple[str, dict[str, Attribute]]]:
        """From the call that holds a subagent's result to the subagent."""
        child = self._agent_span(relation.child_participant_id)
        if child is not None:
            yield child, {"roller.link": relation.type, "roller.relation_id": relation.relation_id}

    def _context(self, call: Call) -> Any:
        try:
            return call.context
        except json_text.JsonError:
            self.untold.requests_unreadable += 1
            return None

    def _id(self, kind: str, *names: str) -> str:
        return span_id(self.attempt.capture_id, kind, *names)
