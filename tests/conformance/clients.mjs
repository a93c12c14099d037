// Node clients against the scripted model: the text between [[ and ]] is the answer.
//
// Usage: node clients.mjs PATH_OF_SCRIPTED_SERVER, in a directory whose node_modules has the clients.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import OpenAI from "openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>';
const PARAMETERS = {
  type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false,
};
const TOOLS = [{ type: "function", function: { name: "weather", parameters: PARAMETERS } }];
const TEXT = "Grüße aus 北京 🚀";
const user = (content) => [{ role: "user", content }];

async function openaiNode(url) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
  const common = { model: "scripted", temperature: 0 };
  const answer = await client.chat.completions.create({ ...common, messages: user(`[[${TEXT}]]`) });
  assert.equal(answer.choices[0].message.content, TEXT);
  const stream = client.chat.completions.stream({ ...common, messages: user(`[[I ask.\n${CALL}]]`), tools: TOOLS });
  const { message } = (await stream.finalChatCompletion()).choices[0];
  assert.equal(message.content, "I ask.");
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Köln" });
  const response = await client.responses.create({ ...common, input: `[[${TEXT}]]` });
  assert.equal(response.output_text, TEXT);
  const events = client.responses.stream({ ...common, input: `[[${TEXT}]]` });
  assert.equal((await events.finalResponse()).output_text, TEXT);
  await assert.rejects(client.chat.completions.create({ ...common, messages: [] }), OpenAI.BadRequestError);
}

async function aiSdk(url) {
  const model = createOpenAICompatible({ name: "doorbell", baseURL: `${url}/v1`, includeUsage: true })("scripted");
  const answer = await generateText({ model, prompt: `[[${TEXT}]]`, temperature: 0 });
  assert.equal(answer.text, TEXT);
  const stream = streamText({ model, prompt: `[[${TEXT}]]`, temperature: 0 });
  let text = "";
  for await (const part of stream.textStream) text += part;
  assert.equal(text, TEXT);
  assert.equal((await stream.usage).outputTokens, Buffer.byteLength(TEXT));
  const tools = { weather: tool({ description: "The weather", inputSchema: jsonSchema(PARAMETERS) }) };
  const calls = await generateText({ model, prompt: `[[${CALL}]]`, temperature: 0, tools });
  assert.deepEqual(calls.toolCalls[0].input, { city: "Köln" });
}

const server = spawn(process.argv[2], { stdio: ["pipe", "pipe", "inherit"] });
try {
  const [line] = await once(server.stdout, "data");
  const url = `http://${String(line).trim()}`;
  for (const check of [openaiNode, aiSdk]) {
    await check(url);
    console.log(`ok  ${check.name}`);
  }
} finally {
  server.stdin.end();
  await once(server, "exit");
}
