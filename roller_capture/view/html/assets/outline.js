// The tree of agents and calls beside the timeline. Only the rows that can be seen are in the page.

const ROW = 26;
const HEAD = 32;
const BEYOND = 8;

class Outline {
  constructor(app) {
    this.app = app;
    this.node = byId("rows");
    this.sheet = byId("sheet");
    this.rows = [];
    this.places = new Map();
    this.drawn = new Map();
    this.node.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.redraw()).observe(this.node);
    this.node.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  show(attempt) {
    this.attempt = attempt;
    const longest = attempt.calls.reduce((most, call) => Math.max(most, call.n), 0);
    this.node.style.setProperty("--numbers", `${String(longest).length + 1}ch`);
    this.update();
  }

  update() {
    this.rows = this.attempt.rows(this.app.withCalls, this.app.closed);
    this.places = new Map(this.rows.map((row, place) => [row.key, place]));
    this.sheet.style.height = `${this.rows.length * ROW}px`;
    this.node.setAttribute("aria-rowcount", this.rows.length);
    this.heads();
    this.redraw();
  }

  heads() {
    const modes = el("div", "modes");
    for (const [label, value] of [["Agents", false], ["Calls", true]]) {
      const item = button(this.app.withCalls === value ? "on" : "", label, () => this.app.setMode(value));
      item.setAttribute("aria-pressed", String(this.app.withCalls === value));
      modes.append(item);
    }
    this.axis = el("canvas", "axis");
    const cost = this.attempt.currency ? el("span", "cell cost", "cost") : null;
    const cells = [el("span", "cell in", "in"), el("span", "cell cache", "cache"), el("span", "cell out", "out"), cost, el("span", "cell ms", "time")];
    fill(byId("heads"), el("div", "label", modes), cells, el("div", "lane", this.axis));
    byId("left").classList.toggle("priced", Boolean(this.attempt.currency));
  }

  laneWidth() {
    const lane = byId("heads").querySelector(".lane");
    return lane ? Math.max(10, lane.clientWidth) : 10;
  }

  redraw() {
    if (!this.attempt) return;
    this.width = this.laneWidth();
    drawAxis(this.axis, this.attempt.scale, this.width, 22);
    this.ticks = this.attempt.scale.isEmpty ? [] : this.attempt.scale.ticks(this.width);
    this.drawn.clear();
    this.sheet.replaceChildren();
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((this.node.scrollTop + this.node.clientHeight - HEAD) / ROW) + BEYOND);
    for (const [place, node] of this.drawn) {
      if (place < first || place >= last) {
        node.remove();
        this.drawn.delete(place);
      }
    }
    for (let place = first; place < last; place += 1) {
      if (!this.drawn.has(place)) {
        const node = this.rowView(place);
        this.drawn.set(place, node);
        this.sheet.append(node);
      }
    }
  }

  rowView(place) {
    const row = this.rows[place];
    const node = el("div", `row ${row.call !== undefined ? "call" : "agent"}`);
    node.id = `row-${row.key}`;
    node.style.top = `${place * ROW}px`;
    node.setAttribute("role", "row");
    node.setAttribute("aria-rowindex", place + 1);
    node.setAttribute("aria-level", row.depth + 1);
    if (row.hasMore !== undefined) node.setAttribute("aria-expanded", String(row.isOpen));
    const isSelected = row.key === this.app.selected;
    node.classList.toggle("selected", isSelected);
    node.setAttribute("aria-selected", String(isSelected));
    node.addEventListener("click", () => this.app.select(row.key));
    node.addEventListener("dblclick", () => this.app.toggle(row.key));
    const canvas = el("canvas", "");
    append(node, [row.call !== undefined ? this.callCells(row) : this.agentCells(row), el("div", "lane", canvas)]);
    const calls = row.call !== undefined ? [this.attempt.calls[row.call]] : this.callsOf(row);
    drawCalls(canvas, this.attempt, calls, this.width, ROW - 1, { thick: row.call === undefined, ticks: this.ticks });
    return node;
  }

  callsOf(row) {
    const places = row.unowned ? this.attempt.unowned : this.attempt.agents[row.agent].calls;
    return places.map((place) => this.attempt.calls[place]);
  }

  label(row, ...children) {
    const node = el("div", "label", ...children);
    node.style.paddingLeft = `${6 + Math.min(row.depth, 24) * 13}px`;
    return node;
  }

  twist(row) {
    if (!row.hasMore) return el("span", "twist none");
    const node = button(`twist ${row.isOpen ? "open" : ""}`, "", () => this.app.toggle(row.key));
    node.tabIndex = -1;
    node.setAttribute("aria-label", row.isOpen ? "Close" : "Open");
    return node;
  }

  agentCells(row) {
    const agent = row.unowned ? null : this.attempt.agents[row.agent];
    const totals = agent ? agent.totals : totalsOf(this.callsOf(row));
    const name = agent ? this.attempt.name(row.agent) : "calls of no agent";
    const dot = el("span", `dot agent-${agent ? agent.colour : "none"}`);
    const state = agent && agent.status !== "completed" ? chip(agent.status) : null;
    const pending = agent?.pending ? chip("pending") : null;
    const calls = el("span", "faint", count(totals.calls, "call"));
    return [this.label(row, this.twist(row), dot, el("span", "name", name), state, pending, calls), this.numbers(totals.tokens, null, totals.cost, totals.ms)];
  }

  callCells(row) {
    const call = this.attempt.calls[row.call];
    const tools = toolWords(call);
    const says = call.content?.says ? el("span", "says", shown(call.content.says)) : null;
    const state = call.status === "completed" ? null : chip(call.status, call.http && call.http >= 300 ? `${call.status} ${call.http}` : call.status);
    const purpose = call.purpose === "agent" ? null : el("span", call.purpose === "unknown" ? "faint" : "purpose", call.purpose === "unknown" ? "purpose unknown" : plainWord(call.purpose));
    const tool = tools ? el("span", "tools", `→ ${tools}`) : null;
    const unsure = call.identity === "ambiguous" ? chip("ambiguous") : null;
    const cells = this.label(row, el("span", `tick agent-${this.attempt.colourOf(call)}`), el("span", "n", `#${call.n}`), state, unsure, purpose, tool, says);
    return [cells, this.numbers(call.tokens, cacheShare(call), call.cost, call.ms)];
  }

  numbers(tokens, share, cost, ms) {
    const cache = el("span", "cell cache");
    if (share) {
      const bar = el("span", "share");
      bar.style.width = `${Math.round(share * 100)}%`;
      cache.append(el("span", "share-box", bar));
      cache.title = `${Math.round(share * 100)} % of the input from the cache`;
    } else if (tokens[2]) {
      cache.textContent = short(tokens[2]);
    }
    const price = this.attempt.currency ? el("span", "cell cost", cost === null ? "" : cost.toFixed(cost >= 1 ? 2 : 4)) : null;
    return [el("span", "cell in", short(tokens[0])), cache, el("span", "cell out", short(tokens[1])), price, el("span", "cell ms", ms === null ? "" : brief(ms))];
  }

  select(key) {
    for (const node of this.sheet.querySelectorAll(".selected")) {
      node.classList.remove("selected");
      node.setAttribute("aria-selected", "false");
    }
    const place = this.places.get(key);
    if (place === undefined) {
      this.node.removeAttribute("aria-activedescendant");
      return;
    }
    const top = place * ROW;
    const room = this.node.clientHeight - HEAD;
    if (top < this.node.scrollTop + ROW) this.node.scrollTop = Math.max(0, top - 3 * ROW);
    else if (top > this.node.scrollTop + room - 3 * ROW) this.node.scrollTop = top - room + 4 * ROW;
    this.draw();
    const node = this.drawn.get(place);
    if (node) {
      node.classList.add("selected");
      node.setAttribute("aria-selected", "true");
      this.node.setAttribute("aria-activedescendant", node.id);
    }
  }

  wheel(event) {
    const overLane = event.target instanceof HTMLCanvasElement;
    if (!overLane || !this.attempt || !(event.ctrlKey || event.shiftKey)) return;
    event.preventDefault();
    const scale = this.attempt.scale;
    const share = event.offsetX / this.width;
    if (event.ctrlKey) scale.zoom(event.deltaY > 0 ? 1.25 : 0.8, scale.from + share * (scale.to - scale.from));
    else scale.move(Math.sign(event.deltaY || event.deltaX) * 0.1);
    this.redraw();
  }
}

const toolWords = (call) => {
  const names = new Map();
  for (const [name] of call.tools) names.set(name ?? "(no name)", (names.get(name ?? "(no name)") ?? 0) + 1);
  const words = [...names].slice(0, 5).map(([name, times]) => shown(name.slice(0, 40)) + (times > 1 ? ` ×${times}` : ""));
  return words.join(", ") + (names.size > 5 ? ` and ${names.size - 5} more` : "");
};
