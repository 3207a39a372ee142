// Pi extension of roller-capture: pi -e roller-capture.js   (also with --no-extensions)
//
// Tells the recording proxy, with each model request, which session made it and at which entry of the session's tree.
// The proxy takes x-roller-* headers off before it forwards a request. Nothing here may fail or delay a turn.

const HEADER_VALUE = /^[\x21-\x7e]{1,512}$/;

export default async function rollerCapture(pi) {
  const version = await piVersion();
  pi.on("before_provider_headers", (event, ctx) => {
    try {
      put(event.headers, "x-roller-session", ctx.sessionManager.getSessionId());
      // The entry that the answer will be appended to: also of a request that compacts, which has no id of its own.
      put(event.headers, "x-roller-leaf", ctx.sessionManager.getLeafId());
      put(event.headers, "x-roller-harness-version", version);
    } catch {
      // A request without the headers is recorded too, and the gap is named.
    }
  });
}

function put(headers, name, value) {
  if (typeof value === "string" && HEADER_VALUE.test(value)) {
    headers[name] = value;
  }
}

async function piVersion() {
  try {
    return (await import("@earendil-works/pi-coding-agent")).VERSION;
  } catch {
    return undefined;
  }
}
