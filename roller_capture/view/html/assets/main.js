// The page as a whole: what is selected, the keys, the address, light and dark.

const KEYS = [
  ["↑ ↓ or k j", "the row above, below"],
  ["← →", "close or open an agent; ← goes to its parent"],
  ["[ ]", "the same agent's call before, after"],
  ["Enter", "to the detail; Esc back"],
  ["/", "search; Enter goes to the next place, Esc closes"],
  ["n p", "the next, the previous place that was found"],
  ["a", "agents alone, or with their calls"],
  ["+ − 0", "zoom the timeline (Ctrl and wheel); the whole"],
  ["g", "overview of the attempt; u: the attempts of the run"],
  ["t", "light or dark"],
  ["?", "this"],
];

const MANY_CALLS = 400;

class App {
  constructor(page) {
    this.page = page;
    this.pieces = new Pieces(page.pieces);
    this.closed = new Set();
    this.withCalls = true;
    this.outline = new Outline(this);
    this.search = new Search(this);
    this.attempts = new Map();
    this.shown = 0;
    this.waiting = null;
  }

  get isRun() {
    return this.page.attempts.length !== 1 || this.page.attempts[0].number === null;
  }

  // #N/cM: attempt N, call M. #N: the attempt. Nothing: the run, or its only attempt.
  async follow() {
    const address = location.hash;
    const match = /^#(\d+)(?:\/([ac]\d+|u))?$/.exec(address);
    const wanted = match ? Number(match[1]) : this.isRun ? null : 0;
    // A row without a number has no data in this page: it has a page of its own, or cannot be shown.
    const row = wanted === null ? undefined : this.page.attempts.find((one) => one.number === wanted);
    if (!row) {
      this.showRun();
      return;
    }
    if (this.attempt?.number !== wanted) {
      const opened = await this.opened(wanted);
      if (location.hash !== address) return; // gone elsewhere meanwhile
      this.enter(opened, row);
    }
    const key = match?.[2] ?? "overview";
    const list = { a: this.attempt.agents, c: this.attempt.calls }[key[0]];
    this.show(list && !list[Number(key.slice(1))] ? "overview" : key);
  }

  async opened(number_) {
    const attempt = this.attempts.get(number_) ?? new Attempt(await blockJson(`a${number_}`), this.pieces);
    attempt.number = number_;
    this.attempts.set(number_, attempt);
    return attempt;
  }

  enter(attempt, row) {
    this.attempt = attempt;
    this.row = row;
    this.closed = new Set();
    this.withCalls = this.attempt.calls.length <= MANY_CALLS || this.attempt.agents.length < 2;
    document.body.classList.remove("run");
    this.bar();
    this.outline.show(this.attempt);
    byId("query").value = "";
    byId("query").placeholder = "Search texts, ids, tools";
    if (this.search.isOpen) this.search.close();
  }

  showRun() {
    this.attempt = null;
    byId("query").value = "";
    byId("query").placeholder = "Filter attempts";
    document.body.classList.add("run");
    document.title = `${shown(this.page.path)} · roller-capture`;
    fill(byId("home"), el("span", "name", shown(this.page.path)));
    fill(byId("chips"));
    fill(byId("detail"), runsView(this));
  }

  bar() {
    const { attempt } = this;
    const name = this.row.name === "." ? shown(this.page.path) : runName(this.row);
    document.title = `${name} · roller-capture`;
    fill(byId("home"), this.isRun ? el("span", "faint", `${shown(this.page.path)} / `) : null, el("span", "name", name));
    const [input, output, read] = attempt.totals.tokens;
    fill(byId("chips"),
      el("span", "harness", shown(attempt.harness.name)),
      chip(attempt.execution_status, `run ${attempt.execution_status}`),
      chip(attempt.capture_status, `capture ${attempt.capture_status}`),
      attempt.gaps.length ? button("chip warn gap-chip", `${number(attempt.gaps.length)} missing`, () => this.select("overview")) : null,
      attempt.findings.length ? el("span", "chip bad", "damaged") : null,
      el("span", "stat", el("b", "", number(attempt.calls.length)), attempt.calls.length === 1 ? " call" : " calls"),
      el("span", "stat", el("b", "", number(attempt.agents.length)), attempt.agents.length === 1 ? " agent" : " agents"),
      el("span", "stat", el("b", "", short(input ?? 0)), " in"),
      read ? el("span", "stat", el("b", "", short(read)), " cached") : null,
      el("span", "stat", el("b", "", short(output ?? 0)), " out"),
      attempt.totals.cost === null ? null : el("span", "stat", el("b", "", money(attempt.totals.cost, attempt.currency))));
  }

  // Selecting changes the address; the address is what is shown, so Back works.
  select(key, focus = null) {
    this.focus = focus;
    const address = key === "overview" ? `#${this.attempt.number}` : `#${this.attempt.number}/${key}`;
    // Not by `location.hash`: what that brings comes later, and a second key before it would start from the old place.
    if (location.hash !== address && (key !== "overview" || location.hash)) history.pushState(null, "", address);
    this.show(key);
  }

  async show(key) {
    this.shown += 1;
    const turn = this.shown;
    this.selected = key;
    const focus = this.focus;
    this.focus = null;
    if (key !== "overview" && key !== "u") this.openAbove(key);
    this.outline.select(key);
    const detail = byId("detail");
    let view = null;
    if (key[0] === "c") view = new CallView(this, Number(key.slice(1)));
    const parts = view ? view.parts() : key[0] === "a" ? agentView(this, Number(key.slice(1))) : key === "u" ? this.unownedView() : overviewView(this);
    fill(detail, parts);
    detail.scrollTop = 0;
    paintFound(null, "");
    if (!view || !focus) return;
    const target = await view.reveal(focus);
    if (!target || turn !== this.shown) return;
    const place = focus.query ? (paintFound(target, focus.query) ?? target) : target;
    target.classList.add("flash");
    place.scrollIntoView({ block: "center" });
  }

  unownedView() {
    return [el("h1", "", "Calls of no agent"), el("p", "faint", "Nothing proves whose they are."), el("div", "facts", this.attempt.unowned.map((place) =>
      el("p", "", callLink(this, place), " ", shown(this.attempt.calls[place].why))))];
  }

  openAbove(key) {
    const hidden = this.attempt.above(key).filter((one) => this.closed.delete(one));
    const needsCalls = key[0] === "c" && !this.withCalls;
    if (needsCalls) this.withCalls = true;
    if (hidden.length || needsCalls) this.outline.update();
  }

  setMode(withCalls) {
    this.withCalls = withCalls;
    this.outline.update();
    this.outline.select(this.selected);
  }

  toggle(key) {
    if (!this.closed.delete(key)) this.closed.add(key);
    this.outline.update();
    this.outline.select(this.selected);
  }

  // In the table of a run the keys move the focus; Enter then follows the link, as everywhere.
  moveInRun(step) {
    const links = [...document.querySelectorAll(".runs a")];
    const next = Math.max(0, Math.min(links.length - 1, links.indexOf(document.activeElement) + step));
    links[next]?.focus();
  }

  move(step) {
    if (this.search.isOpen) {
      this.search.go(this.search.at + step);
      return;
    }
    const { rows, places } = this.outline;
    const at = places.get(this.selected) ?? -1;
    const next = Math.max(0, Math.min(rows.length - 1, at + step));
    if (rows[next]) this.select(rows[next].key);
  }

  sideways(opens) {
    const at = this.outline.places.get(this.selected);
    const row = this.outline.rows[at];
    if (!row) return;
    if (row.hasMore && row.isOpen !== opens) this.toggle(row.key);
    else if (!opens) {
      const [parent] = this.selected === "u" ? [] : this.attempt.above(this.selected);
      if (parent) this.select(parent);
    }
  }

  sibling(step) {
    if (this.selected?.[0] !== "c") return;
    const place = Number(this.selected.slice(1));
    const { agent } = this.attempt.calls[place];
    const calls = agent === null ? this.attempt.unowned : this.attempt.agents[agent].calls;
    const next = calls[calls.indexOf(place) + step];
    if (next !== undefined) this.select(`c${next}`);
  }

  zoom(factor) {
    const { scale } = this.attempt;
    if (factor === 0) scale.zoom(Infinity);
    else {
      const call = this.selected?.[0] === "c" ? this.attempt.calls[Number(this.selected.slice(1))] : null;
      scale.zoom(factor, call && call.start !== null ? scale.whole(call.start) : undefined);
    }
    this.outline.redraw();
    this.outline.select(this.selected);
  }

  setTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    this.repaint();
  }

  repaint() {
    colours.cache.clear();
    if (!this.attempt) this.look(byId("query").value);
    else {
      this.outline.redraw();
      this.outline.select(this.selected);
    }
  }

  showKeys() {
    const dialog = byId("keys");
    fill(dialog, el("h2", "", "Keys"), el("dl", "", KEYS.map(([keys, words]) => [el("dt", "", keys), el("dd", "", words)])));
    dialog.showModal();
  }

  key(event) {
    const inField = event.target instanceof HTMLInputElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.escape(inField);
    else if (inField) this.keyInField(event);
    else if (!this.runKey(event)) return;
    else event.preventDefault();
  }

  escape(inField) {
    if (byId("keys").open) byId("keys").close();
    else if (this.search.isOpen) {
      byId("query").value = "";
      this.search.close();
    }
    if (inField) byId("query").blur();
    byId("rows").focus();
  }

  keyInField(event) {
    const steps = { Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 };
    if (!(event.key in steps) || (this.attempt && !this.search.isOpen)) return;
    event.preventDefault();
    if (this.attempt) this.search.go(this.search.at + steps[event.key]);
    else {
      this.lookNow();
      this.moveInRun(1);
    }
  }

  // True where the key meant something.
  runKey(event) {
    const always = { "?": () => this.showKeys(), "/": () => byId("query").focus(), t: () => this.setTheme(), u: () => this.isRun && (location.hash = "") };
    const inDetail = byId("detail").contains(event.target);
    const inRun = { j: () => this.moveInRun(1), k: () => this.moveInRun(-1), ArrowDown: () => this.moveInRun(1), ArrowUp: () => this.moveInRun(-1) };
    const inAttempt = {
      j: () => this.move(1),
      k: () => this.move(-1),
      n: () => this.search.isOpen && this.search.go(this.search.at + 1),
      p: () => this.search.isOpen && this.search.go(this.search.at - 1),
      "[": () => this.sibling(-1),
      "]": () => this.sibling(1),
      a: () => this.setMode(!this.withCalls),
      g: () => this.select("overview"),
      "+": () => this.zoom(0.7),
      "=": () => this.zoom(0.7),
      "-": () => this.zoom(1.4),
      0: () => this.zoom(0),
    };
    const inRows = {
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      PageDown: () => this.move(20),
      PageUp: () => this.move(-20),
      Home: () => this.move(-Infinity),
      End: () => this.move(Infinity),
      ArrowRight: () => this.sideways(true),
      ArrowLeft: () => this.sideways(false),
      Enter: () => byId("detail").focus(),
    };
    if (byId("keys").open) return false;
    const isTaken = inDetail || (event.key === "Enter" && event.target instanceof HTMLButtonElement);
    const action = always[event.key] ?? (this.attempt ? inAttempt[event.key] ?? (isTaken ? undefined : inRows[event.key]) : inRun[event.key]);
    if (!action) return false;
    action();
    return true;
  }

  listen() {
    window.addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    byId("theme").addEventListener("click", () => this.setTheme());
    byId("help").addEventListener("click", () => this.showKeys());
    byId("keys").addEventListener("click", () => byId("keys").close());
    byId("home").addEventListener("click", () => (this.isRun ? (location.hash = "") : this.select("overview")));
    byId("query").addEventListener("input", () => {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.lookNow(), 150);
    });
    this.listenSplit();
  }

  // What was typed, if it has not been looked for yet.
  lookNow() {
    if (this.waiting === null) return;
    clearTimeout(this.waiting);
    this.waiting = null;
    this.look(byId("query").value);
  }

  look(query) {
    if (this.attempt) this.search.run(query);
    else fill(document.querySelector(".run-table"), runTable(this, query));
  }

  listenSplit() {
    const split = byId("split");
    split.addEventListener("pointerdown", (event) => {
      split.setPointerCapture(event.pointerId);
      const move = (moved) => {
        const share = Math.max(0.2, Math.min(0.8, moved.clientX / innerWidth));
        byId("main").style.setProperty("--left", `${(share * 100).toFixed(2)}%`);
        this.outline.redraw();
      };
      split.addEventListener("pointermove", move);
      split.addEventListener("pointerup", () => split.removeEventListener("pointermove", move), { once: true });
    });
  }
}

const start = async () => {
  const app = new App(await blockJson("page"));
  app.listen();
  await app.follow();
  byId("rows").focus();
  document.body.dataset.ready = "yes";
};

start().catch((error) => {
  fill(byId("detail"), el("p", "bad", `This page cannot be shown: ${shown(String(error.message || error))}`));
  document.body.dataset.ready = "no";
});
