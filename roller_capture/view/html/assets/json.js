// JSON as it was sent: numbers that JavaScript cannot hold keep their own text; large values open step by step.

class NumberText {
  constructor(text) {
    this.text = text;
  }
}

const parseExactly = (text) => {
  if (!/\d{16}|\d[eE.]/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value, context) =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source
      ? new NumberText(context.source)
      : value,
  );
};

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof NumberText);

const LONG_TEXT = 4000;
const MORE_TEXT = 200000;
const MANY_ITEMS = 60;

// A text that shows a part of itself, its beginning at first, and more of it on demand.
const longText = (text, className = "") => {
  const node = el("pre", `text ${className}`);
  const show = (from, to) => {
    let [start, end] = [Math.max(0, from), Math.min(text.length, to)];
    if (start < LONG_TEXT / 4) start = 0;
    if (text.length - end < LONG_TEXT / 4) end = text.length;
    if (isLowSurrogate(text, start)) start -= 1;
    if (isLowSurrogate(text, end)) end += 1;
    const before = start > 0 && button("more", `show the ${number(start)} characters before`, () => show(start - MORE_TEXT, end));
    const after = end < text.length && button("more", `show ${number(text.length - end)} more characters`, () => show(start, end + MORE_TEXT));
    fill(node, before, before && "\n", prose(text.slice(start, end)), after && "\n", after);
    node.holds = (place) => place >= start && place < end;
  };
  show(0, LONG_TEXT);
  node.showAround = (place) => node.holds(place) || show(place - LONG_TEXT / 2, place + LONG_TEXT / 2);
  node.whole = text;
  return node;
};

const isLowSurrogate = (text, at) => at > 0 && at < text.length && /[\udc00-\udfff]/.test(text[at]) && /[\ud800-\udbff]/.test(text[at - 1]);

const jsonScalar = (value) => {
  if (value instanceof NumberText) return el("span", "j-number", shown(value.text));
  if (typeof value === "string") return el("span", "j-string", `"${shown(value)}"`);
  return el("span", typeof value === "number" ? "j-number" : "j-word", String(value));
};

const jsonBrief = (value) => {
  if (Array.isArray(value)) return value.length ? `[ ${count(value.length, "item")} ]` : "[ ]";
  const keys = Object.keys(value);
  if (!keys.length) return "{ }";
  const names = keys.slice(0, 4).map((key) => shown(key.slice(0, 24)));
  return `{ ${names.join(", ")}${keys.length > 4 ? `, … ${keys.length - 4} more` : ""} }`;
};

const jsonView = (value, levels = 1) => {
  if (typeof value === "string" && (value.length > 120 || value.includes("\n"))) return longText(value, "j-long");
  if (typeof value !== "object" || value === null || value instanceof NumberText) return jsonScalar(value);
  const entries = Array.isArray(value) ? value.map((item, place) => [place, item]) : Object.entries(value);
  if (!entries.length) return el("span", "j-word", jsonBrief(value));
  const list = el("div", "json");
  let placed = 0;
  const more = button("more", "", () => place(placed + 10 * MANY_ITEMS));
  const place = (end) => {
    more.remove();
    for (const [key, item] of entries.slice(placed, end)) list.append(jsonEntry(key, item, levels));
    placed = Math.min(end, entries.length);
    more.textContent = `show ${number(entries.length - placed)} more`;
    if (placed < entries.length) list.append(more);
  };
  place(MANY_ITEMS);
  return list;
};

const jsonEntry = (key, item, levels) => {
  const name = el("span", "j-key", shown(key));
  const isNested = typeof item === "object" && item !== null && !(item instanceof NumberText) && Object.keys(item).length;
  if (!isNested) return el("div", "j-entry", name, jsonView(item));
  const heading = [name, el("span", "j-brief", jsonBrief(item))];
  return folding("j-fold", heading, (body) => body.append(jsonView(item, levels - 1)), levels > 1);
};
