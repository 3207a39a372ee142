// Relations in plain words, each with what proves it: the places in the conversation, and the native records.

const KIND_WORDS = {
  spawn: "spawned",
  launch_acknowledged: "launch acknowledged to the parent",
  launch_ack_in_context: "acknowledgement in this request",
  child_completed: "end recorded: completed",
  child_failed: "end recorded: failed",
  result_delivered: "result delivered",
  result_in_context: "result in this request",
};

const agentName = (app, place) =>
  place === null || place === undefined
    ? el("span", "faint", "an unknown agent")
    : [el("span", `dot agent-${app.attempt.agents[place].colour}`), el("span", "name", app.attempt.name(place))];

const agentLink = (app, place) =>
  place === null || place === undefined ? agentName(app, place) : button("link agent-link", agentName(app, place), () => app.select(`a${place}`));

const callLink = (app, place, focus = null, label = null) =>
  button("link call-link", label ?? `#${app.attempt.calls[place].n}`, () => app.select(`c${place}`, focus));

// Where in the recorded conversation a relation can be seen.
const placesOf = (app, relation) => {
  const places = [];
  if (relation.made_by !== null && relation.ref) {
    places.push(callLink(app, relation.made_by, { tool: relation.ref.call_id, side: "output" }, `tool call in #${app.attempt.calls[relation.made_by].n}`));
  }
  if (relation.held_by !== null) {
    places.push(callLink(app, relation.held_by, { pointer: relation.at, side: "request" }, `#${app.attempt.calls[relation.held_by].n} at ${shown(relation.at)}`));
  }
  return places;
};

const evidenceView = (app, item) => {
  const heading = [el("span", "kind", plainWord(item.kind)), el("span", "mono", shown(item.locator)), titled(el("span", "faint source", shown(item.source.split("/").pop())), item.source)];
  if (item.record !== null) {
    return folding("evidence", heading, async (body) => body.append(jsonView(await app.attempt.pieces.value(item.record), 2)));
  }
  const call = /(?:^| )call:(\S+)/.exec(item.source === "calls.jsonl" ? item.locator : "");
  const place = call ? app.attempt.calls.findIndex((one) => one.id === call[1]) : -1;
  if (place >= 0) return el("div", "evidence plain-evidence", heading, callLink(app, place));
  return el("div", "evidence plain-evidence", heading, el("span", "faint", item.retained ? "" : "not kept"));
};

const relationView = (app, relation) =>
  el("div", "relation",
    el("div", "relation-head", el("span", "kind", plainWord(relation.type)), el("span", "places", agentLink(app, relation.child), placesOf(app, relation))),
    relation.evidence.map((item) => evidenceView(app, item)));

// A sentence; opened, the relations behind it.
const factView = (app, fact) => {
  const relations = fact.relations.map((place) => app.attempt.relations[place]);
  const heading = el("span", fact.bad ? "bad" : "", shown(fact.text));
  return folding("fact", heading, (body) => append(body, relations.map((relation) => relationView(app, relation))));
};
