"""The lines of an attempt as a tree: header, gaps, agents with their calls and children, calls of nobody."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from roller_capture.paths import named
from roller_capture.view.attempt import Attempt, Call
from roller_capture.view.call_line import CallLines
from roller_capture.view.family import Agent, Family
from roller_capture.view.gaps import Gap
from roller_capture.view.lines import BAD, FAINT, PLAIN, STRONG, WARN, Node, Piece, joined, node, status_style
from roller_capture.view.provider_words import TokenTotal, total
from roller_capture.view.relations import RelationWords
from roller_capture.view.unowned import why_unowned
from roller_capture.view.words import amount, cache_words, call_numbers, count, cut, duration, listing
from roller_capture.vocabulary import ExecutionStatus, IdentityStatus, RelationType

_EXECUTION_UNKNOWN: Final = " (nobody noted how the run ended)"


class Outline:
    """Makes the lines of one attempt. `calls=False` leaves the single calls out, `evidence` names all sources."""

    def __init__(self, attempt: Attempt, family: Family, gaps: Sequence[Gap], *, calls: bool, evidence: bool) -> None:
        self._attempt = attempt
        self._family = family
        self._gaps = gaps
        self._calls = calls
        self._evidence = evidence
        self._lines = CallLines(attempt.calls if calls else (), evidence=evidence)
        self._words = RelationWords(attempt.calls, family, expanded=evidence)
        pending = (attempt.lifecycle or {}).get("pending_participant_ids", [])
        self._pending = frozenset(pending)

    def nodes(self) -> list[Node]:
        """The top lines in order."""
        nodes = [self._header()]
        if self._gaps:
            nodes.append(self._gap_list())
        nodes += [self._agent(agent) for agent in self._family.top]
        if self._family.unowned:
            nodes.append(self._unowned())
        return nodes

    def _header(self) -> Node:
        attempt, manifest = self._attempt, self._attempt.manifest
        top = node(Piece(named(attempt.path), STRONG))
        harness, execution = manifest["harness"], manifest["execution_status"]
        version = harness["version"] or "of unknown version"
        tested = " (tested version)" if harness["tested"] else " (not a tested version)"
        unknown = _EXECUTION_UNKNOWN if execution == ExecutionStatus.UNKNOWN else ""
        top.add(
            f"{cut(harness['name'])} {cut(version)}",
            Piece(tested, FAINT if harness["tested"] else WARN),
            "; capture ",
            Piece(manifest["capture_status"], status_style(manifest["capture_status"])),
            "; execution ",
            Piece(execution, status_style(execution)),
            Piece(unknown, FAINT),
        )
        if attempt.end is not None:
            style = status_style(execution)
            ending = top.add(Piece(attempt.end.sentence, style))
            ending.children += [node(Piece(f"its error output: {words}", style)) for words in attempt.end.last_words]
        top.add(
            joined(
                [
                    _calls_line(attempt.calls),
                    count(len(self._family.agents), "agent"),
                    count(len(attempt.relations), "relation"),
                    _other_requests(manifest["other_requests"]),
                ]
            )
        )
        for line in _token_lines(attempt.calls):
            top.add(line)
        wall = attempt.wall_seconds()
        if wall is not None:
            top.add(f"{duration(wall * 1000)} from the first request to the last response")
        models = Counter(_model(call) for call in attempt.calls)
        if models:
            top.add("models " + listing([f"{cut(name)} ({times:,})" for name, times in models.most_common()]))
        return top

    def _gap_list(self) -> Node:
        top = node(Piece("what is missing", WARN))
        for gap in self._gaps:
            line = top.add(f"{gap.sentence}.")
            if gap.next_step is not None:
                line.add(Piece(f"{gap.next_step}.", FAINT))
        return top

    def _agent(self, agent: Agent) -> Node:
        top = Node(tuple(self._agent_pieces(agent)))
        if agent.participant_id in self._family.strays:
            top.add(Piece(f"stands here because {self._family.strays[agent.participant_id]}", WARN))
        if self._evidence:
            ids = [f"{kind} {', '.join(values)}" for kind, values in agent.record["native_ids"].items()]
            top.add(Piece(joined([f"participant_id {agent.participant_id}", *ids], "; "), FAINT))
        for fact in self._words.facts(agent):
            failed = fact.relations[0]["type"] == RelationType.CHILD_FAILED
            line = top.add(Piece(fact.text, BAD if failed else PLAIN))
            if self._evidence:
                line.children += [_evidence(item) for relation in fact.relations for item in relation["evidence"]]
        if agent.participant_id in self._pending:
            top.add(Piece("pending: no record of its end, or of the delivery of its result", WARN))
        top.children += self._calls_and_children(agent)
        return top

    def _agent_pieces(self, agent: Agent) -> Iterator[Piece]:
        record = agent.record
        yield Piece(agent.name, STRONG)
        yield Piece("  ")
        yield Piece(record["execution_status"], status_style(record["execution_status"]))
        if record["identity_status"] != IdentityStatus.RESOLVED:
            yield Piece(f", identity {record['identity_status']}", WARN)
        sums = total(call.tokens for call in agent.calls)
        times = [call.milliseconds for call in agent.calls]
        model_time = duration(sum(item for item in times if item is not None)) if any(times) else ""
        yield Piece("  " + joined([count(len(agent.calls), "call"), _token_words(sums), model_time]), FAINT)

    def _calls_and_children(self, agent: Agent) -> Iterator[Node]:
        for call in agent.calls:
            spawned = agent.spawned.get(call.call_id, [])
            if not self._calls:
                yield from (self._agent(child) for child in spawned)
                continue
            line = self._lines.node(call)
            line.children += [self._agent(child) for child in spawned]
            for child, delegation in agent.resumed.get(call.call_id, []):
                line.add(Piece(f"{child.name} again, delegation {delegation}: shown where it was spawned", FAINT))
            yield line
        yield from (self._agent(child) for child in agent.children)

    def _unowned(self) -> Node:
        calls = self._family.unowned
        reasons = {call.call_id: why_unowned(call, self._family) for call in calls}
        shared = set(reasons.values())
        title = f"{count(len(calls), 'call')} of no agent"
        top = node(Piece(title, WARN), Piece(f": {next(iter(shared))}" if len(shared) == 1 else ""))
        if not self._calls:
            top.add(call_numbers(call.number for call in calls))
            return top
        for call in calls:
            line = self._lines.node(call)
            if len(shared) > 1:
                line.children.insert(0, node(reasons[call.call_id]))
            top.children.append(line)
        return top


def _calls_line(calls: Sequence[Call]) -> str:
    exportable = sum(call.exportable for call in calls)
    blockers = Counter(blocker for call in calls for blocker in call.record["export_blockers"])
    why = ", ".join(f"{code} {times:,}" for code, times in blockers.most_common())
    return f"{count(len(calls), 'call')} ({exportable:,} exportable{'; blocked by ' + why if why else ''})"


def _other_requests(requests: Mapping[str, int]) -> str:
    kinds = joined(f"{kind} {times:,}" for kind, times in requests.items() if times)
    return f"other requests: {kinds}" if kinds else ""


def _token_lines(calls: Sequence[Call]) -> Iterator[str]:
    """One line; one for each protocol where several are mixed, since they count input differently."""
    protocols = dict.fromkeys(call.record["protocol"] for call in calls)
    for protocol in protocols:
        sums = total(call.tokens for call in calls if call.record["protocol"] == protocol)
        words = _token_words(sums)
        missing = f" ({count(sums.unreported, 'call')} reported none)" if sums.unreported else ""
        name = f" of {protocol}" if len(protocols) > 1 else ""
        yield f"tokens{name}: {words or 'none reported'}{missing if words else ''}"


def _token_words(sums: TokenTotal) -> str:
    tokens = sums.tokens
    cache = cache_words(tokens.cache_read, tokens.cache_creation)
    return joined([amount(tokens.input, "in"), amount(tokens.output, "out"), cache])


def _model(call: Call) -> str:
    model: dict[str, str | None] = call.record["model"]
    return model["responded"] or model["requested"] or "(no model named)"


def _evidence(item: dict[str, Any]) -> Node:
    kept = "kept" if item["retained"] else "not kept"
    return node(Piece(f"evidence: {item['kind']} {item['locator']} in {item['source']} ({kept})", FAINT))
