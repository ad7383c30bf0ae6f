// What the page shows is what the command says, for every experiment and every input.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { completed, inspector, onPage, outcome, tickOf, type, until } from "./harness.js";

const own = inspector();
const fixtures = JSON.parse(await readFile(new URL("../../src/inspect/page/fixtures.json", import.meta.url)));
const WORDS = { completed: "completed", rejected: "turned away", timed_out: "timed out", waiting: "waits", running: "in a slot" };
const COUNTS = ["offered", "completed", "rejected", "timed_out", "waiting", "running"];

const cells = (table) => table.evaluate((of) =>
  [...of.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent.trim())));

/** The rows of the table of every call that an outcome calls for. */
const callRows = (of) => of.requests.map((request) => [
  request.tenant.toUpperCase() + " " + request.id, "", String(request.arrived), String(request.started ?? "–"),
  String(request.ended ?? "–"), request.slot === null ? "–" : request.slot + (request.borrowed ? " lent" : ""),
  WORDS[request.state],
]);

/** The last rows of the table of sums, likewise; the gate is a sign and a word. */
const sumRows = (of) => [["A", of.tenants.a], ["B", of.tenants.b], ["Both", of.all]].map(([who, tally]) => [
  who, ...COUNTS.map((field) => String(tally[field])), String(tally.p95 ?? "–"),
  tally.offered ? Math.round((100 * tally.completed) / tally.offered) + " %" : "–", tally.gate === "none" ? "nothing offered" : tally.gate,
]);

async function assertShown(page, scenarios) {
  for (const [at, scenario] of scenarios.entries()) {
    const expected = outcome(scenario);
    await until(() => cells(page.locator("#lives table").nth(at)), callRows(expected));
    await until(async () => {
      const rows = (await cells(page.locator("#sums table").nth(at))).slice(-3);
      return rows.map((row) => [...row.slice(0, -1), row.at(-1).replace(/^\S /, "")]);
    }, sumRows(expected));
  }
}

/** Both holds as they are drawn after each of `ticks`, which the page seeks with its slider. */
const holdsAt = (page, ticks) => page.evaluate((ticks) => ticks.map((tick) => {
  const slider = document.getElementById("tick");
  slider.value = tick;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  return [...document.querySelectorAll("#holds article")].map((ship) => ({
    slots: [...ship.querySelectorAll(".hull li")].map((slot) => slot.querySelector("b")?.textContent ?? "idle"),
    lent: [...ship.querySelectorAll(".hull li")].map((slot) => slot.textContent.includes("lent")),
    waiting: [...ship.querySelectorAll(".deck li")].map((queue) => [...queue.querySelectorAll("i")].map((chip) => Number(chip.textContent))),
  }));
}), ticks);

/** What `holdsAt` gives for one hold if it is drawn right. */
function drawn({ requests, ticks }, tick) {
  const { slots, waiting } = ticks[tick];
  const name = (id) => requests[id].tenant.toUpperCase() + " " + id;
  return {
    slots: slots.map((id) => (id === null ? "idle" : name(id))),
    lent: slots.map((id) => id !== null && requests[id].borrowed),
    waiting: [waiting.a.slice(0, 12), waiting.b.slice(0, 12)],
  };
}

test("the flooded hold and the wall are there without a click", () => onPage(own, {}, async (page) => {
  assert.deepEqual(await page.locator("#holds select").evaluateAll((all) => all.map((one) => one.value)), ["fifo", "strict"]);
  assert.deepEqual(await completed(page), ["2 of 6", "0 of 12", "6 of 6", "0 of 12"]);
  assert.equal(await page.locator("#holds article").first().locator("li.a .chamber").count(), 4);
  assert.equal(await page.locator("#play").innerText(), "Play");
}));

for (const { name, demand, left, right, tick } of fixtures) {
  test(`“${name}” shows what the command says, at every tick`, () => onPage(own, {}, async (page) => {
    await page.getByRole("button", { name }).click();
    await until(() => page.locator("#look b").count(), 1);
    await until(() => tickOf(page), tick);
    const scenarios = [left, right].map((policy) => ({ ...demand, policy }));
    await assertShown(page, scenarios);
    const outcomes = scenarios.map(outcome);
    const ticks = Array.from({ length: 21 }, (_, tick) => tick);
    const expected = ticks.map((tick) => outcomes.map((of) => drawn(of, tick)));
    assert.deepEqual(await holdsAt(page, ticks), expected);
  }));
}

test("each input changes the outcome at once, and nothing plays", () => onPage(own, {}, async (page) => {
  const demand = { ...fixtures[0].demand };
  const inputs = { slots: 9, reserved_a: 4, max_waiting: 3, arrivals_a: 5, timeout_a: 7, every_b: 1, hold_b: 4, timeout_b: 5, target_percent: 40 };
  const tick = await tickOf(page);
  for (const [field, value] of Object.entries(inputs)) {
    demand[field] = value;
    await type(page, field, value);
    await assertShown(page, ["fifo", "strict"].map((policy) => ({ ...demand, policy })));
  }
  await page.uncheck("#stall_a");
  await type(page, "hold_a", 2);
  await page.locator("#holds select").first().selectOption("borrow");
  await page.locator("#holds select").last().selectOption("round_robin");
  Object.assign(demand, { stall_a: false, hold_a: 2 });
  await assertShown(page, ["borrow", "round_robin"].map((policy) => ({ ...demand, policy })));
  assert.equal(await tickOf(page), tick);
  assert.equal(await page.locator("#play").innerText(), "Play");
  assert.match(await page.locator("#look").innerText(), /^Your own experiment/);
}));

test("the sliders are the same inputs", () => onPage(own, {}, async (page) => {
  await page.locator("[data-of=timeout_a]").fill("4");
  await until(() => completed(page), ["6 of 6", "0 of 12", "6 of 6", "0 of 12"]);
  assert.equal(await page.inputValue("[name=timeout_a]"), "4");
  assert.equal(await page.getByRole("button", { name: "A shorter time-out" }).getAttribute("aria-pressed"), "true");
}));

test("the home slots of A follow when the slots fall below them", () => onPage(own, {}, async (page) => {
  await type(page, "slots", 10);
  await type(page, "reserved_a", 8);
  await type(page, "slots", 5);
  await until(() => page.inputValue("[name=reserved_a]"), "4");
  assert.equal(await page.locator("[name=reserved_a]").getAttribute("max"), "4");
  await until(() => page.locator("#holds article").last().locator(".hull li").count(), 5);
  assert.ok(await page.locator("#error").isHidden());
}));

test("the largest scenario is shown, too", () => onPage(own, {}, async (page) => {
  const largest = { slots: 64, reserved_a: 32, arrivals_a: 64, every_b: 1, timeout_a: 20, timeout_b: 20, max_waiting: 64 };
  for (const [field, value] of Object.entries(largest)) await type(page, field, value);
  await assertShown(page, ["fifo", "strict"].map((policy) => ({ ...fixtures[0].demand, ...largest, policy })));
}));

test("a value out of range is said by name, value and range, and the last outcome stays", () => onPage(own, {}, async (page) => {
  await type(page, "slots", 65);
  await until(() => page.locator("#error").innerText(), "“Slots in all” (slots) must be a whole number from 1 to 64; it is 65.");
  assert.equal(await page.locator("[name=slots]").getAttribute("aria-invalid"), "true");
  assert.deepEqual(await completed(page), ["2 of 6", "0 of 12", "6 of 6", "0 of 12"]);
  await page.fill("[name=slots]", "");
  await until(() => page.locator("#error").innerText(), "“Slots in all” (slots) must be a whole number from 1 to 64; it is null.");
  await type(page, "slots", 4);
  await until(() => page.locator("#error").isHidden(), true);
}));

test("outcomes are saved as JSON and CSV", () => onPage(own, { acceptDownloads: true }, async (page) => {
  const expected = outcome({ ...fixtures[0].demand, policy: "strict" });
  const save = async (kind) => {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.locator("#lives .scroll").last().getByRole("button", { name: kind }).click(),
    ]);
    return [download.suggestedFilename(), await readFile(await download.path(), "utf8")];
  };
  const [jsonName, json] = await save("JSON");
  assert.deepEqual([jsonName, JSON.parse(json)], ["outcome-strict.json", expected]);
  const [csvName, csv] = await save("CSV");
  const [head, ...lines] = csv.trimEnd().split("\r\n");
  assert.deepEqual([csvName, head], ["outcome-strict.csv", "id,tenant,arrived,started,ended,slot,borrowed,state"]);
  assert.deepEqual(lines, expected.requests.map((request) => head.split(",").map((column) => request[column] ?? "").join(",")));
}));
