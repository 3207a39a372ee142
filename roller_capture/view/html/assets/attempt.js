// One attempt: its agents, calls and relations by number, the rows of its tree, and the messages of a request.

class Attempt {
  constructor(index, pieces) {
    Object.assign(this, index);
    this.pieces = pieces;
    this.scale = new TimeScale(this.stretches);
    this.lists = new Map();
    this.heldBy = new Map();
    this.madeBy = new Map();
    this.relations.forEach((relation) => {
      if (relation.held_by !== null) this.at(this.heldBy, relation.held_by).push(relation);
      if (relation.made_by !== null && relation.type === "spawn") this.at(this.madeBy, relation.made_by).push(relation);
    });
    this.agents.forEach((agent, place) => {
      agent.place = place;
      agent.spawnedBy = new Map(agent.spawned);
      agent.resumedBy = new Map(agent.resumed);
      agent.totals = totalsOf(agent.calls.map((call) => this.calls[call]));
      agent.calls.forEach((call, turn) => Object.assign(this.calls[call], { turn }));
    });
    this.calls.forEach((call, place) => Object.assign(call, { place }));
    this.totals = totalsOf(this.calls);
  }

  at(map, key) {
    if (!map.has(key)) map.set(key, []);
    return map.get(key);
  }

  name(agent) {
    return agent === null || agent === undefined ? "an unknown agent" : shown(this.agents[agent].name);
  }

  colourOf(call) {
    return call.agent === null ? "none" : this.agents[call.agent].colour;
  }

  // Rows from top to bottom. `closed` holds the keys of agents whose rows below are hidden.
  rows(withCalls, closed) {
    const rows = [];
    const agentRows = (place, depth) => {
      const agent = this.agents[place];
      const key = `a${place}`;
      const hasMore = agent.children.length > 0 || agent.spawned.length > 0 || (withCalls && agent.calls.length > 0);
      rows.push({ key, depth, agent: place, hasMore, isOpen: hasMore && !closed.has(key) });
      if (!hasMore || closed.has(key)) return;
      for (const call of agent.calls) {
        if (withCalls) rows.push({ key: `c${call}`, depth: depth + 1, call });
        (agent.spawnedBy.get(call) || []).forEach((child) => agentRows(child, depth + (withCalls ? 2 : 1)));
      }
      agent.children.forEach((child) => agentRows(child, depth + 1));
    };
    this.top.forEach((place) => agentRows(place, 0));
    if (this.unowned.length) {
      rows.push({ key: "u", depth: 0, unowned: true, hasMore: withCalls, isOpen: withCalls && !closed.has("u") });
      if (withCalls && !closed.has("u")) this.unowned.forEach((call) => rows.push({ key: `c${call}`, depth: 1, call }));
    }
    return rows;
  }

  // Agents above a row, so that they can be opened.
  above(key) {
    const keys = [];
    let agent = key[0] === "c" ? this.calls[Number(key.slice(1))].agent : this.agents[Number(key.slice(1))].parent;
    if (key[0] === "c" && agent === null) return ["u"];
    while (agent !== null && agent !== undefined && !keys.includes(`a${agent}`)) {
      keys.push(`a${agent}`);
      agent = this.agents[agent].parent;
    }
    return keys;
  }

  // The pieces of a request's messages. They stand as differences to the call before.
  messages(place) {
    const waiting = [];
    for (let at = place; at !== null && !this.lists.has(at); at = this.calls[at].content.list.base) waiting.push(at);
    while (waiting.length) {
      const at = waiting.pop();
      const { base, head, tail, mid } = this.calls[at].content.list;
      const before = base === null ? [] : this.lists.get(base);
      this.lists.set(at, [...before.slice(0, head), ...mid, ...(tail ? before.slice(-tail) : [])]);
    }
    return this.lists.get(place);
  }
}

const totalsOf = (calls) => {
  const totals = { calls: calls.length, tokens: [null, null, null, null], ms: 0, cost: null, unpriced: 0, failed: 0, blocked: 0 };
  for (const call of calls) {
    call.tokens.forEach((value, kind) => {
      if (value !== null) totals.tokens[kind] = (totals.tokens[kind] ?? 0) + value;
    });
    totals.ms += call.ms ?? 0;
    if (call.cost !== null) totals.cost = (totals.cost ?? 0) + call.cost;
    else totals.unpriced += 1;
    totals.failed += call.status !== "completed";
    totals.blocked += call.export !== "exportable";
  }
  return totals;
};

// The share of the input that the cache gave. Anthropic's input leaves out what the cache did, OpenAI's includes it.
const cacheShare = (call) => {
  const [input, , read, written] = call.tokens;
  if (input === null) return null;
  const whole = call.protocol === "anthropic-messages" ? input + (read ?? 0) + (written ?? 0) : input;
  return whole > 0 ? Math.min(1, (read ?? 0) / whole) : null;
};
