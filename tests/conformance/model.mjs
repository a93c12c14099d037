// The clients of Node against a real model: prints what each is told, as JSON, for model.py to compare.
//
// Usage: node model.mjs URL MODEL QUESTION TOKENS, in a directory whose node_modules has the clients.
import OpenAI from "openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const [url, name, question, tokens] = process.argv.slice(2);

async function openaiNode() {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
  const request = {
    model: name, temperature: 0, max_tokens: Number(tokens), messages: [{ role: "user", content: question }],
  };
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.stream(request).finalChatCompletion();
  return [whole, stream].map((answer) => answer.choices[0].message.content);
}

async function aiSdk() {
  const model = createOpenAICompatible({ name: "doorbell", baseURL: `${url}/v1` })(name);
  const request = { model, prompt: question, temperature: 0, maxOutputTokens: Number(tokens) };
  const whole = await generateText(request);
  let text = "";
  for await (const part of streamText(request).textStream) text += part;
  return [whole.text, text];
}

console.log(JSON.stringify({ "openai (Node)": await openaiNode(), "AI SDK": await aiSdk() }));
