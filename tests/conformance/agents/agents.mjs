// Unmodified coding agents against the scripted model: each reads a file, edits it, runs a command, calls a tool of an
// MCP server and finishes. Looked at are the files, the command's effect, the MCP server's log, the status of every
// request, and that every text of every request is in a prompt.
//
// Usage: node agents.mjs SCRIPTED_SERVER DIRECTORY [AGENT...], where DIRECTORY/node_modules has the agents. Each has a home
// of its own in a temporary folder, none of this environment's variables, a proxy that refuses all connections, and a time
// limit. With DOORBELL_KEEP the folder of an agent is kept, and its requests if it fails.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { AGENTS } from "./definitions.mjs";
import { gateway, refusing } from "./gateway.mjs";
import { missing, textsOf } from "./texts.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const LIMIT_MS = 120_000;
const BEFORE = "Hello, wrold!\nGrüße aus Köln & \"Umgebung\"\n";
const AFTER = BEFORE.replace("wrold", "world");
const NOTE = "fixed a typo: \"wrold\" → 'world'\n\t100 % <b>done</b> \\ 北京";
const FINAL = "Everything is done, Köln greets the world.";

// The text of a call in the notation of a template.
const NOTATIONS = {
  objects: (name, input) => `<tool_call>\n${JSON.stringify({ name, arguments: input })}\n</tool_call>`,
  tags: (name, input) => {
    const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    const parameters = Object.entries(input).map(([key, value]) => `<parameter=${key}>\n${text(value)}\n</parameter>\n`);
    return `<tool_call>\n<function=${name}>\n${parameters.join("")}</function>\n</tool_call>`;
  },
};

// Runs a program until it ends; after the limit it is killed with its process group. Returns its exit status.
async function run(program, args, options, log) {
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const output = createWriteStream(log);
  child.stdout.pipe(output, { end: false });
  child.stderr.pipe(output, { end: false });
  let late = false;
  const kill = () => { try { process.kill(-child.pid, "SIGKILL"); } catch { /* it has ended */ } };
  const timer = setTimeout(() => { late = true; kill(); }, LIMIT_MS);
  const [code, signal] = await once(child, "close");
  clearTimeout(timer);
  kill();
  output.end();
  await once(output, "finish");
  return late ? "the time limit" : code ?? signal;
}

// A scripted server that gives these answers, and its port.
async function scripted(program, folder, template, answers) {
  const [turns, prompts] = [join(folder, "turns.json"), join(folder, "prompts")];
  writeFileSync(turns, JSON.stringify(answers));
  const server = spawn(program, [join(HERE, `${template}.jinja`), turns, prompts], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = await once(server.stdout, "data");
  const end = async () => {
    server.stdin.end();
    await once(server, "exit");
    return readFileSync(prompts, "utf8").split("\n").filter((text) => text).map((text) => JSON.parse(text));
  };
  return { port: Number(String(line).trim().split(":").at(-1)), end };
}

function check(agent, records, prompts, project, note) {
  const failed = records.filter(({ status }) => status === 0 || status >= 400);
  const told = failed.map(({ method, path, status, answer }) => `${method} ${path}: ${status} ${answer.slice(0, 500)}`);
  assert.deepEqual(told, [], "a request failed");
  const asked = records.filter(({ method, path }) => method === "POST" && path.startsWith(agent.path));
  assert.ok(asked.length >= 5, `five turns: ${asked.length} requests`);
  for (const { body } of asked) {
    const texts = textsOf(JSON.parse(body));
    const lost = prompts.map((prompt) => missing(texts, prompt)).sort((a, b) => a.length - b.length)[0] ?? texts;
    assert.deepEqual(lost, [], "texts of a request are in no prompt");
  }
  assert.equal(readFileSync(join(project, "greeting.txt"), "utf8"), AFTER, "the file is edited");
  assert.equal(readFileSync(join(project, "loud.txt"), "utf8"), AFTER.replace(/[a-z]/g, (c) => c.toUpperCase()), "the command ran");
  const notes = readFileSync(note, "utf8").split("\n").filter((line) => line).map((line) => JSON.parse(line));
  assert.deepEqual(notes, [{ text: NOTE, tags: ["a", "ü"] }], "the tool of the MCP server was called once");
}

async function perform(agent, program, directory) {
  const folder = mkdtempSync(join(tmpdir(), "doorbell-agent-"));
  const [home, project, note] = [join(folder, "home"), join(folder, "project"), join(folder, "notes")];
  [home, project].forEach((path) => mkdirSync(path));
  writeFileSync(join(project, "greeting.txt"), BEFORE);
  const task = { file: join(project, "greeting.txt"), before: BEFORE, note: { text: NOTE, tags: ["a", "ü"] },
    command: "tr a-z A-Z < greeting.txt > loud.txt && wc -l loud.txt" };
  const calls = agent.calls(task).map(([name, input]) => NOTATIONS[agent.template](name, input));
  const answers = [...calls.map((call, at) => (at % 2 ? call : `I go on with step ${at + 1}.\n${call}`)), FINAL];
  const [records, targets] = [[], []];
  const server = await scripted(program, folder, agent.template, answers);
  const front = await gateway(server.port, records);
  const proxy = await refusing(targets);
  const url = `http://127.0.0.1:${front.port}`;
  const outside = `http://127.0.0.1:${proxy.port}`;
  const mcp = { command: process.execPath, args: [join(HERE, "mcp_server.mjs"), note] };
  const setting = agent.prepare({ home, project, url, mcp });
  const env = {
    PATH: [dirname(process.execPath), "/usr/local/bin", "/usr/bin", "/bin"].join(delimiter), HOME: home, LANG: "C.UTF-8", TERM: "dumb",
    SHELL: "/bin/bash", TMPDIR: folder, XDG_CONFIG_HOME: join(home, ".config"), XDG_DATA_HOME: join(home, ".local/share"),
    HTTP_PROXY: outside, HTTPS_PROXY: outside, http_proxy: outside, https_proxy: outside,
    NO_PROXY: "127.0.0.1,localhost", no_proxy: "127.0.0.1,localhost", ...setting.env,
  };
  const log = join(folder, "output");
  const begin = Date.now();
  let prompts = [];
  try {
    const installed = join(directory, "node_modules", agent.program);
    const [file, ...script] = installed.endsWith(".cjs") ? [process.execPath, installed] : [installed];
    const status = await run(file, [...script, ...setting.args], { cwd: project, env }, log);
    front.close();
    proxy.close();
    prompts = await server.end();
    assert.equal(status, 0, "the agent ends with status 0");
    assert.ok(readFileSync(log, "utf8").includes(FINAL), "the agent says the final text");
    check(agent, records, prompts, project, note);
    const others = targets.filter((target) => !(agent.refused ?? []).includes(target));
    assert.deepEqual([...new Set(others)], [], "the agent talks to nobody else");
  } catch (error) {
    if (process.env.DOORBELL_KEEP) {
      writeFileSync(join(folder, "records.json"), JSON.stringify(records, null, 1));
      console.log(`kept: ${folder}`);
    }
    console.log(existsSync(log) ? readFileSync(log, "utf8").slice(-4000) : "no output");
    throw error;
  } finally {
    if (!process.env.DOORBELL_KEEP) rmSync(folder, { recursive: true, force: true });
  }
  const seconds = Math.round((Date.now() - begin) / 1000);
  console.log(`ok  ${agent.name}: ${records.length} requests, ${prompts.length} prompts, ${seconds} s`);
}

const [program, directory, ...names] = process.argv.slice(2);
for (const agent of AGENTS) {
  if (names.length === 0 || names.includes(agent.name)) await perform(agent, resolve(program), resolve(directory));
}
