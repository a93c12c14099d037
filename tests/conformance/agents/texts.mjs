// The texts of a recorded request that the prompt must contain.

// fields whose values are words of the protocol
const PROTOCOL = new Set([
  "type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status", "cache_control", "signature",
  "encrypted_content", "phase", "annotations", "logprobs", "internal_chat_message_metadata_passthrough",
]);

// arguments of calls come as JSON or as text of JSON; the template prints them in its own notation
function values(value, texts) {
  if (typeof value === "string") texts.push(value);
  else if (value && typeof value === "object") Object.values(value).forEach((inner) => values(inner, texts));
}

function gather(value, texts) {
  if (typeof value === "string") texts.push(value);
  else if (Array.isArray(value)) value.forEach((inner) => gather(inner, texts));
  else if (value && typeof value === "object") {
    for (const [name, inner] of Object.entries(value)) {
      if (name === "arguments" && typeof inner === "string") values(JSON.parse(inner || "{}"), texts);
      else if (name === "arguments" || (name === "input" && value.type === "tool_use")) values(inner, texts);
      else if (!PROTOCOL.has(name)) gather(inner, texts);
    }
  }
}

// Texts in schemas that say something to the model: names, descriptions, permitted words.
function schema(value, texts) {
  if (Array.isArray(value)) value.forEach((inner) => schema(inner, texts));
  else if (value && typeof value === "object") {
    for (const [name, inner] of Object.entries(value)) {
      if (typeof inner === "string" && ["name", "description", "const"].includes(name)) texts.push(inner);
      else if (name === "enum") values(inner, texts);
      else if (name === "properties") { texts.push(...Object.keys(inner)); schema(inner, texts); }
      else if (name !== "cache_control") schema(inner, texts);
    }
  }
}

// All texts of a request of one of the APIs.
export function textsOf(body) {
  const texts = [];
  for (const part of [body.system, body.instructions, body.messages, body.input]) gather(part, texts);
  schema(body.tools, texts);
  // Claude Code's first block is for the provider's bills, and differs with every request
  return texts.map((text) => text.trim()).filter((text) => text && !text.startsWith("x-anthropic-billing-header:"));
}

// The texts that a prompt doesn't contain, plainly or as a JSON string.
export function missing(texts, prompt) {
  return texts.filter((text) => !prompt.includes(text) && !prompt.includes(JSON.stringify(text).slice(1, -1)));
}
