// Playback: by button, by key, by slider, on a clock that the test moves.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspector, onPage, tickOf, until } from "./harness.js";

const own = inspector();
const TICK_MS = 3000;

/** Runs `test` on a page whose clock stands still but for `run`, at tick 0. */
const onClock = (test) => onPage(own, { hash: "#tick=0", prepare: (page) => page.clock.install() }, async (page) => {
  await page.clock.pauseAt(Date.now() + 3_600_000);
  await test(page, (ms) => page.clock.runFor(ms));
});

const playing = async (page) => (await page.locator("#play").textContent()).trim() === "Pause";

test("it plays 20 ticks in a minute, then stops; again from the start", () => onClock(async (page, run) => {
  await page.click("#play");
  assert.ok(await playing(page));
  await run(TICK_MS - 1);
  assert.equal(await tickOf(page), 0);
  await run(1);
  assert.equal(await tickOf(page), 1);
  await run(18 * TICK_MS);
  assert.deepEqual([await tickOf(page), await playing(page)], [19, true]);
  await run(TICK_MS);
  assert.deepEqual([await tickOf(page), await playing(page)], [20, false]);
  await run(10 * TICK_MS);
  assert.equal(await tickOf(page), 20);
  await page.click("#play");
  assert.deepEqual([await tickOf(page), await playing(page)], [0, true]);
}));

test("it pauses where it is", () => onClock(async (page, run) => {
  await page.click("#play");
  await run(2 * TICK_MS);
  await page.click("#play");
  await run(5 * TICK_MS);
  assert.deepEqual([await tickOf(page), await playing(page)], [2, false]);
}));

test("at half speed a tick takes twice as long", () => onClock(async (page, run) => {
  const half = page.getByRole("button", { name: "½ speed" });
  await half.click();
  assert.equal(await half.getAttribute("aria-pressed"), "true");
  await page.click("#play");
  await run(2 * TICK_MS - 1);
  assert.equal(await tickOf(page), 0);
  await run(1);
  assert.equal(await tickOf(page), 1);
  await half.click();
  await run(TICK_MS);
  assert.equal(await tickOf(page), 2);
}));

test("next, previous and restart go where they say", () => onClock(async (page, run) => {
  await page.click("#previous");
  assert.equal(await tickOf(page), 0);
  await page.click("#next");
  await page.click("#next");
  await page.click("#previous");
  assert.equal(await tickOf(page), 1);
  await page.click("#play");
  await run(3 * TICK_MS);
  await page.click("#restart");
  assert.deepEqual([await tickOf(page), await playing(page)], [0, true]);
  await run(TICK_MS);
  assert.equal(await tickOf(page), 1);
  await page.click("#next");
  assert.deepEqual([await tickOf(page), await playing(page)], [2, false]);
  await page.fill("#tick", "20");
  await page.click("#next");
  assert.equal(await tickOf(page), 20);
}));

test("keys do the same, outside of inputs", () => onClock(async (page, run) => {
  await page.locator("#holds").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await tickOf(page), 1);
  await page.keyboard.press("End");
  assert.equal(await tickOf(page), 20);
  await page.keyboard.press("Home");
  assert.equal(await tickOf(page), 0);
  await page.keyboard.press("Space");
  await run(TICK_MS);
  assert.deepEqual([await tickOf(page), await playing(page)], [1, true]);
  await page.keyboard.press("Space");
  assert.ok(!(await playing(page)));

  await page.locator("[name=slots]").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Space");
  assert.deepEqual([await tickOf(page), await playing(page)], [1, false]);
  await page.locator("#tick").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await tickOf(page), 2);
}));

test("at each tick holds, sums and the readout change together", () => onClock(async (page) => {
  for (const tick of [0, 4, 11, 20]) {
    await page.fill("#tick", String(tick));
    assert.equal(await page.textContent("#clock"), `tick ${tick} of 20`);
    assert.equal(await page.locator("#sums .now .group").first().textContent(), `At tick ${tick}`);
    assert.match(await page.locator("#holds .state").first().textContent(), new RegExp(`^Tick ${tick}: `));
  }
}));

test("a change of inputs keeps the tick, and another experiment brings its own", () => onClock(async (page) => {
  await page.fill("#tick", "13");
  await page.fill("[name=arrivals_a]", "2");
  await until(() => page.textContent("#look"), "Your own experiment. What you set counts at once; nothing plays by itself.");
  assert.equal(await tickOf(page), 13);
  await page.getByRole("button", { name: "Idle slots on loan" }).click();
  await until(() => tickOf(page), 4);
}));
