// When things ran, on the line of time that comes with the attempt: long pauses are narrow in it.

class TimeScale {
  constructor(stretches) {
    this.isEmpty = !stretches.length;
    this.stretches = this.isEmpty ? [{ start: 0, end: 1, x: 0, width: 1, pause: false }] : stretches;
    this.from = 0;
    this.to = 1;
  }

  // From milliseconds to 0 … 1 over the whole, then into what is looked at.
  whole(ms) {
    const item = this.stretches.find((one) => ms <= one.end) ?? this.stretches[this.stretches.length - 1];
    const share = item.end > item.start ? (ms - item.start) / (item.end - item.start) : 0;
    return item.x + Math.max(0, Math.min(1, share)) * item.width;
  }

  place(ms) {
    return (this.whole(ms) - this.from) / (this.to - this.from);
  }

  zoom(factor, centre = (this.from + this.to) / 2) {
    const width = Math.min(1, Math.max(0.0005, (this.to - this.from) * factor));
    const share = (centre - this.from) / (this.to - this.from);
    this.from = Math.max(0, Math.min(1 - width, centre - share * width));
    this.to = this.from + width;
  }

  move(share) {
    const width = this.to - this.from;
    this.from = Math.max(0, Math.min(1 - width, this.from + share * width));
    this.to = this.from + width;
  }

  ticks(width) {
    const ticks = [];
    for (const item of this.stretches) {
      const left = ((item.x - this.from) / (this.to - this.from)) * width;
      const room = (item.width / (this.to - this.from)) * width;
      if (item.pause) {
        ticks.push({ x: left + room / 2, pause: true, left, room, text: duration(item.end - item.start) });
        continue;
      }
      if (room < 30) continue;
      const step = niceStep(((item.end - item.start) / room) * 76);
      for (let ms = Math.ceil(item.start / step) * step; ms <= item.end; ms += step) {
        const x = this.place(ms) * width;
        if (x > -40 && x < width + 40) ticks.push({ x, text: tickText(ms, step) });
        if (ticks.length > 400) break;
      }
    }
    return ticks;
  }
}

const niceStep = (ms) => {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 864e5];
  return steps.find((step) => step >= ms) ?? Math.ceil(ms / 864e5) * 864e5;
};

const tickText = (ms, step) => {
  if (ms === 0) return "0";
  if (step < 10 && ms < 10000) return `${Math.round(ms)} ms`;
  if (step < 1000) return `${(ms / 1000).toFixed(step < 10 ? 3 : step < 100 ? 2 : 1)} s`;
  if (ms < 60000) return `${Math.round(ms / 1000)} s`;
  return brief(ms);
};

// Colours come from the style sheet, so that they follow light and dark.
const colours = { cache: new Map() };
const colour = (name) => {
  if (!colours.cache.has(name)) colours.cache.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.cache.get(name);
};

const pencil = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
};

const drawGrid = (context, ticks, height) => {
  for (const tick of ticks) {
    if (tick.pause) {
      context.fillStyle = colour("--pause");
      context.fillRect(tick.left, 0, tick.room, height);
    } else {
      context.fillStyle = colour("--grid");
      context.fillRect(Math.round(tick.x), 0, 1, height);
    }
  }
};

const drawAxis = (canvas, scale, width, height) => {
  const context = pencil(canvas, width, height);
  const ticks = scale.isEmpty ? [] : scale.ticks(width);
  drawGrid(context, ticks, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  let right = -Infinity;
  for (const tick of ticks) {
    const label = tick.pause ? `⋯ ${tick.text}` : tick.text;
    const size = context.measureText(label).width;
    const x = tick.pause ? tick.x - size / 2 : Math.min(tick.x + 4, width - size - 2);
    if (x < right + 6) continue;
    context.fillStyle = colour("--faint");
    context.fillText(label, x, height / 2);
    right = x + size;
  }
};

const drawCalls = (canvas, attempt, calls, width, height, { thick, ticks }) => {
  const context = pencil(canvas, width, height);
  drawGrid(context, ticks, height);
  const bar = thick ? 10 : 8;
  const top = (height - bar) / 2;
  let drawn = -1;
  for (const call of calls) {
    if (call.start === null) continue;
    const begin = attempt.scale.place(call.start) * width;
    const left = begin <= width ? Math.min(begin, width - 2) : begin; // the last one keeps its two pixels, too
    const right = Math.max(left + 2, attempt.scale.place(call.start + (call.ms ?? 0)) * width);
    if (right < 0 || left > width) continue;
    if (right - left <= 2 && right <= drawn) continue;
    drawn = right;
    const paint = colour(`--agent-${attempt.colourOf(call)}`);
    const wait = call.first === null ? right : attempt.scale.place(call.start + call.first) * width;
    context.fillStyle = paint;
    context.globalAlpha = 0.42;
    context.fillRect(left, top, right - left, bar);
    context.globalAlpha = 1;
    context.fillRect(Math.min(Math.max(left, wait), right - 1.5), top, Math.max(1.5, right - Math.max(left, wait)), bar);
    if (call.status !== "completed") {
      context.fillStyle = colour(call.status === "failed" ? "--bad" : "--warn");
      context.fillRect(left, top + bar, Math.max(4, right - left), 2);
    }
  }
};
