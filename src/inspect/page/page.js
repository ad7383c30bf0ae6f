// The page's state, its inputs and its playback.

import { csv, frame, hold, lives, ship, sums } from "/draw.js";
import { fromHash, POLICIES, scenario, toHash } from "/link.js";

const LAST_TICK = 20;
const TICK_MS = 60_000 / LAST_TICK;
const find = (id) => document.getElementById(id);

const fixtures = await (await fetch("/fixtures.json")).json();
let experiment = ofFixture(fixtures[0]);
let answers = [];
let speed = 1;
let timer = null;

function ofFixture({ demand, left, right, tick }) {
  return { demand: { ...demand }, policies: [left, right], tick };
}

// ---- Asking the simulator: one question at a time, the latest inputs next.

let asking = false;
let stale = false;

async function recompute() {
  stale = true;
  if (asking) return;
  asking = true;
  try {
    while (stale) {
      stale = false;
      const asked = experiment.policies.map((policy) => scenario(experiment.demand, policy));
      const response = await fetch("/simulate", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked),
      });
      if (!response.ok) throw new Error(await response.text());
      if (!stale) show(await response.json());
    }
  } catch (error) {
    tell(`The inspector does not answer (${error.message}). Is the command still running?`);
  } finally {
    asking = false;
  }
}

function show(given) {
  const { error } = given.find((answer) => answer.error) ?? {};
  for (const input of find("demand").elements) {
    if (input.name) input.setAttribute("aria-invalid", String(input.name === error?.field));
  }
  tell(error ? `${nameOf(error.field)} ${error.rule}; it is ${JSON.stringify(error.value)}.` : "");
  if (error) return pause();
  answers = given;
  find("holds").querySelectorAll("article").forEach((article, at) => ship(article, answers[at]));
  showTick();
  // The picture first: the long tables follow when it is on the screen.
  requestAnimationFrame(() => setTimeout(showLives));
}

function showLives() {
  find("lives").innerHTML = answers.map(lives).join("");
}

function tell(message) {
  find("error").textContent = message;
  find("error").hidden = !message;
}

function nameOf(field) {
  const input = find("demand").elements.namedItem(field);
  return input ? `“${input.dataset.label}” (${field})` : field;
}

// ---- One tick

function showTick() {
  const { tick } = experiment;
  if (answers.length === 0) return;
  const words = [...find("holds").querySelectorAll("article")].map((article, at) => hold(article, answers[at], tick));
  find("sums").innerHTML = answers.map((answer) => sums(answer, tick)).join("");
  find("lives").style.setProperty("--tick", tick);
  find("tick").value = tick;
  find("clock").innerHTML = `<b>tick ${tick}</b> of ${LAST_TICK}`;
  later("told", 500, () => { find("told").textContent = `Tick ${tick}. ${words.join(" ")}`; });
  later("link", 250, () => history.replaceState(null, "", toHash(experiment)));
}

function seek(tick) {
  experiment.tick = Math.min(LAST_TICK, Math.max(0, tick));
  showTick();
}

const timers = {};
function later(name, ms, act) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(act, ms);
}

// ---- Playing

function play() {
  if (experiment.tick === LAST_TICK) seek(0);
  run();
}

function run() {
  clearInterval(timer);
  timer = setInterval(() => {
    seek(experiment.tick + 1);
    if (experiment.tick === LAST_TICK) pause();
  }, TICK_MS / speed);
  showPlaying();
}

function pause() {
  clearInterval(timer);
  timer = null;
  showPlaying();
}

function showPlaying() {
  find("play").classList.toggle("playing", timer !== null);
  find("play").querySelector("span").textContent = timer === null ? "Play" : "Pause";
}

function restart() {
  seek(0);
  if (timer !== null) run();
}

function byHand(tick) {
  pause();
  seek(tick);
}

function toggleSpeed() {
  speed = speed === 1 ? 0.5 : 1;
  find("speed").setAttribute("aria-pressed", String(speed !== 1));
  if (timer !== null) run();
}

// ---- Inputs

function buildInputs() {
  for (const field of document.querySelectorAll(".field")) {
    const { name, min, max } = field.dataset;
    const [text, note] = [field.firstChild.textContent.trim(), field.querySelector("small")];
    const label = document.createElement("label");
    label.htmlFor = name;
    label.textContent = text;
    const input = Object.assign(document.createElement("input"), { id: name, name });
    input.dataset.label = text;
    if (note) {
      note.id = name + "-note";
      input.setAttribute("aria-describedby", note.id);
    }
    if (min === undefined) {
      input.type = "checkbox";
      field.replaceChildren(input, label, note);
      continue;
    }
    Object.assign(input, { type: "number", min, max, step: 1, inputMode: "numeric", required: true });
    // The slider is for pointers only: for keys and readers there is the number.
    const slider = Object.assign(document.createElement("input"), { type: "range", min, max, tabIndex: -1 });
    slider.setAttribute("aria-hidden", "true");
    slider.dataset.of = name;
    field.replaceChildren(label, input, slider, ...(note ? [note] : []));
  }
}

function fillInputs() {
  const { demand, policies } = experiment;
  for (const input of find("demand").elements) {
    const name = input.name || input.dataset.of;
    if (!name) continue;
    if (input.type === "checkbox") input.checked = demand[name] === true;
    else if (document.activeElement !== input) input.value = Number.isFinite(demand[name]) ? demand[name] : "";
  }
  const most = Math.max(0, demand.slots - 1);
  for (const input of document.querySelectorAll("[name=reserved_a], [data-of=reserved_a]")) input.max = most;
  const ignored = demand.stall_a === true;
  for (const input of document.querySelectorAll("[name=hold_a], [data-of=hold_a]")) input.disabled = ignored;
  document.querySelectorAll("#holds select").forEach((select, at) => { select.value = policies[at]; });
  const at = fixtures.findIndex((fixture) => isFixture(fixture));
  find("fixtures").querySelectorAll("button").forEach((button, of) => button.setAttribute("aria-pressed", String(of === at)));
  find("look").innerHTML = at < 0
    ? "Your own experiment. What you set counts at once; nothing plays by itself."
    : `<b>${fixtures[at].teaches}</b> ${fixtures[at].look}`;
}

function isFixture({ demand, left, right }) {
  const same = (field) => demand[field] === experiment.demand[field];
  return Object.keys(demand).every(same) && left === experiment.policies[0] && right === experiment.policies[1];
}

function takeInput(input) {
  const name = input.name || input.dataset.of;
  const { demand } = experiment;
  if (input.type === "checkbox") demand[name] = input.checked;
  else demand[name] = input.value === "" ? null : Number(input.value);
  if (name === "slots" && demand.slots >= 1) demand.reserved_a = Math.min(demand.reserved_a, demand.slots - 1);
  changed();
}

function changed() {
  fillInputs();
  recompute();
}

// ---- Sharing and saving

async function share() {
  const link = location.origin + location.pathname + toHash(experiment);
  history.replaceState(null, "", link);
  try {
    await navigator.clipboard.writeText(link);
    find("shared").textContent = "Copied.";
  } catch {
    find("shared").textContent = "It is in the address bar.";
  }
}

function save(kind, answer) {
  const { policy } = answer.outcome.scenario;
  const [type, text] = kind === "csv" ? ["text/csv", csv(answer)] : ["application/json", JSON.stringify(answer.outcome) + "\n"];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = `outcome-${policy}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// ---- Wiring

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const acts = {
    ArrowLeft: () => byHand(experiment.tick - 1), ArrowRight: () => byHand(experiment.tick + 1),
    Home: restart, End: () => byHand(LAST_TICK),
    " ": () => (timer === null ? play() : pause()),
  };
  const onControl = event.target.closest("button, summary, a");
  if (!acts[event.key] || (event.key === " " && onControl)) return;
  event.preventDefault();
  acts[event.key]();
}

function wire() {
  find("demand").addEventListener("input", (event) => takeInput(event.target));
  find("demand").addEventListener("submit", (event) => event.preventDefault());
  find("demand").addEventListener("focusout", fillInputs);
  find("holds").addEventListener("change", (event) => {
    experiment.policies[event.target.dataset.at] = event.target.value;
    changed();
  });
  find("fixtures").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    pause();
    experiment = ofFixture(fixtures[button.dataset.at]);
    changed();
  });
  find("restart").addEventListener("click", restart);
  find("previous").addEventListener("click", () => byHand(experiment.tick - 1));
  find("next").addEventListener("click", () => byHand(experiment.tick + 1));
  find("play").addEventListener("click", () => (timer === null ? play() : pause()));
  find("speed").addEventListener("click", toggleSpeed);
  find("tick").addEventListener("input", (event) => byHand(Number(event.target.value)));
  find("share").addEventListener("click", share);
  find("lives").addEventListener("click", (event) => {
    const kind = event.target.dataset.save;
    if (kind) save(kind, answers[[...find("lives").children].indexOf(event.target.closest(".scroll"))]);
  });
  document.addEventListener("keydown", keys);
  addEventListener("hashchange", () => {
    experiment = fromHash(location.hash, experiment);
    changed();
  });
}

buildInputs();
find("inputs").open = matchMedia("(min-width: 60rem)").matches;
find("fixtures").innerHTML = fixtures.map(({ name }, at) =>
  `<li><button type="button" data-at="${at}" aria-pressed="false">${name}</button></li>`).join("");
experiment = fromHash(location.hash, experiment);
find("holds").replaceChildren(...experiment.policies.map((policy, at) => frame(at, policy)));
wire();
changed();
