// Node clients against the scripted model: the text between [[ and ]] is the answer.
//
// Usage: node clients.mjs PATH_OF_SCRIPTED_SERVER, in a directory whose node_modules has the clients.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>';
const PARAMETERS = {
  type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false,
};
const TOOLS = [{ type: "function", function: { name: "weather", parameters: PARAMETERS } }];
const TEXT = "Grüße aus 北京 🚀";
const FORECAST = z.object({ days: z.array(z.object({ name: z.string(), degrees: z.number().nullable() })) });
const DAYS = { days: [{ name: "Köln", degrees: 21.5 }, { name: "x", degrees: null }] };
const WANTED = `[[${JSON.stringify(DAYS)}]]`;
const weather = ({ city }) => `[[sunny in ${city}]]`;
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
  const forecast = zodResponseFormat(FORECAST, "forecast");
  const parsed = await client.chat.completions.parse({ ...common, messages: user(WANTED), response_format: forecast });
  assert.deepEqual(parsed.choices[0].message.parsed, DAYS);
  const run = client.chat.completions.runTools({
    ...common, stream: true, messages: user(`[[${CALL}]]`),
    tools: [{ type: "function", function: { name: "weather", parse: JSON.parse, function: weather, parameters: PARAMETERS } }],
  });
  assert.equal(await run.finalContent(), "sunny in Köln");
  const completion = await client.completions.create({ ...common, prompt: `[[${TEXT}]]`, max_tokens: 99, stream: true });
  let text = "";
  for await (const chunk of completion) text += chunk.choices[0].text;
  assert.equal(text, TEXT);
  // the client asks for base64 and decodes it
  const { data } = await client.embeddings.create({ model: "scripted", input: ["ab", "c"] });
  assert.ok(data.length === 2 && Math.abs(data[0].embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
  const response = await client.responses.create({ ...common, input: `[[${TEXT}]]` });
  assert.equal(response.output_text, TEXT);
  const events = client.responses.stream({ ...common, input: `[[${TEXT}]]` });
  assert.equal((await events.finalResponse()).output_text, TEXT);
  const typed = { ...common, input: WANTED, text: { format: zodTextFormat(FORECAST, "forecast") } };
  assert.deepEqual((await client.responses.parse(typed)).output_parsed, DAYS);
  await assert.rejects(client.chat.completions.create({ ...common, messages: [] }), OpenAI.BadRequestError);
}

async function aiSdk(url) {
  const options = { name: "doorbell", baseURL: `${url}/v1`, includeUsage: true, supportsStructuredOutputs: true };
  const provider = createOpenAICompatible(options);
  const model = provider("scripted");
  const answer = await generateText({ model, prompt: `[[${TEXT}]]`, temperature: 0 });
  assert.equal(answer.text, TEXT);
  const stream = streamText({ model, prompt: `[[${TEXT}]]`, temperature: 0 });
  let text = "";
  for await (const part of stream.textStream) text += part;
  assert.equal(text, TEXT);
  assert.equal((await stream.usage).outputTokens, Buffer.byteLength(TEXT));
  const tools = { weather: tool({ description: "The weather", inputSchema: jsonSchema(PARAMETERS), execute: weather }) };
  const loop = streamText({ model, prompt: `[[${CALL}]]`, temperature: 0, tools, stopWhen: stepCountIs(3) });
  assert.equal(await loop.text, "sunny in Köln");
  assert.deepEqual((await loop.steps)[0].toolCalls[0].input, { city: "Köln" });
  const { object } = await generateObject({ model, schema: FORECAST, prompt: WANTED, temperature: 0 });
  assert.deepEqual(object, DAYS);
  const embedded = await embedMany({ model: provider.textEmbeddingModel("scripted"), values: ["ab", "c"] });
  assert.equal(embedded.embeddings.length, 2);
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
