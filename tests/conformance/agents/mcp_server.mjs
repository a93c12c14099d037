// An MCP server on stdin and stdout with one tool, which appends its argument to a file as a line of JSON.
//
// Usage: node mcp_server.mjs FILE
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [file] = process.argv.slice(2);
const TOOL = {
  name: "record",
  description: "Appends a note to the log of the project, „wörtlich“.",
  inputSchema: {
    type: "object",
    properties: { text: { type: "string", description: "The note; any text." }, tags: { type: "array", items: { type: "string" } } },
    required: ["text"],
  },
};

function result({ method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: params.protocolVersion, capabilities: { tools: {} },
        serverInfo: { name: "notes", version: "1.0.0" },
        instructions: "The notes server keeps the log of the project.",
      };
    case "ping":
      return {};
    case "tools/list":
      return { tools: [TOOL] };
    case "tools/call":
      if (params.name !== TOOL.name) return undefined;
      appendFileSync(file, `${JSON.stringify(params.arguments)}\n`);
      return { content: [{ type: "text", text: `recorded ${params.arguments.text.length} letters` }] };
  }
  return undefined;
}

createInterface({ input: process.stdin }).on("line", (line) => {
  if (!line.trim()) return;
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  const value = result(message);
  const answer = value ? { result: value } : { error: { code: -32601, message: `no ${message.method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, ...answer })}\n`);
});
