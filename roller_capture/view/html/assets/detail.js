// The right side: the attempt as a whole, an agent, or a call.

const OPEN_MESSAGES = 12;
const OPEN_SIZE = 24000;
const LEAD_SIZE = 400000;
const MESSAGES_AT_ONCE = 60;

const factGrid = (pairs) =>
  el("dl", "grid", pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => el("div", "", el("dt", "", name), el("dd", "", value))));

const tokenPairs = (tokens) => [
  ["input", number(tokens[0])],
  ["output", number(tokens[1])],
  ["cache read", tokens[2] === null ? null : number(tokens[2])],
  ["cache written", tokens[3] === null ? null : number(tokens[3])],
];

const costPair = (app, cost, unpriced = 0) => {
  if (!app.attempt.currency) return ["cost", null];
  const rest = unpriced && cost !== null ? `, ${count(unpriced, "call")} without a price` : "";
  return ["cost", `${money(cost, app.attempt.currency)}${rest}`];
};

// ---- the attempt

const overviewView = (app) => {
  const attempt = app.attempt;
  const { harness, summary, totals, counts } = attempt;
  const models = new Map();
  for (const call of attempt.calls) {
    const model = call.model.responded ?? call.model.requested ?? "(no model named)";
    models.set(model, (models.get(model) ?? 0) + 1);
  }
  const others = Object.entries(attempt.other_requests).filter(([, times]) => times);
  return [
    el("h1", "", shown(harness.name), " ", el("span", "faint", shown(harness.version ?? "of unknown version"))),
    el("p", "chips", chip(attempt.execution_status, `run ${attempt.execution_status}`), chip(attempt.capture_status, `capture ${attempt.capture_status}`), harness.tested ? null : chip("warn", "not a tested version")),
    factGrid([
      ["calls", `${number(counts.calls)}, ${number(summary.exportable_calls)} exportable`],
      ["agents", number(attempt.agents.length)],
      ["relations", number(attempt.relations.length)],
      ["took", duration(summary.wall_seconds === null ? null : summary.wall_seconds * 1000)],
      ...tokenPairs(totals.tokens),
      costPair(app, totals.cost, totals.unpriced),
    ]),
    findingsView(attempt),
    endView(attempt),
    gapsView(app),
    attempt.agents.length ? [el("h2", "", "Agents"), agentList(app, attempt.agents)] : null,
    models.size ? el("h2", "", models.size === 1 ? "Model" : "Models") : el("p", "faint", "No model call was recorded."),
    el("ul", "plain-list", [...models].map(([model, times]) => el("li", "", el("span", "mono", shown(model)), el("span", "faint", ` ${count(times, "call")}`)))),
    folding("more-facts", "More of this attempt", (body) =>
      append(body, [
        factGrid([
          ["started", shown(attempt.started_at ?? "–")],
          ["closed", shown(attempt.closed_at ?? "not closed")],
          ["capture id", el("span", "mono", shown(attempt.capture_id))],
          ["raw files", attempt.raw_retained ? "kept" : "not kept"],
          ["other requests", others.map(([kind, times]) => `${plainWord(kind)} ${times}`).join(", ") || "none"],
          ["folder", el("span", "mono", shown(attempt.path))],
        ]),
        jsonView({ lifecycle: attempt.lifecycle, capabilities: attempt.capabilities, counts }, 2),
      ])),
  ];
};

const findingsView = (attempt) =>
  attempt.findings.length ? el("div", "note bad-note", el("h2", "", "Damaged"), attempt.findings.map((line) => el("p", "", shown(line)))) : null;

// Why the run did not end well, and what the harness said last.
const endView = ({ end, execution_status: status }) =>
  end ? el("div", `note ${status === "failed" ? "bad-note" : "warn-note"}`,
    el("p", "", shown(sentenceCase(end.sentence)), "."),
    end.last_words.length ? [el("p", "faint", "Its error output ends:"), el("pre", "mono", end.last_words.map(shown).join("\n"))] : null) : null;

const gapsView = (app) => {
  const { gaps } = app.attempt;
  if (!gaps.length) return el("div", "note good-note", "Nothing is missing in this capture.");
  return el("div", "note warn-note", el("h2", "", "What is missing"), gaps.map((gap) =>
    el("div", "gap",
      el("p", "", withCallLinks(app, gap), "."),
      gap.next ? el("p", "faint", `${shown(gap.next)}.`) : null,
      gap.agents.length ? el("p", "links", gap.agents.map((agent) => agentLink(app, agent))) : null)));
};

// The numbers in a gap's sentence, where they are calls of this gap, lead to them.
const withCallLinks = (app, gap) => {
  const places = new Map(gap.calls.map((place) => [`#${app.attempt.calls[place].n}`, place]));
  return gap.sentence.split(/(#\d+)/).map((part) => (places.has(part) ? callLink(app, places.get(part)) : shown(part)));
};

const AGENTS_AT_ONCE = 200;

const agentList = (app, agents) => {
  const list = el("div", "agent-list");
  const put = (from) => {
    append(list, agents.slice(from, from + AGENTS_AT_ONCE).map((agent) => agentLine(app, agent)));
    const left = agents.length - from - AGENTS_AT_ONCE;
    if (left <= 0) return;
    const more = button("more", `show ${number(Math.min(left, AGENTS_AT_ONCE))} of ${number(left)} more`, () => {
      more.remove();
      put(from + AGENTS_AT_ONCE);
    });
    list.append(more);
  };
  put(0);
  return list;
};

const agentLine = (app, agent) =>
  button("agent-line", [
    el("span", `dot agent-${agent.colour}`),
    el("span", "name", app.attempt.name(agent.place)),
    chip(agent.status),
    el("span", "faint", count(agent.totals.calls, "call")),
    el("span", "faint number", `${short(agent.totals.tokens[0] ?? 0)} in`),
    el("span", "faint number", `${short(agent.totals.tokens[1] ?? 0)} out`),
  ], () => app.select(`a${agent.place}`));

// ---- an agent

const agentView = (app, place) => {
  const attempt = app.attempt;
  const agent = attempt.agents[place];
  const children = [...agent.spawned.flatMap(([, below]) => below), ...agent.children];
  return [
    el("h1", "", el("span", `dot large agent-${agent.colour}`), el("span", "name", attempt.name(place))),
    el("p", "chips", chip(agent.status), agent.identity === "resolved" ? null : chip(agent.identity, `identity ${agent.identity}`), agent.pending ? chip("pending") : null),
    agent.pending ? el("div", "note warn-note", "Pending: no record of its end, or of the delivery of its result.") : null,
    agent.stray ? el("div", "note warn-note", `It stands at the top because ${shown(agent.stray)}.`) : null,
    factGrid([
      ["calls", number(agent.totals.calls)],
      ["model time", duration(agent.totals.ms)],
      ...tokenPairs(agent.totals.tokens),
      costPair(app, agent.totals.cost, agent.totals.unpriced),
    ]),
    agent.parent === null ? null : el("p", "", "Child of ", agentLink(app, agent.parent)),
    agent.facts.length ? [el("h2", "", "How it came to be and what became of it"), el("div", "facts", agent.facts.map((fact) => factView(app, fact)))] : null,
    children.length ? [el("h2", "", "Children"), agentList(app, children.map((child) => attempt.agents[child]))] : null,
    el("h2", "", "Calls"),
    el("p", "links", agent.calls.slice(0, 200).map((call) => callLink(app, call)), agent.calls.length > 200 ? ` and ${number(agent.calls.length - 200)} more` : null, agent.calls.length ? null : "none"),
    el("h2", "", "Native ids"),
    el("div", "json", Object.entries(agent.native_ids).map(([kind, ids]) => el("div", "j-entry", el("span", "j-key", shown(kind)), el("span", "mono", ids.map(shown).join(", ")))), el("div", "j-entry", el("span", "j-key", "participant_id"), el("span", "mono", shown(agent.id)))),
  ];
};

// ---- a call

class CallView {
  constructor(app, place) {
    this.app = app;
    this.attempt = app.attempt;
    this.place = place;
    this.call = this.attempt.calls[place];
    this.content = this.call.content;
    this.held = this.attempt.heldBy.get(place) ?? [];
    this.made = this.attempt.madeBy.get(place) ?? [];
  }

  parts() {
    if (!this.content) return [this.head(), this.problems(), el("p", "note warn-note", "Request and response of this call could not be read.")];
    return [this.head(), this.problems(), this.facts(), this.relations(), this.news(), this.answer(), this.request(), this.record()];
  }

  head() {
    const { call, attempt } = this;
    const owner = call.agent === null ? el("span", "faint", "no agent") : agentLink(this.app, call.agent);
    const siblings = call.agent === null ? attempt.unowned : attempt.agents[call.agent].calls;
    const at = siblings.indexOf(this.place);
    const step = (to, label) => (siblings[to] === undefined ? null : button("link", label, () => this.app.select(`c${siblings[to]}`)));
    return [
      el("h1", "", `#${call.n}`, " ", owner, el("span", "steps", step(at - 1, `← #${attempt.calls[siblings[at - 1]]?.n}`), step(at + 1, `#${attempt.calls[siblings[at + 1]]?.n} →`))),
      el("p", "chips",
        chip(call.status),
        call.finish ? el("span", "chip plain-chip", shown(call.finish)) : null,
        call.response === "complete" ? null : chip(call.response, `response ${call.response}`),
        call.purpose === "agent" ? null : el("span", "chip plain-chip", `purpose ${plainWord(call.purpose)}`),
        call.export === "exportable" ? chip("exportable") : chip("warn", "not exportable")),
    ];
  }

  problems() {
    const { call } = this;
    const lines = [
      call.agent === null ? el("p", "", shown(call.why), ".") : null,
      call.errors.map((error) => el("p", "", el("b", "", plainWord(error.code)), error.cut_by ? ` (cut by ${shown(error.cut_by)})` : "", ": ", shown(error.message))),
      call.blockers.length ? el("p", "", `Not exportable: ${call.blockers.map(plainWord).join(", ")}.`) : null,
    ].flat().filter(Boolean);
    return lines.length ? el("div", `note ${call.status === "failed" ? "bad-note" : "warn-note"}`, lines) : null;
  }

  facts() {
    const { call } = this;
    const { requested, responded } = call.model;
    const model = responded && responded !== requested ? `${shown(requested ?? "none")} → ${shown(responded)}` : shown(requested ?? responded ?? "none named");
    const share = cacheShare(call);
    return factGrid([
      ["model", el("span", "mono", model)],
      ...tokenPairs(call.tokens),
      ["from the cache", share === null || call.tokens[2] === null ? null : `${Math.round(share * 100)} %`],
      costPair(this.app, call.cost),
      ["started", call.start === null ? null : `+${duration(call.start)}`],
      ["first byte", call.first === null ? null : duration(call.first)],
      ["took", duration(call.ms)],
      ["http", call.http === null ? null : String(call.http)],
      ["request", bytes(this.content.bytes)],
    ]);
  }

  relations() {
    if (!this.held.length && !this.made.length) return null;
    const lines = [
      ...this.made.map((relation) => [relation, ["spawned ", agentName(this.app, relation.child)]]),
      ...this.held.map((relation) => [relation, [`${plainWord(KIND_WORDS[relation.type])}: `, agentName(this.app, relation.child)]]),
    ];
    return [el("h2", "", "Relations"), el("div", "facts", lines.map(([relation, words]) =>
      folding("fact", el("span", "", words), (body) => body.append(relationView(this.app, relation)))))];
  }

  // Which messages are new, by place in the list.
  ends() {
    const list = this.attempt.messages(this.place);
    const since = this.content.since;
    return since ? { list, from: since.head, to: list.length - since.tail } : { list, from: 0, to: list.length };
  }

  news() {
    if (this.content.body !== undefined) return null;
    const { list, from, to } = this.ends();
    const { since } = this.content;
    const size = list.slice(from, to).reduce((sum, piece) => sum + this.attempt.pieces.size(piece), 0);
    const amount = `${count(to - from, "message")}, ${bytes(size)}`;
    const first = this.call.agent === null ? "What was sent" : "What was sent first";
    const title = since ? ["New since ", callLink(this.app, since.call)] : [first];
    this.newsNode = el("div", "messages");
    this.newsReady = this.putMessages(this.newsNode, list, from, to, true);
    return [el("h2", "", title, el("span", "faint", ` ${amount}`)), this.changes(since), to > from ? this.newsNode : el("p", "faint", "No message was added: the same conversation was sent again.")];
  }

  changes(since) {
    if (!since) return null;
    const before = `#${this.attempt.calls[since.call].n}`;
    const lines = [];
    if (since.kept_there) lines.push("The service keeps what was said before (previous_response_id): this request holds only what is new.");
    if (since.gone) lines.push(`${count(since.gone, "message")} of ${before} ${since.gone === 1 ? "is" : "are"} not in this request any more.`);
    if (since.changed.length) lines.push(`Not as in ${before}: ${since.changed.map(plainWord).join(", ")}.`);
    return lines.length ? el("p", "changes", lines.join(" ")) : null;
  }

  async putMessages(node, list, from, to, opened) {
    const end = Math.min(to, from + MESSAGES_AT_ONCE);
    for (let at = from; at < end; at += 1) {
      const size = this.attempt.pieces.size(list[at]);
      const isOpen = opened && at - from < OPEN_MESSAGES && size <= OPEN_SIZE;
      node.append(await this.messageFold(list[at], at, size, isOpen));
    }
    node.showMore = null;
    if (end < to) {
      const more = button("more", `show ${number(Math.min(to - end, MESSAGES_AT_ONCE))} of ${number(to - end)} more messages`, () => node.showMore());
      node.showMore = () => {
        more.remove();
        return this.putMessages(node, list, end, to, false);
      };
      node.append(more);
    }
  }

  async messageFold(piece, at, size, isOpen) {
    const pointer = `/${this.content.list.name}/${at}`;
    const read = async () => messageOf(this.call.protocol, await this.attempt.pieces.value(piece), pointer);
    const message = size <= LEAD_SIZE ? await read() : null;
    const role = message ? roleBadge(roleOf(message)) : roleBadge("large");
    const heading = [role, el("span", "lead", message ? leadOf(message) : "opens on demand"), el("span", "faint size", bytes(size))];
    const make = async (body) => append(body, messageBody(message ?? (await read()), (block) => this.requestMarks(block)));
    const node = folding("message", heading, make, isOpen);
    node.dataset.message = at;
    if (message) node.classList.add(`role-${ROLES.includes(roleOf(message)) ? roleOf(message) : "other"}`);
    return node;
  }

  requestMarks(block) {
    return this.held
      .filter((relation) => relation.at === block.pointer)
      .map((relation) => el("span", "mark", relation.type === "result_in_context" ? "result of " : "acknowledgement of ", agentLink(this.app, relation.child)));
  }

  answerMarks(block) {
    return this.made
      .filter((relation) => relation.ref && block.kind === "use" && relation.ref.call_id === block.id)
      .map((relation) => el("span", "mark", "spawned ", agentLink(this.app, relation.child)));
  }

  answer() {
    const piece = this.content.output;
    if (piece === null) return [el("h2", "", "Response"), el("p", "faint", "None came.")];
    const size = this.attempt.pieces.size(piece);
    this.answerNode = el("div", "messages answer");
    this.answerReady = size <= LEAD_SIZE ? this.putAnswer() : null;
    if (!this.answerReady) this.answerNode.append(button("more", `open ${bytes(size)}`, () => this.openAnswer()));
    return [el("h2", "", "Response", el("span", "faint", ` ${bytes(size)}`)), this.answerNode];
  }

  openAnswer() {
    this.answerReady ??= this.putAnswer();
    return this.answerReady;
  }

  async putAnswer() {
    const output = await this.attempt.pieces.value(this.content.output);
    const messages = answerOf(this.call.protocol, output);
    fill(this.answerNode, messages.map((message) => el("div", "fold-body", messageBody(message, (block) => this.answerMarks(block)))));
    this.answerNode.append(folding("whole", "as JSON", (body) => body.append(jsonView(output, 2))));
  }

  request() {
    const { content } = this;
    if (content.body !== undefined) {
      this.partFolds = { body: this.partFold("Request, which is no JSON object", content.body) };
      return [el("h2", "", "Request"), this.partFolds.body];
    }
    const { list, from, to } = this.ends();
    const names = { system: "System prompt", instructions: "Instructions", tools: "Tools", parameters: "Parameters" };
    this.partFolds = {};
    for (const [name, piece] of Object.entries(content.parts)) this.partFolds[name] = this.partFold(names[name], piece, name);
    const earlier = from + (list.length - to);
    if (earlier > 0) {
      this.partFolds.earlier = folding("part", ["Messages as before", el("span", "faint size", count(earlier, "message"))], async (body) => {
        const nodes = [el("div", "messages"), el("div", "messages")];
        append(body, nodes);
        await this.putMessages(nodes[0], list, 0, from, false);
        await this.putMessages(nodes[1], list, to, list.length, false);
      });
    }
    const order = ["system", "instructions", "tools", "earlier", "parameters"];
    return [el("h2", "", "The rest of the request"), el("div", "parts", order.map((name) => this.partFolds[name]))];
  }

  partFold(title, piece, name) {
    const heading = [title, el("span", "faint size", bytes(this.attempt.pieces.size(piece)))];
    return folding("part", heading, async (body) => {
      const value = await this.attempt.pieces.value(piece);
      if (name === "system" || name === "instructions") append(body, blocksOf(value, `/${name}`).map((block) => blockView(block, () => null)));
      else if (name === "tools" && Array.isArray(value)) append(body, value.map((tool) => this.toolFold(tool)));
      else body.append(jsonView(value, 2));
    });
  }

  toolFold(tool) {
    const made = isObject(tool) ? tool.function ?? tool : {};
    const heading = [el("span", "tool-name", shown(made.name ?? made.type ?? "tool")), el("span", "faint lead", shown(String(made.description ?? "").slice(0, 140)))];
    return folding("tool-spec", heading, (body) => body.append(jsonView(tool, 2)));
  }

  record() {
    this.recordFold = folding("part", "Record: identity, timing, headers, hashes", async (body) => body.append(jsonView(await this.attempt.pieces.value(this.content.record), 2)));
    return [el("h2", "", "Record"), this.recordFold];
  }

  // Opens and shows what a link or a search points at.
  async reveal(focus) {
    if (!this.content) return null;
    if (focus.side === "output") return this.revealIn(this.openAnswer(), this.answerNode, `[data-tool="${CSS.escape(focus.tool)}"]`);
    if (focus.piece !== undefined) return this.revealPiece(focus.piece);
    const match = new RegExp(`^/${this.content.list?.name}/(\\d+)`).exec(focus.pointer ?? "");
    return match ? this.revealMessage(Number(match[1]), focus.pointer) : null;
  }

  async revealIn(ready, node, selector) {
    await ready;
    return node?.querySelector(selector) ?? node;
  }

  async revealPiece(piece) {
    if (piece === this.content.output) return this.revealIn(this.openAnswer(), this.answerNode, ".fold-body");
    if (piece === this.content.record) return this.revealIn(this.recordFold.open(), this.recordFold, ".fold-body");
    for (const [name, part] of Object.entries(this.content.parts ?? { body: this.content.body })) {
      if (part === piece) return this.revealIn(this.partFolds[name].open(), this.partFolds[name], ".fold-body");
    }
    return this.content.list ? this.revealMessage(this.attempt.messages(this.place).lastIndexOf(piece), null) : null;
  }

  async revealMessage(at, pointer) {
    const { from, to } = this.ends();
    if (at < 0) return null;
    const isNew = at >= from && at < to;
    await (isNew ? this.newsReady : this.partFolds.earlier.open());
    const area = isNew ? this.newsNode : this.partFolds.earlier.querySelectorAll(".messages")[at < from ? 0 : 1];
    const find = () => area.querySelector(`[data-message="${at}"]`);
    while (!find() && area.showMore) await area.showMore();
    const node = find();
    if (!node) return area;
    await node.open();
    let best = node;
    for (const block of node.querySelectorAll("[data-pointer]")) {
      if (pointer && (pointer === block.dataset.pointer || pointer.startsWith(`${block.dataset.pointer}/`))) best = block;
    }
    return best;
  }
}
