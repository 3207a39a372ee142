// Tells the local recorder which session and which run a model request belongs to.
//
// OpenClaw calls the stream function once for each model request and hands it the session id, the run id and the
// context as it will be sent: tool ids as its own resolver has rewritten them. The two ids go into x-roller-* request
// headers, which the recorder takes off again. Ids alone go into the log, one JSON object a line:
//
//   {"event":"stream","stream_id","session_id","run_id","request_id","api"}           one stream context
//   {"event":"tool_ids","session_id","response_id","ids":[…],"results":[…]}           one message of a context
//
// `ids` are the tool calls of the assistant message with that response id, in the order in which they stand in it;
// `results` those of them whose results the same context holds. A message is logged when it is new or has changed.
// Nothing here can fail or hold up a turn: whatever goes wrong, the request goes out as it would have.
import { randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";

const PROVIDERS = ["roller"]; // also named in openclaw.plugin.json
const LOG = process.env.ROLLER_HOOK_LOG;
const TOOL_CALL = "toolCall";
const REMEMBERED = 50_000;

const logged = new Set();

function write(records) {
  if (!LOG || records.length === 0) return;
  try {
    appendFileSync(LOG, records.map((record) => JSON.stringify(record) + "\n").join(""), { mode: 0o600 });
  } catch {
    // The adapter sees what is missing.
  }
}

function text(value) {
  return typeof value === "string" ? value : "";
}

// Headers must be visible ASCII; an id that is not goes without its header and is then a gap, not a broken request.
function headerValue(value) {
  return typeof value === "string" && /^[\x21-\x7e]{1,1024}$/.test(value) ? value : undefined;
}

function toolIdRecords(sessionId, messages) {
  if (!Array.isArray(messages)) return [];
  const answered = new Set(messages.filter((one) => one?.role === "toolResult").map((one) => one.toolCallId));
  const records = [];
  for (const message of messages) {
    if (message?.role !== "assistant" || !text(message.responseId) || !Array.isArray(message.content)) continue;
    const ids = message.content.filter((block) => block?.type === TOOL_CALL).map((block) => text(block.id));
    if (ids.length === 0) continue;
    const results = ids.filter((id) => answered.has(id));
    const record = { event: "tool_ids", session_id: sessionId, response_id: message.responseId, ids, results };
    const key = JSON.stringify(record);
    if (logged.has(key)) continue;
    if (logged.size >= REMEMBERED) logged.clear();
    logged.add(key);
    records.push(record);
  }
  return records;
}

function note(stream, model, context) {
  try {
    write([{ ...stream, api: text(model?.api) }, ...toolIdRecords(stream.session_id, context?.messages)]);
  } catch {
    // The headers matter more than the log.
  }
}

function correlate(model, context, options) {
  const sessionId = text(options?.sessionId);
  const requestId = text(options?.requestId);
  const runId = requestId.replace(/:model:\d+$/, "");
  const streamId = randomUUID();
  const stream = { event: "stream", stream_id: streamId, session_id: sessionId, run_id: runId, request_id: requestId };
  note(stream, model, context);
  const values = {
    "x-roller-session-id": headerValue(sessionId),
    "x-roller-run-id": headerValue(runId),
    "x-roller-request-id": headerValue(requestId),
    "x-roller-stream-id": streamId,
  };
  const ours = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  return { ...options, headers: { ...options?.headers, ...ours } };
}

function wrapStreamFn({ streamFn }) {
  if (typeof streamFn !== "function") return undefined;
  return (model, context, options) => {
    let marked = options;
    try {
      marked = correlate(model, context, options);
    } catch {
      // Unmarked, the call is published without an owner.
    }
    return streamFn(model, context, marked);
  };
}

export default {
  id: "roller-headers",
  name: "Roller headers",
  description: "Session and run ids as request headers for a local recorder",
  register(api) {
    for (const id of PROVIDERS) api.registerProvider({ id, label: id, auth: [], wrapStreamFn });
    write([{ event: "registered", pid: process.pid }]);
  },
};
