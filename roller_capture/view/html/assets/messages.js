// Messages of the three protocols as blocks to look at. A shape that is not known is shown as the JSON that it is.

const blockOf = (block, pointer) => {
  if (typeof block === "string") return { kind: "text", text: block, pointer };
  if (!isObject(block)) return { kind: "other", value: block, pointer };
  const { type } = block;
  if (["text", "input_text", "output_text"].includes(type) && typeof block.text === "string") {
    return { kind: "text", text: block.text, pointer };
  }
  if (type === "thinking" && typeof block.thinking === "string") return { kind: "thinking", text: block.thinking, pointer };
  if (type === "tool_use" || type === "server_tool_use") {
    return { kind: "use", name: block.name, id: block.id, value: block.partial_json ?? block.input, pointer };
  }
  if (type === "tool_result") {
    return { kind: "result", id: block.tool_use_id, failed: block.is_error === true, inner: blocksOf(block.content, `${pointer}/content`), pointer };
  }
  if (["image", "image_url", "input_image", "document", "input_file", "file", "input_audio"].includes(type)) {
    return { kind: "media", name: type, value: block, pointer };
  }
  return { kind: "other", name: typeof type === "string" ? type : undefined, value: block, pointer };
};

const blocksOf = (content, pointer) => {
  if (content === null || content === undefined) return [];
  if (Array.isArray(content)) return content.map((block, place) => blockOf(block, `${pointer}/${place}`));
  return [blockOf(content, pointer)];
};

const parsedArguments = (text) => {
  if (typeof text !== "string") return text;
  try {
    return parseExactly(text);
  } catch {
    return text;
  }
};

const chatMessage = (message, pointer) => {
  const blocks = [];
  for (const name of ["reasoning_content", "reasoning"]) {
    if (typeof message[name] === "string" && message[name]) blocks.push({ kind: "thinking", text: message[name], pointer: `${pointer}/${name}` });
  }
  const content = blocksOf(message.content, `${pointer}/content`);
  if (message.role === "tool") blocks.push({ kind: "result", id: message.tool_call_id, inner: content, pointer });
  else blocks.push(...content);
  if (Array.isArray(message.tool_calls)) {
    message.tool_calls.forEach((call, place) => {
      const made = isObject(call) ? call.function ?? call.custom ?? {} : {};
      const value = parsedArguments(made.arguments ?? made.input);
      blocks.push({ kind: "use", name: made.name, id: call?.id, value, pointer: `${pointer}/tool_calls/${place}` });
    });
  }
  return { role: message.role, blocks };
};

const ITEM_ROLES = new Map([
  ["function_call", "assistant"],
  ["custom_tool_call", "assistant"],
  ["reasoning", "assistant"],
  ["function_call_output", "tool"],
  ["custom_tool_call_output", "tool"],
]);

const responsesItem = (item, pointer) => {
  const role = item.role ?? ITEM_ROLES.get(item.type) ?? item.type;
  if (item.type === "function_call" || item.type === "custom_tool_call") {
    const value = parsedArguments(item.arguments ?? item.input);
    return { role, blocks: [{ kind: "use", name: item.name, id: item.call_id, value, pointer }] };
  }
  if (item.type === "function_call_output" || item.type === "custom_tool_call_output") {
    return { role, blocks: [{ kind: "result", id: item.call_id, inner: blocksOf(item.output, `${pointer}/output`), pointer }] };
  }
  if (item.type === "reasoning") {
    const texts = [...(Array.isArray(item.summary) ? item.summary : []), ...(Array.isArray(item.content) ? item.content : [])];
    const blocks = texts.filter((part) => typeof part?.text === "string").map((part) => ({ kind: "thinking", text: part.text, pointer }));
    return { role, blocks: blocks.length ? blocks : [{ kind: "other", name: "reasoning, not readable", value: item, pointer }] };
  }
  if (item.content !== undefined) return { role, blocks: blocksOf(item.content, `${pointer}/content`) };
  return { role, blocks: [{ kind: "other", name: item.type, value: item, pointer }] };
};

const messageOf = (protocol, message, pointer) => {
  if (!isObject(message)) return { role: "user", blocks: [blockOf(message, pointer)] };
  if (protocol === "openai-responses") return responsesItem(message, pointer);
  if (protocol === "openai-chat-completions") return chatMessage(message, pointer);
  return { role: message.role, blocks: blocksOf(message.content, `${pointer}/content`) };
};

// What came back, as messages.
const answerOf = (protocol, output) => {
  if (protocol === "anthropic-messages" && Array.isArray(output?.content)) {
    return [{ role: output.role ?? "assistant", blocks: blocksOf(output.content, "/content") }];
  }
  if (protocol === "openai-chat-completions" && Array.isArray(output?.choices)) {
    return output.choices.map((choice, place) => chatMessage({ role: "assistant", ...choice?.message }, `/choices/${place}/message`));
  }
  if (protocol === "openai-responses" && Array.isArray(output?.output)) {
    return output.output.map((item, place) => (isObject(item) ? responsesItem(item, `/output/${place}`) : { role: "assistant", blocks: [blockOf(item, `/output/${place}`)] }));
  }
  return [{ role: "response", blocks: [{ kind: "other", value: output, pointer: "" }] }];
};

const ROLES = ["system", "developer", "user", "assistant", "tool"];

const roleOf = (message) => {
  const onlyResults = message.blocks.length > 0 && message.blocks.every((block) => block.kind === "result");
  return onlyResults ? "tool" : message.role;
};

const blockLead = (block) => {
  if (block.kind === "text" || block.kind === "thinking") return block.text;
  if (block.kind === "use") return `${block.name ?? "tool"} ${typeof block.value === "string" ? block.value : JSON.stringify(block.value ?? null)}`;
  if (block.kind === "result") return block.inner.map(blockLead).join(" ");
  return block.name ?? "";
};

const leadOf = (message) => shown(message.blocks.map((block) => blockLead(block).slice(0, 300)).join("  ").replace(/\s+/g, " ").trim().slice(0, 160));

// `marks` are (pointer, element) of what is proven about parts of the conversation: a child's result, a spawn.
const blockView = (block, marks) => {
  const node = el("div", `block kind-${block.kind}`);
  node.dataset.pointer = block.pointer;
  if (block.id) node.dataset.tool = block.id;
  const chips = marks(block);
  if (block.kind === "text") append(node, [chips, longText(block.text)]);
  else if (block.kind === "thinking") append(node, [el("div", "block-head", "thinking"), chips, longText(block.text)]);
  else if (block.kind === "use") {
    append(node, [el("div", "block-head", el("span", "tool-name", shown(block.name ?? "tool")), el("span", "id", shown(block.id ?? "")), chips), jsonView(block.value ?? null, 2)]);
  } else if (block.kind === "result") {
    const word = block.failed ? el("span", "bad", "failed") : null;
    append(node, [el("div", "block-head", "result", word, el("span", "id", shown(block.id ?? "")), chips), block.inner.map((inner) => blockView(inner, () => null))]);
  } else {
    append(node, [block.name ? el("div", "block-head", shown(block.name)) : null, chips, jsonView(block.value ?? null, 2)]);
  }
  return node;
};

const messageBody = (message, marks) =>
  message.blocks.length ? message.blocks.map((block) => blockView(block, marks)) : [el("div", "faint", "empty")];

const roleBadge = (role) => el("span", `role ${ROLES.includes(role) ? role : "other"}`, shown(role ?? "message"));
