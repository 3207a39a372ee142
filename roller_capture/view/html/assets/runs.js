// The attempts of a run, a line each.

const MOST_RUN_ROWS = 500;

// Rows that hold every word of the filter.
const runTable = (app, filter) => {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const attempts = app.page.attempts.filter((row) => words.every((word) => JSON.stringify(row).toLowerCase().includes(word)));
  const priced = attempts.some((row) => row.currency);
  const names = ["attempt", "who ran when", "harness", "run", "capture", "calls", "agents", "in", "out", priced ? "cost" : null, "time", "remarks"].filter(Boolean);
  const left = attempts.length - MOST_RUN_ROWS;
  const rest = left > 0 ? el("p", "faint", `and ${number(left)} more: filter them with the field above`) : null;
  const rows = attempts.slice(0, MOST_RUN_ROWS);
  return el("div", "", el("table", "runs", el("thead", "", el("tr", "", names.map((name) => el("th", "", name)))), el("tbody", "", rows.map((row) => runRow(app, row, priced)))), rest);
};

const runRow = (app, row, priced) => {
  if (row.error) return el("tr", "broken", el("td", "", runName(row)), Object.assign(el("td", "bad", shown(row.error)), { colSpan: priced ? 11 : 10 }));
  const missing = row.status_reasons.map((reason) => `${plainWord(reason.code)} ${reason.count}`).join(", ");
  const why = row.why_not_completed && el("div", row.execution_status === "failed" ? "bad" : "", shown(row.why_not_completed));
  const cells = [
    [runLink(app, row), row.superseded ? [" ", el("span", "chip plain-chip", "superseded")] : null],
    activityView(row.activity),
    `${shown(row.harness.name)} ${shown(row.harness.version ?? "")}`,
    chip(row.execution_status),
    chip(row.capture_status),
    el("span", "whole", `${number(row.exportable_calls)} of ${number(row.calls)}`),
    number(row.participants),
    short(row.tokens.input),
    short(row.tokens.output),
    priced ? money(row.cost, row.currency ?? "") : null,
    row.wall_seconds === null ? "" : el("span", "whole", duration(row.wall_seconds * 1000)),
    [row.findings.length ? el("span", "bad", "damaged ") : null, why, missing],
  ].filter((cell) => cell !== null || priced);
  const node = el("tr", row.superseded ? "older" : "", cells.map((cell) => el("td", "", cell)));
  node.addEventListener("click", () => openRun(app, row));
  return node;
};

// `samples/ID/capture/attempt-0001` is how a run directory is made: what tells attempts apart is enough.
const runName = (row) => shown(row.name.replace(/^samples\//, "").replace("/capture/", " · "));

const ACTIVITY = { width: 150, steps: 240, lane: 4, gap: 1 };

// A lane for each agent; the whole width is the attempt's own time.
const activityView = (lanes) => {
  const { width, steps, lane, gap } = ACTIVITY;
  const canvas = el("canvas", "activity");
  const height = Math.max(1, lanes.length) * (lane + gap);
  const context = pencil(canvas, width, height);
  lanes.forEach(({ colour: paint, spans }, place) => {
    context.fillStyle = colour(`--agent-${paint}`);
    for (const [start, end] of spans) context.fillRect((start / steps) * (width - 2), place * (lane + gap), Math.max(2, ((end - start) / steps) * width), lane);
  });
  return canvas;
};

const runLink = (app, row) => {
  const node = el("a", "name", runName(row));
  node.href = row.link ?? `#${row.number}`;
  return node;
};

const openRun = (app, row) => {
  location.href = row.link ?? `#${row.number}`;
};

const runsView = (app) => {
  const { attempts } = app.page;
  const known = attempts.filter((row) => !row.error);
  const counting = known.filter((row) => !row.superseded);
  const older = known.length - counting.length;
  const sum = (read) => counting.reduce((total, row) => total + (read(row) ?? 0), 0);
  const times = (what, member) => Object.entries(Object.groupBy(counting, (row) => row[member])).map(([status, rows]) => [`${what} ${plainWord(status)}`, number(rows.length)]);
  return [
    el("h1", "", el("span", "name", shown(app.page.path)), " ", el("span", "faint", count(attempts.length, "attempt"))),
    factGrid([
      ...times("run", "execution_status"),
      ...times("capture", "capture_status"),
      ["not shown", attempts.length - known.length ? number(attempts.length - known.length) : null],
      ["calls", number(sum((row) => row.calls))],
      ["exportable", number(sum((row) => row.exportable_calls))],
      ["input", number(sum((row) => row.tokens.input))],
      ["output", number(sum((row) => row.tokens.output))],
    ]),
    older ? el("p", "faint", `${count(older, "attempt is", "attempts are")} superseded, since the sample was made again: not counted here.`) : null,
    el("div", "run-table", runTable(app, byId("query").value)),
  ];
};
