// The chat page in a headless Chromium, against the scripted model: the text between [[ and ]] is the answer.
//
// Usage: node page.mjs PATH_OF_SCRIPTED_SERVER PATH_OF_CHROMIUM, in a directory whose node_modules has puppeteer-core.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

// a template whose </think> shows that the model reasons
const TEMPLATE = "{# </think> #}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}" +
  "{% endfor %}{{ '<|im_start|>assistant\\n' }}";
const TEXT = "Grüße <b>aus</b> 北京 🚀";

async function ask(page, text) {
  const before = (await page.$$("article.assistant")).length;
  await page.type("#text", text);
  await page.keyboard.press("Enter");
  await page.waitForFunction((count) => document.querySelectorAll("article.assistant").length > count, {}, before);
}

async function finished(page) {
  await page.waitForFunction(() => document.getElementById("send").textContent === "Send");
  return page.$$eval("article.assistant", (all) => {
    const [details, body, info] = all.at(-1).children;
    const thoughts = details.querySelector("div").textContent;
    return { folded: !details.open, hidden: details.hidden, thoughts, text: body.textContent, info: info.textContent };
  });
}

async function check(page, url) {
  const strangers = [];
  const faults = [];
  const asked = [];
  page.on("request", (request) => {
    if (request.method() === "POST") asked.push({ headers: request.headers(), ...JSON.parse(request.postData()) });
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) strangers.push(request.url());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  await page.goto(url, { waitUntil: "networkidle0" });
  assert.deepEqual(await page.$$eval("#model option", (all) => all.map((option) => option.value)), ["scripted"]);
  // an answer streams in, markup stays text, and the figures come at the end
  await ask(page, `[[${TEXT}]]`);
  let answer = await finished(page);
  assert.equal(answer.text, TEXT);
  assert.equal(await page.$("article b"), null);
  assert.match(answer.info, /\d+ tokens, [\d.]+ tokens\/s/);
  assert.ok(answer.hidden);
  // reasoning is folded away
  await ask(page, "[[<think>let me see</think>Yes.]]");
  answer = await finished(page);
  assert.deepEqual([answer.text, answer.thoughts, answer.folded, answer.hidden], ["Yes.", "let me see", true, false]);
  // a long answer can be stopped, and the next question is answered
  await ask(page, `[[${"long ".repeat(1200)}]]`);
  await page.waitForFunction(() => [...document.querySelectorAll("article.assistant")].at(-1).children[1].textContent);
  await page.click("#send");
  answer = await finished(page);
  assert.ok(answer.info === "stopped" && answer.text.length < 6000, answer.info);
  await ask(page, "[[fine]]");
  assert.equal((await finished(page)).text, "fine");
  // a fault of the model is shown
  await ask(page, "[[ab{NaN}]]");
  await page.waitForSelector("article.error");
  await page.click("#clear");
  assert.equal((await page.$$("article")).length, 0);
  await checkConversations(page, asked);
  await checkHands(page);
  assert.deepEqual([strangers, faults], [[], []]);
}

// what the server is told: neither what failed nor what was begun in another chat
async function checkConversations(page, asked) {
  await page.type("#key", "secret");
  await ask(page, "[[{NaN}]]");
  await finished(page);
  assert.equal(await page.$eval("#text", (text) => text.value), "[[{NaN}]]");
  await page.$eval("#text", (text) => { text.value = ""; });
  await ask(page, `[[${"long ".repeat(1200)}]]`);
  await page.waitForFunction(() => [...document.querySelectorAll("article.assistant")].at(-1).children[1].textContent);
  assert.equal(asked.at(-1).headers.authorization, "Bearer secret");
  assert.equal(asked.at(-1).messages.length, 1);
  await page.click("#clear");
  await ask(page, "[[one]]");
  assert.equal((await finished(page)).text, "one");
  await ask(page, "[[two]]");
  assert.equal((await finished(page)).text, "two");
  assert.deepEqual(asked.at(-1).messages, [
    { role: "user", content: "[[one]]" }, { role: "assistant", content: "one" }, { role: "user", content: "[[two]]" },
  ]);
}

// on a narrow screen, and without a mouse
async function checkHands(page) {
  await page.setViewport({ width: 320, height: 500 });
  const wide = () => [...document.querySelectorAll("*")].filter((part) => part.getBoundingClientRect().right > innerWidth);
  assert.equal(await page.evaluate(`(${wide})().length`), 0);
  await page.focus("#text");
  await page.keyboard.down("Shift");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Shift");
  assert.equal(await page.$eval("#text", (text) => text.value), "\n");
  await page.keyboard.press("Backspace");
  await ask(page, `[[<think>${"long ".repeat(1200)}</think>]]`);
  await page.waitForFunction(() => document.querySelector("article:last-child details div").textContent);
  assert.equal(await page.$eval("article:last-child", (article) => article.ariaBusy), "true");
  await page.keyboard.press("Escape");
  assert.equal((await finished(page)).info, "stopped");
  assert.equal(await page.$eval("article:last-child", (article) => article.ariaBusy), "false");
}

const folder = mkdtempSync(join(tmpdir(), "page-"));
writeFileSync(join(folder, "template"), TEMPLATE);
const env = { ...process.env, DOORBELL_SCRIPT_PAUSE_US: "2000" };
const server = spawn(process.argv[2], [join(folder, "template")], { stdio: ["pipe", "pipe", "inherit"], env });
const browser = await puppeteer.launch({ executablePath: process.argv[3], args: ["--no-sandbox", "--disable-gpu"] });
try {
  const [line] = await once(server.stdout, "data");
  await check(await browser.newPage(), `http://${String(line).trim()}`);
  console.log("ok  page");
} finally {
  await browser.close();
  server.stdin.end();
  await once(server, "exit");
  rmSync(folder, { recursive: true });
}
