// The attempts of a run, a line each.

const MOST_RUN_ROWS = 500;

// Rows that hold every word of the filter.
const runTable = (app, filter) => {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const attempts = app.page.attempts.filter((row) => words.every((word) => JSON.stringify(row).toLowerCase().includes(word)));
  const columns = RUN_COLUMNS.filter(({ needs }) => !needs || needs(app.page.attempts));
  const left = attempts.length - MOST_RUN_ROWS;
  const rest = left > 0 ? el("p", "faint", `and ${number(left)} more: filter them with the field above`) : null;
  const heads = columns.map(({ name, kind }) => el("th", kind ?? "", name));
  const rows = attempts.slice(0, MOST_RUN_ROWS).map((row) => runRow(app, row, columns));
  return el("div", "", el("table", "runs", el("thead", "", el("tr", "", heads)), el("tbody", "", rows)), rest);
};

const runRow = (app, row, columns) => {
  if (row.error) return el("tr", "broken", el("td", "", runName(row)), Object.assign(el("td", "bad", shown(row.error)), { colSpan: columns.length - 1 }));
  const node = el("tr", row.superseded ? "older" : "", columns.map(({ kind, cell }) => el("td", kind ?? "", cell(row))));
  node.addEventListener("click", () => openRun(app, row));
  return node;
};

const harnessOf = (row) => `${shown(row.harness.name)} ${shown(row.harness.version ?? "")}`.trim();

// The harnesses of a run; one that they all have stands above the table and not in each of its lines.
const harnessesOf = (attempts) => [...new Set(attempts.filter((row) => !row.error).map(harnessOf))];

// What did not end well, what is missing, and why.
const remarks = (row) => {
  const troubles = row.troubles.map(([kind, status, times]) => `${count(times, kind)} ${plainWord(status)}`);
  const missing = row.status_reasons.map((reason) => `${plainWord(reason.code)} (${number(reason.count)})`);
  return [
    row.findings.length ? el("div", "bad", "damaged") : null,
    row.why_not_completed ? el("div", row.execution_status === "failed" ? "bad" : "", shown(row.why_not_completed)) : null,
    el("div", "", [...troubles, ...missing].join(", ")),
  ];
};

// `needs`: the column is there where the attempts have something to say in it.
const RUN_COLUMNS = [
  { name: "attempt", cell: (row) => [runLink(row), row.superseded ? [" ", el("span", "chip plain-chip", "superseded")] : null] },
  { name: "who ran when", cell: (row) => activityView(row.activity) },
  { name: "harness", needs: (attempts) => harnessesOf(attempts).length > 1, cell: harnessOf },
  { name: "run", cell: (row) => chip(row.execution_status) },
  { name: "capture", cell: (row) => chip(row.capture_status) },
  { name: "agents", kind: "number", cell: (row) => number(row.participants) },
  { name: "calls", kind: "number", cell: (row) => number(row.calls) },
  { name: "exportable", kind: "number", cell: (row) => number(row.exportable_calls) },
  { name: "input", kind: "number", cell: (row) => short(row.tokens.input) },
  { name: "output", kind: "number", cell: (row) => short(row.tokens.output) },
  { name: "cost", kind: "number", needs: (attempts) => attempts.some((row) => row.currency), cell: (row) => money(row.cost, row.currency ?? "") },
  { name: "time", kind: "number", cell: (row) => (row.wall_seconds === null ? "" : duration(row.wall_seconds * 1000)) },
  { name: "remarks", cell: remarks },
];

// `samples/ID/capture/attempt-0001` is how a run directory is made: what tells attempts apart is enough.
const runName = (row) => shown(row.name.replace(/^samples\//, "").replace("/capture/", " · "));

const ACTIVITY = { width: 190, steps: 240, lane: 5, gap: 1, bad: 2 };

// A lane for each agent; the whole width is the attempt's own time, with long pauses narrow. Red below is what failed.
const activityView = ({ lanes, pauses }) => {
  const { width, steps, lane, gap, bad } = ACTIVITY;
  const canvas = el("canvas", "activity");
  const height = Math.max(1, lanes.length) * (lane + gap);
  const context = pencil(canvas, width, height);
  const bar = ([start, end], top, high) => context.fillRect((start / steps) * (width - 2), top, Math.max(2, ((end - start) / steps) * width), high);
  context.fillStyle = colour("--pause");
  pauses.forEach((pause) => bar(pause, 0, height));
  lanes.forEach(({ colour: paint, spans, bad: failed }, place) => {
    const top = place * (lane + gap);
    context.fillStyle = colour(`--agent-${paint}`);
    spans.forEach((span) => bar(span, top, lane));
    context.fillStyle = colour("--bad");
    failed.forEach((span) => bar(span, top + lane - bad, bad));
  });
  return canvas;
};

// The name of the sample, and after it, faint, which attempt.
const runLink = (row) => {
  const [sample, ...attempt] = runName(row).split(" · ");
  const node = el("a", "name", sample, attempt.length ? el("span", "faint", ` · ${attempt.join(" · ")}`) : null);
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
  const harnesses = harnessesOf(attempts);
  const times = (what, member) => Object.entries(Object.groupBy(counting, (row) => row[member])).map(([status, rows]) => [`${what} ${plainWord(status)}`, number(rows.length)]);
  return [
    el("h1", "", el("span", "name", shown(app.page.path)), " ", el("span", "faint", count(attempts.length, "attempt"))),
    factGrid([
      ["harness", harnesses.length === 1 ? harnesses[0] : null],
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
