// Numbers and texts as a person reads them. What cannot be seen, or would turn the direction of writing, is spelled out.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu;
const HIDDEN_IN_TEXT = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu;

const spelled = (character) => {
  const names = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  return names[character] ?? `\\u{${character.codePointAt(0).toString(16)}}`;
};

// For labels: one line.
const shown = (text) => String(text).replace(HIDDEN, spelled);

// For conversations: line breaks and tabs stay.
const prose = (text) => {
  const whole = String(text).replace(/\r\n/g, "\n");
  const parts = [];
  let last = 0;
  for (const match of whole.matchAll(HIDDEN_IN_TEXT)) {
    if (match.index > last) parts.push(whole.slice(last, match.index));
    parts.push(el("span", "hid", spelled(match[0])));
    last = match.index + match[0].length;
  }
  parts.push(whole.slice(last));
  return parts;
};

const number = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en-US"));

const short = (value) => {
  if (value === null || value === undefined) return "";
  if (value < 10000) return number(value);
  if (value < 999500) return `${(value / 1000).toFixed(value < 99950 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(value < 99.95e6 ? 1 : 0)}M`;
};

const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

const bytes = (value) => {
  if (value < 1000) return `${value} B`;
  if (value < 999500) return `${(value / 1000).toFixed(value < 99950 ? 1 : 0)} kB`;
  return `${(value / 1e6).toFixed(1)} MB`;
};

const duration = (ms) => {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(Math.round(ms / 1000) / 60);
  const seconds = Math.round(ms / 1000) % 60;
  if (minutes < 60) return `${minutes} min ${String(seconds).padStart(2, "0")} s`;
  return `${number(Math.floor(minutes / 60))} h ${String(minutes % 60).padStart(2, "0")} min`;
};

// For a narrow column: minutes as on a clock.
const brief = (ms) => {
  if (ms < 59950) return duration(ms);
  const seconds = Math.round(ms / 1000);
  const clock = `${Math.floor(seconds / 60) % 60}:${String(seconds % 60).padStart(2, "0")}`;
  return seconds < 3600 ? clock : `${number(Math.floor(seconds / 3600))}:${clock.padStart(5, "0")}`;
};

const money = (value, currency) => {
  if (value === null || value === undefined) return "–";
  const digits = value === 0 || value >= 100 ? 2 : value >= 0.01 ? 4 : 6;
  return `${value.toFixed(digits)} ${shown(currency)}`;
};

const sentenceCase = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const plainWord = (word) => shown(String(word).replaceAll("_", " "));

const tone = (word) => {
  if (["completed", "complete", "exportable", "resolved"].includes(word)) return "good";
  if (["failed", "missing", "unattributed"].includes(word)) return "bad";
  return "warn";
};

const chip = (word, text = word) => el("span", `chip ${tone(word)}`, plainWord(text));
