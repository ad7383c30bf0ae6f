// From an input to the picture on the screen.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspector, onPage } from "./harness.js";

const own = inspector();
const INPUTS = 21;
// A build without optimisation, and a machine that others use, are given more.
const FENCE_MS = process.env.WATERTIGHT.includes("/release/") ? 50 : 500;

/** Types a number of slots, and waits until so many are drawn and a frame has been painted. */
const times = (page) => page.evaluate(async (inputs) => {
  const field = document.querySelector('input[name="slots"]');
  const drawn = () => document.querySelectorAll("#holds article:first-of-type .hull li").length;
  const redrawn = (slots) => new Promise((wake) => {
    const look = () => drawn() === slots && (observer.disconnect(), wake());
    const observer = new MutationObserver(look);
    observer.observe(document.getElementById("holds"), { childList: true, subtree: true });
  });
  const frame = () => new Promise((wake) => requestAnimationFrame(() => setTimeout(wake)));
  const took = [];
  for (let at = 0; at < inputs; at += 1) {
    const slots = 5 + (at % 2);
    const begin = performance.now();
    const seen = redrawn(slots);
    field.value = slots;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await seen;
    await frame();
    took.push(performance.now() - begin);
  }
  return took.sort((a, b) => a - b);
}, INPUTS);

test("an input is on the screen before anybody notices", () => onPage(own, {}, async (page) => {
  const took = await times(page);
  console.log(`input to screen: median ${took[INPUTS >> 1].toFixed(1)} ms, worst ${took.at(-1).toFixed(1)} ms`);
  assert.ok(took[INPUTS >> 1] < FENCE_MS, JSON.stringify(took));
}));
