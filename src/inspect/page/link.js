// An experiment as the part of a link after `#`: the demand, two policies and a tick.

export const POLICIES = {
  fifo: {
    name: "Shared FIFO",
    rule: "A free slot goes to the call that came first, whoever’s it is.",
  },
  round_robin: {
    name: "Shared, by turns",
    rule: "A free slot goes to the tenant whose last turn is longer ago.",
  },
  strict: {
    name: "Strict wall",
    rule: "A slot serves its home tenant, or stays idle.",
  },
  borrow: {
    name: "Lending wall",
    rule: "A slot serves its home tenant; while that has no call waiting, it is lent.",
  },
};

export const FIELDS = [
  "slots", "reserved_a", "arrivals_a", "every_b", "hold_a", "hold_b",
  "stall_a", "timeout_a", "timeout_b", "max_waiting", "target_percent",
];

/** The scenario of one policy, its fields in the order of the outcome's. */
export function scenario(demand, policy) {
  const { max_waiting, target_percent, ...rest } = demand;
  return { ...rest, policy, max_waiting, target_percent };
}

export function toHash({ demand, policies, tick }) {
  const inputs = FIELDS.map((field) => [field, demand[field]]);
  return "#" + new URLSearchParams([...inputs, ["policy", policies[0]], ["against", policies[1]], ["tick", tick]]);
}

/** What a link says, on top of `experiment`; numbers are not checked, the simulator does that. */
export function fromHash(hash, experiment) {
  const inputs = new URLSearchParams(hash.slice(1));
  const demand = { ...experiment.demand };
  for (const field of FIELDS) {
    const text = inputs.get(field);
    if (text === null) continue;
    if (text === "true" || text === "false") demand[field] = text === "true";
    else demand[field] = /^\d{1,9}$/.test(text) ? Number(text) : text;
  }
  const left = Object.hasOwn(POLICIES, inputs.get("policy")) ? inputs.get("policy") : experiment.policies[0];
  const other = left === experiment.policies[1] ? experiment.policies[0] : experiment.policies[1];
  const right = Object.hasOwn(POLICIES, inputs.get("against")) ? inputs.get("against") : other;
  const tick = Number(inputs.get("tick") ?? experiment.tick);
  return { demand, policies: [left, right], tick: tick >= 0 && tick <= 20 ? Math.floor(tick) : 0 };
}
