// The command's server, a browser, and pages that must stay silent and at home.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

/** Starts server and browser for the tests of one file, and stops them after the last. */
export function inspector() {
  const own = {};
  before(async () => {
    own.server = spawn(process.env.WATERTIGHT, ["inspect", "--no-open"], { stdio: ["ignore", "pipe", "inherit"] });
    for await (const line of createInterface({ input: own.server.stdout })) {
      own.url = line;
      break;
    }
    assert.match(own.url, /^http:\/\/127\.0\.0\.1:\d+\/$/);
    own.browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
  });
  after(async () => {
    await own.browser?.close();
    own.server?.kill("SIGINT");
  });
  return own;
}

/** Runs `test` on a fresh page; fails if the page logs an error or asks any other origin. */
export async function onPage(own, options, test) {
  const { hash = "", prepare, mayFail, ...context } = options;
  const opened = await own.browser.newContext({ viewport: DESKTOP, reducedMotion: "reduce", ...context });
  const page = await opened.newPage();
  const [said, asked] = [[], []];
  page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("request", (request) => asked.push(request.url()));
  try {
    await prepare?.(page);
    await page.goto(own.url + hash);
    await page.waitForSelector("#lives table, #error:not([hidden])");
    await test(page);
  } finally {
    await opened.close();
  }
  const strange = asked.filter((url) => !url.startsWith(own.url) && !url.startsWith("blob:" + own.url.slice(0, -1)));
  assert.deepEqual(strange, [], "requests to another origin");
  if (!mayFail) assert.deepEqual(said, [], "the console");
  assert.ok(asked.length > 0);
}

/** What `watertight inspect --json` says of a scenario. */
export function outcome(scenario) {
  const input = JSON.stringify(scenario);
  return JSON.parse(execFileSync(process.env.WATERTIGHT, ["inspect", "--scenario", "-", "--json"], { input, maxBuffer: 1 << 24 }));
}

/** Waits until `look` gives `expected`, and says how they differ if it never does. */
export async function until(look, expected) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    try {
      return assert.deepEqual(await look(), expected);
    } catch (difference) {
      if (Date.now() > deadline) throw difference;
      await new Promise((wake) => setTimeout(wake, 20));
    }
  }
}

/** Sets a number as a person does who types it. */
export async function type(page, field, value) {
  await page.fill(`input[name="${field}"]`, String(value));
}

export const tickOf = (page) => page.inputValue("#tick").then(Number);

export const completed = (page) =>
  page.locator("#holds .score .count").allInnerTexts().then((texts) => texts.map((text) => text.replace(" completed", "")));
