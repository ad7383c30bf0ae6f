// Draws outcomes. What happened is in them; nothing here decides anything.

import { POLICIES } from "/link.js";

const LAST_TICK = 20;
const WORDS = {
  completed: "completed", rejected: "turned away", timed_out: "timed out", waiting: "waits", running: "in a slot",
  open: "open",
};
const GATES = {
  none: ["–", "nothing offered"], pending: ["…", "pending"], pass: ["✓", "pass"], fail: ["✕", "fail"],
};
const SIDES = ["a", "b"];

const html = (strings, ...values) => String.raw({ raw: strings }, ...values);
const label = (request) => request.tenant.toUpperCase() + " " + request.id;

/** The place of one policy in the row of holds, with its select. */
export function frame(at, policy) {
  const article = document.createElement("article");
  article.className = "ship";
  const options = Object.entries(POLICIES).map(([value, { name }]) =>
    html`<option value="${value}"${value === policy ? " selected" : ""}>${name}</option>`);
  article.innerHTML = html`
    <h2 class="hidden">${POLICIES[policy].name}</h2>
    <label class="policy"><span>${at === 0 ? "Policy" : "Against"}</span>
      <select data-at="${at}">${options.join("")}</select></label>
    <p class="rule"></p>
    <div class="verdict"></div>
    <div class="sea">
      <ul class="deck"></ul>
      <div class="hull"></div>
    </div>
    <p class="state"></p>`;
  return article;
}

/** Fills a frame with an outcome; `hold` then draws its ticks. */
export function ship(article, { outcome }) {
  const { policy, slots, reserved_a } = outcome.scenario;
  article.querySelector("h2").textContent = POLICIES[policy].name;
  article.querySelector(".rule").textContent = POLICIES[policy].rule;
  article.querySelector(".verdict").innerHTML =
    ["b", "a"].map((side) => verdict(side, outcome.tenants[side])).join("");
  const walled = policy === "strict" || policy === "borrow";
  const homes = walled ? [["A’s home", 0, reserved_a], ["B’s home", reserved_a, slots]] : [["shared", 0, slots]];
  const hull = article.querySelector(".hull");
  hull.className = "hull " + policy;
  hull.dataset.size = slots <= 6 ? "large" : slots <= 16 ? "medium" : "small";
  hull.innerHTML = homes.filter(([, from, to]) => from < to).map(([name, from, to]) => home(name, from, to)).join("");
}

function verdict(side, tally) {
  const [sign, word] = GATES[tally.gate];
  const open = tally.waiting + tally.running;
  const parts = [["completed", tally.completed], ["timed_out", tally.timed_out], ["rejected", tally.rejected], ["open", open]];
  let from = 0;
  const bars = parts.map(([state, count]) => {
    const width = (100 * count) / Math.max(1, tally.offered);
    const bar = html`<rect class="${state} ${side}" x="${from}" width="${width}" height="10"/>`;
    from += width;
    return count ? bar : "";
  });
  const others = [["timed_out", tally.timed_out], ["rejected", tally.rejected], ["open", open]]
    .filter(([, count]) => count).map(([state, count]) => `${count} ${WORDS[state]}`);
  return html`<div class="score"><b class="who ${side}">${side.toUpperCase()}</b>
    <span class="count"><b>${tally.completed}</b> of ${tally.offered} completed</span>
    <span class="gate ${tally.gate}"><i aria-hidden="true">${sign}</i> <span class="hidden">gate:</span> ${word}</span>
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">${bars.join("")}</svg>
    <small>${["by tick " + LAST_TICK, ...others].join(", ")}</small></div>`;
}

function home(name, from, to) {
  const cells = Array.from({ length: to - from }, (_, at) =>
    html`<li data-slot="${from + at}"><span class="plate"></span><span class="chamber"></span></li>`);
  return html`<section class="home"><h3>${name}</h3><ol start="${from}">${cells.join("")}</ol></section>`;
}

/** Draws the hold as it is at `tick`; the answer in words. */
export function hold(article, { outcome }, tick) {
  const state = outcome.ticks[tick];
  const { requests, scenario } = outcome;
  const held = { a: 0, b: 0 };
  for (const cell of article.querySelectorAll(".hull li")) {
    const slot = Number(cell.dataset.slot);
    const request = requests[state.slots[slot]];
    if (request) held[request.tenant] += 1;
    drawSlot(cell, slot, request, scenario, tick);
  }
  article.querySelector(".deck").innerHTML = SIDES.map((side) => queue(side, state.waiting[side], requests, tick)).join("");
  article.querySelector(".sea").style.setProperty("--flooded", held.a / scenario.slots);
  const words = SIDES.map((side) =>
    html`${side.toUpperCase()} holds ${held[side]} of ${scenario.slots} slots, ${state.waiting[side].length} wait`);
  article.querySelector(".state").textContent = html`Tick ${tick}: ${words.join("; ")}.`;
  return html`${POLICIES[scenario.policy].name}: ${words.join("; ")}.`;
}

function drawSlot(cell, slot, request, scenario, tick) {
  cell.className = request ? request.tenant + (request.borrowed ? " lent" : "") : "idle";
  const limit = request ? scenario["timeout_" + request.tenant] : 1;
  const spent = request ? Math.min(1, (tick - request.arrived) / limit) : 0;
  cell.style.setProperty("--level", request ? 0.35 + 0.65 * spent : 0);
  const who = request
    ? html`<b>${label(request)}</b> <span>since ${request.started}</span>${request.borrowed ? " <em>lent</em>" : ""}`
    : "<span>idle</span>";
  cell.firstElementChild.innerHTML = html`<i>${slot}</i> ${who}`;
}

function queue(side, ids, requests, tick) {
  const shown = ids.slice(0, 12).map((id) =>
    html`<i title="since ${requests[id].arrived}, ${tick - requests[id].arrived} ticks">${id}</i>`);
  const more = ids.length > 12 ? "<span>…</span>" : "";
  return html`<li class="${side}"><b class="who ${side}">${side.toUpperCase()}</b>
    ${ids.length} waiting${ids.length ? ":" : ""} <span class="chips">${shown.join("")}${more}</span></li>`;
}

/** The sums at `tick` and at the end, as a table. */
export function sums({ outcome, tallies }, tick) {
  const rows = (of) => [["A", of.tenants.a], ["B", of.tenants.b], ["Both", of.all]].map(([who, tally]) => {
    const rate = tally.offered ? Math.round((100 * tally.completed) / tally.offered) + " %" : "–";
    const [sign, word] = GATES[tally.gate];
    const counts = ["offered", "completed", "rejected", "timed_out", "waiting", "running"].map((field) => html`<td>${tally[field]}</td>`);
    return html`<tr><th scope="row">${who}</th>${counts.join("")}<td>${tally.p95 ?? "–"}</td><td>${rate}</td>
      <td class="gate ${tally.gate}"><i aria-hidden="true">${sign}</i> ${word}</td></tr>`;
  });
  const { name } = POLICIES[outcome.scenario.policy];
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Outcomes, ${name}"><table>
    <caption>${name}</caption>
    <thead><tr><th scope="col"><span class="hidden">Tenant</span></th><th scope="col">offered</th><th scope="col">completed</th>
      <th scope="col">turned away</th><th scope="col">timed out</th><th scope="col">waiting</th><th scope="col">in a slot</th>
      <th scope="col">p95</th><th scope="col">rate</th><th scope="col" class="start">gate</th></tr></thead>
    <tbody class="now"><tr class="group"><th colspan="10" scope="rowgroup">At tick ${tick}</th></tr>${rows(tallies[tick]).join("")}</tbody>
    <tbody class="end"><tr class="group"><th colspan="10" scope="rowgroup">After all ${LAST_TICK} ticks</th></tr>${rows(outcome).join("")}</tbody>
  </table></div>`;
}

/** Every request as a row, its life as a bar. */
export function lives({ outcome }) {
  const { name } = POLICIES[outcome.scenario.policy];
  return html`<div class="scroll tall" tabindex="0" role="region" aria-label="Every call, ${name}"><table class="lives">
    <caption>${name} <span class="save"><button type="button" data-save="json">JSON</button>
      <button type="button" data-save="csv">CSV</button></span></caption>
    <thead><tr><th scope="col" class="start">call</th><th scope="col" class="life">tick 0 to ${LAST_TICK}</th><th scope="col">arrived</th><th scope="col">started</th><th scope="col">ended</th>
      <th scope="col">slot</th><th scope="col" class="start">state</th></tr></thead>
    <tbody>${outcome.requests.map(row).join("")}</tbody></table></div>`;
}

function row(request) {
  const slot = request.slot === null ? "–" : request.borrowed ? request.slot + " <em>lent</em>" : request.slot;
  return html`<tr class="${request.tenant} ${request.state}"><th scope="row">${label(request)}</th>
    <td class="life">${life(request)}</td><td>${request.arrived}</td>
    <td>${request.started ?? "–"}</td><td>${request.ended ?? "–"}</td><td>${slot}</td><td class="start">${WORDS[request.state]}</td></tr>`;
}

function life({ tenant, arrived, started, ended, state, borrowed }) {
  const x = (tick) => 4 + tick * 10;
  const last = x(ended ?? LAST_TICK);
  const wait = (started ?? ended ?? LAST_TICK) > arrived ? html`<path class="wait" d="M${x(arrived)} 7H${x(started ?? ended ?? LAST_TICK)}"/>` : "";
  const run = started === null ? "" : html`<rect class="run ${tenant}${borrowed ? " lent" : ""}" x="${x(started)}" y="2.5" width="${Math.max(1, last - x(started))}" height="9"/>`;
  const marks = {
    completed: html`M${last + 1} 7l2.5 3 4-6`, rejected: html`M${last} 4l6 6m0-6l-6 6`,
    timed_out: html`M${last + 2} 2.5v9m3-9v9`,
  };
  const mark = marks[state]
    ? html`<path class="mark ${state}" d="${marks[state]}"/>`
    : html`<path class="mark open" d="M${last + 1} 4l4 3-4 3"/>`;
  return html`<svg viewBox="0 0 216 14" aria-hidden="true">${wait}${run}${mark}</svg>`;
}

/** The requests as CSV, with the columns of the JSON. */
export function csv({ outcome }) {
  const columns = ["id", "tenant", "arrived", "started", "ended", "slot", "borrowed", "state"];
  const lines = outcome.requests.map((request) => columns.map((column) => request[column] ?? "").join(","));
  return [columns.join(","), ...lines].join("\r\n") + "\r\n";
}
