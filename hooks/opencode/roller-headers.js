// Puts the native ids of each model call of OpenCode 1.x into x-roller-* request headers, which the recording proxy
// keeps and takes off before it forwards the call (docs/harnesses/opencode.md).
//
// The ids come from the input of the very call, never from a "current session". Only the id of the assistant message
// that is to hold the answer is not part of that input: OpenCode announces it, per session, before the call is made.
// Nothing here may fail or delay a turn, since what a hook throws ends the turn: so no id is better than an exception.

const TITLE = "title" // its answers become no message
const MOST_WAITING = 8

export const RollerHeaders = async () => {
  const open = new Map() // session id -> id of its assistant message that has not ended

  const waiting = new Map() // session id -> ids of the user messages that its next call is the first to see, newest first

  function announced(info) {
    if (info?.role !== "assistant") return
    if (!info.time?.completed) open.set(info.sessionID, info.id)
    else if (open.get(info.sessionID) === info.id) open.delete(info.sessionID)
  }

  // Two children in the background may end while their parent is at work: then one call answers both messages, and the
  // call's input names the newer one only.
  function assembled(messages) {
    const ids = []
    for (let at = messages.length - 1; at >= 0 && messages[at].info.role === "user"; at--) ids.push(messages[at].info.id)
    if (messages.length) waiting.set(messages[messages.length - 1].info.sessionID, ids.slice(0, MOST_WAITING))
  }

  function put(headers, name, value) {
    // A header value with other characters would make the request itself fail.
    if (typeof value === "string" && /^[\x21-\x7e]{1,200}$/.test(value)) headers[name] = value
  }

  return {
    event: async (input) => {
      try {
        if (input.event.type === "message.updated") announced(input.event.properties.info)
      } catch {}
    },
    "experimental.chat.messages.transform": async (_input, output) => {
      try {
        assembled(output.messages)
      } catch {}
    },
    "chat.headers": async (input, output) => {
      try {
        put(output.headers, "x-roller-session-id", input.sessionID)
        put(output.headers, "x-roller-agent", input.agent)
        put(output.headers, "x-roller-user-message-id", input.message?.id)
        if (input.agent === TITLE) return
        put(output.headers, "x-roller-message-id", open.get(input.sessionID))
        const others = (waiting.get(input.sessionID) ?? []).filter((id) => id !== input.message?.id)
        others.forEach((id, index) => put(output.headers, `x-roller-user-message-id-${index + 2}`, id))
      } catch {}
    },
  }
}
