// Search over everything in the page: names and ids at once, then the texts, chunk by chunk, each text once.

const MOST_FOUND = 400;
const AROUND = 60;

class Search {
  constructor(app) {
    this.app = app;
    this.turn = 0;
    this.found = [];
    this.drawn = 0;
    this.at = -1;
  }

  async run(query) {
    this.turn += 1;
    const turn = this.turn;
    this.query = query.trim();
    this.found = [];
    this.drawn = 0;
    this.at = -1;
    if (!this.query) {
      this.close();
      return;
    }
    this.inNames();
    this.show("searching texts…");
    const isDone = await this.inTexts(turn);
    if (isDone && turn === this.turn) this.show("");
  }

  add(item) {
    if (this.found.length < MOST_FOUND) this.found.push(item);
  }

  inNames() {
    const { attempt } = this.app;
    const wanted = this.query.toLowerCase();
    const holds = (...texts) => texts.find((text) => typeof text === "string" && text.toLowerCase().includes(wanted));
    attempt.agents.forEach((agent, place) => {
      const hit = holds(agent.name, agent.id, ...Object.values(agent.native_ids).flat());
      if (hit !== undefined) this.add({ key: `a${place}`, where: "agent", text: hit });
    });
    attempt.calls.forEach((call, place) => {
      const texts = [`#${call.n}`, call.id, call.model.requested, call.model.responded, call.finish, call.status, call.purpose, ...call.blockers];
      const hit = holds(...texts, ...call.tools.flat(), ...call.errors.flatMap((error) => [error.code, error.message]));
      if (hit !== undefined && !(hit === `#${call.n}` && this.query !== hit)) this.add({ key: `c${place}`, where: "call", text: hit });
    });
  }

  // A text stands in JSON: what is looked for is spelled the same way.
  async inTexts(turn) {
    const { attempt } = this.app;
    const wanted = JSON.stringify(this.query).slice(1, -1).toLowerCase();
    const owners = attempt.calls.filter((call) => call.content).map((call) => [call.content.first_piece, call.content.next_piece, call.place]);
    const pieces = attempt.pieces;
    const decoder = new TextDecoder();
    for (const [from, to, place] of owners) {
      for (let piece = from; piece < to; piece += 1) {
        const [chunk, at] = pieces.place(piece);
        const data = await pieces.chunk(chunk);
        if (turn !== this.turn || this.found.length >= MOST_FOUND) return turn === this.turn;
        const start = pieces.startsOf(chunk)[at];
        const text = decoder.decode(data.subarray(start, start + pieces.lengths[chunk][at]));
        const hit = text.toLowerCase().indexOf(wanted);
        if (hit >= 0 && this.isNew(place, piece)) {
          this.add({ key: `c${place}`, piece, where: this.partOf(place, piece), text: unescaped(text.slice(Math.max(0, hit - AROUND), hit + wanted.length + 2 * AROUND)) });
          if (this.found.length % 20 === 1) this.show("searching texts…");
        }
      }
    }
    return true;
  }

  // A message that differs from the one before in its cache marks alone is no second place.
  isNew(place, piece) {
    const { content } = this.app.attempt.calls[place];
    if (piece === content.record) return false;
    if (!content.list || piece === content.output || Object.values(content.parts).includes(piece)) return true;
    const list = this.app.attempt.messages(place);
    const at = list.lastIndexOf(piece);
    return !content.since || (at >= content.since.head && at < list.length - content.since.tail);
  }

  partOf(place, piece) {
    const { content } = this.app.attempt.calls[place];
    if (content.output === piece) return "response";
    const part = Object.entries(content.parts ?? {}).find(([, one]) => one === piece);
    return part ? part[0] : "message";
  }

  // Adds the lines that are not there yet: those that are may be selected, or under the pointer.
  show(note) {
    const box = byId("found");
    const many = this.found.length >= MOST_FOUND ? `the first ${number(MOST_FOUND)} places` : count(this.found.length, "place");
    const head = el("div", "found-head", el("b", "", many), " ", el("span", "faint", note || "↑ ↓ to go through, Esc to close"));
    if (this.drawn) box.firstElementChild.replaceWith(head);
    else fill(box, head);
    append(box, this.found.slice(this.drawn).map((item, place) => this.line(item, this.drawn + place)));
    this.drawn = this.found.length;
    box.hidden = false;
    byId("rows").hidden = true;
  }

  line(item, place) {
    const { attempt } = this.app;
    const isCall = item.key[0] === "c";
    const call = isCall ? attempt.calls[Number(item.key.slice(1))] : null;
    const agent = isCall ? call.agent : Number(item.key.slice(1));
    const paint = agent === null ? "none" : attempt.agents[agent].colour;
    const node = button(`hit ${place === this.at ? "selected" : ""}`, [
      el("span", `dot agent-${paint}`),
      el("span", "n", isCall ? `#${call.n}` : ""),
      el("span", "name", agent === null ? "no agent" : attempt.name(agent)),
      el("span", "kind", shown(item.where)),
      el("span", "snippet", this.snippet(item.text)),
    ], () => this.go(place));
    return node;
  }

  snippet(text) {
    const at = text.toLowerCase().indexOf(this.query.toLowerCase());
    if (at < 0) return shown(text.slice(0, 3 * AROUND));
    const end = at + this.query.length;
    return [shown(text.slice(Math.max(0, at - AROUND), at)), el("mark", "", shown(text.slice(at, end))), shown(text.slice(end, end + 2 * AROUND))];
  }

  go(place) {
    if (!this.found.length) return;
    this.at = Math.max(0, Math.min(this.found.length - 1, place));
    const item = this.found[this.at];
    byId("found").querySelectorAll(".hit").forEach((node, one) => {
      node.classList.toggle("selected", one === this.at);
      if (one === this.at) node.scrollIntoView({ block: "nearest" });
    });
    this.app.select(item.key, item.piece === undefined ? null : { piece: item.piece, query: this.query });
  }

  get isOpen() {
    return !byId("found").hidden;
  }

  close() {
    this.turn += 1;
    byId("found").hidden = true;
    byId("rows").hidden = false;
    this.app.outline.redraw();
    this.app.outline.select(this.app.selected);
  }
}

// Enough for a line: the text is cut out of JSON.
const unescaped = (text) => text.replace(/\\[nrt]/g, " ").replace(/\\(["\\/])/g, "$1");

// Paints what was looked for in a text that is shown, and returns the first place.
const paintFound = (node, query) => {
  CSS.highlights?.delete("found");
  if (!node || !query) return null;
  const wanted = query.toLowerCase();
  for (const text of node.querySelectorAll("pre.text")) {
    const at = text.whole.toLowerCase().indexOf(wanted);
    if (at >= 0) text.showAround(at);
  }
  const ranges = [];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && ranges.length < 500) {
    if (walker.currentNode.parentElement.closest(".fold-head")) continue;
    const text = walker.currentNode.data.toLowerCase();
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, at);
      range.setEnd(walker.currentNode, Math.min(at + wanted.length, walker.currentNode.length));
      ranges.push(range);
    }
  }
  if (CSS.highlights && ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
  return ranges[0]?.startContainer.parentElement ?? null;
};
