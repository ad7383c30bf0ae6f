//! Scripts of steps that run against the scheduler and the model at once, and shrink when the two
//! disagree.

use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use watertight::admission::{Decision, Effects, Offer, Policy, Scheduler, SlotId, WaiterId};
use watertight::time::Time;

use crate::compare::{self, same};
use crate::model::{Model, Offered};
use crate::model_ends::name_of;
use crate::observed::{self, Answer, Observed};

/// One step. Numbers choose among what there is when the step is taken, so that a script stays
/// meaningful when steps are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Times are in ticks from now; `None`: for ever.
    Offer {
        tenant: u8,
        wait: Option<u8>,
        deadline: Option<u8>,
        run_for: Option<u8>,
        reentrant: bool,
        reserve: bool,
    },
    /// The n-th occupied slot.
    Finish(u8),
    Answer(u8),
    Replace(u8),
    /// The slot of this number, be there one or not.
    FinishSlot(u8),
    AnswerSlot(u8),
    ReplaceSlot(u8),
    /// The n-th waiter.
    Withdraw(u8),
    /// A call that waited once, and mostly does not any more.
    WithdrawOld(u8),
    Pass(u8),
    Dispatch,
    Grant,
    Drain,
    Close,
}

/// The two sides, and what the test must remember to talk to the scheduler.
struct Pair {
    scheduler: Scheduler<u32>,
    model: Model,
    calls: u32,
    waited: Vec<(u32, WaiterId)>,
}

/// Runs `script`; what the two sides disagree in, if they do.
pub(crate) fn run(policy: &Policy, script: &[Step]) -> Result<(), String> {
    let attempt = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut pair = Pair {
            scheduler: Scheduler::new(policy.clone()).expect("the policy is allowed"),
            model: Model::new(policy),
            calls: 0,
            waited: Vec::new(),
        };
        for (at, step) in script.iter().enumerate() {
            pair.take(*step).map_err(|how| format!("step {at}: {how}"))?;
            compare::states(&pair.scheduler, &pair.model)
                .map_err(|how| format!("after step {at}: {how}"))?;
        }
        compare::tenants(&pair.scheduler, &pair.model, script.len() % 4)
    }));
    attempt.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Runs `script`, and fails with the shortest script that fails, too.
pub(crate) fn check(seed: u64, policy: &Policy, script: &[Step]) {
    let Err(mut how) = run(policy, script) else {
        return;
    };
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut script = script.to_vec();
    let mut chunk = script.len();
    while chunk > 0 {
        let mut at = 0;
        while at < script.len() {
            let mut shorter = script.clone();
            shorter.drain(at..(at + chunk).min(script.len()));
            match run(policy, &shorter) {
                Err(shorter_how) => (script, how) = (shorter, shorter_how),
                Ok(()) => at += chunk,
            }
        }
        chunk /= 2;
    }
    panic::set_hook(hook);
    let mut steps = String::new();
    for step in &script {
        let _ = writeln!(steps, "    {step:?}");
    }
    panic!("seed {seed}: {how}\n{policy:#?}\n{steps}");
}

impl Pair {
    fn take(&mut self, step: Step) -> Result<(), String> {
        let mut effects = Effects::default();
        let now = self.model.now;
        let (model, scheduler) = (&mut self.model, &mut self.scheduler);
        let (theirs, ours) = match step {
            Step::Offer { .. } => return self.offer(step),
            Step::Finish(_) | Step::Answer(_) | Step::Replace(_) => {
                return self.on_slot(step, self.occupied(step));
            }
            Step::FinishSlot(n) | Step::AnswerSlot(n) | Step::ReplaceSlot(n) => {
                return self.on_slot(step, n.into());
            }
            Step::Withdraw(_) | Step::WithdrawOld(_) => return self.withdraw(step),
            Step::Pass(ticks) => {
                model.now = now + Duration::from_nanos(ticks.into());
                return Ok(());
            }
            Step::Dispatch => {
                scheduler.dispatch(now, &mut effects);
                (Observed::of(&effects), model.dispatch())
            }
            Step::Grant => {
                scheduler.grant_reserve(now, &mut effects);
                (Observed::of(&effects), model.grant_reserve())
            }
            Step::Drain => {
                scheduler.drain(now, &mut effects);
                (Observed::of(&effects), model.drain())
            }
            Step::Close => {
                scheduler.close(now, &mut effects);
                model.closed = true;
                (Observed::of(&effects), model.drain())
            }
        };
        same("effects", &theirs.sorted(), &ours.sorted())
    }

    fn offer(&mut self, step: Step) -> Result<(), String> {
        let Step::Offer { tenant, wait, deadline, run_for, reentrant, reserve } = step else {
            return Ok(());
        };
        let now = self.model.now;
        let ticks = |n: u8| Duration::from_nanos(n.into());
        let until = |n: Option<u8>| n.map_or(Time::MAX, |n| now + ticks(n));
        let offered = Offered {
            tenant,
            wait_until: until(wait),
            deadline: until(deadline),
            run_for: run_for.map_or(Duration::MAX, ticks),
            reentrant,
            reserve,
        };
        let call = self.calls;
        self.calls += 1;
        let mut effects = Effects::default();
        let offer = Offer {
            tenant: (tenant > 0).then(|| name_of(tenant).into()),
            wait_until: offered.wait_until,
            deadline: offered.deadline,
            run_for: offered.run_for,
            reentrant,
            ..Offer::new(call)
        };
        let scheduler = &mut self.scheduler;
        // Half of the calls come by the short way first, as live calls do.
        if call.is_multiple_of(2) {
            let run_until = now + offer.run_for;
            let tenant = offer.tenant.as_ref();
            if let Some(slot) = scheduler.start_now(now, tenant, offer.deadline, run_until) {
                return self.started_now(offered, slot);
            }
        }
        let decision = scheduler.offer_or_borrow(now, offer, &mut effects, || reserve);
        let mut theirs = Observed::of(&effects);
        theirs.answer = Some(observed::answer(&decision));
        if let Decision::Wait(id) = decision {
            self.waited.push((call, id));
        }
        same("offer", &theirs.sorted(), &self.model.offer(offered).sorted())
    }

    /// The short way gave it a slot: so does the model, and nothing else happens.
    fn started_now(&mut self, offered: Offered, slot: SlotId) -> Result<(), String> {
        let ours = self.model.offer(offered);
        let given = match &ours.answer {
            Some(Answer::Start(start)) => Some(start.slot),
            _ => None,
        };
        same("start at once", &Some(slot.0), &given)?;
        same("effects of a start at once", &Observed::default(), &Observed { answer: None, ..ours })
    }

    /// The number of the slot a step chooses among the occupied ones.
    fn occupied(&self, step: Step) -> usize {
        let (Step::Finish(n) | Step::Answer(n) | Step::Replace(n)) = step else {
            return 0;
        };
        let slots = self.model.slots.iter().enumerate();
        let occupied: Vec<_> = slots.filter(|(_, slot)| slot.occupied()).collect();
        let chosen = occupied.get(n as usize % occupied.len().max(1));
        chosen.map_or(0, |&(at, _)| at)
    }

    fn on_slot(&mut self, step: Step, at: usize) -> Result<(), String> {
        let now = self.model.now;
        let id = SlotId(at as u32);
        match step {
            Step::Finish(_) | Step::FinishSlot(_) => {
                let theirs = self.scheduler.finish(now, id);
                let theirs = theirs.map(|finished| finished.was_overdue);
                same("finish", &theirs, &self.model.finish(at))
            }
            Step::Answer(_) | Step::AnswerSlot(_) => {
                same("answer", &self.scheduler.answer(now, id), &self.model.answer(at))
            }
            _ => same("replace", &self.scheduler.replace(id), &self.model.replace(at)),
        }
    }

    fn withdraw(&mut self, step: Step) -> Result<(), String> {
        let call = match step {
            Step::Withdraw(n) if !self.model.waiting.is_empty() => {
                self.model.waiting[n as usize % self.model.waiting.len()].call
            }
            Step::WithdrawOld(n) if !self.waited.is_empty() => {
                self.waited[n as usize % self.waited.len()].0
            }
            _ => return Ok(()),
        };
        let id = self.waited.iter().find(|&&(waited, _)| waited == call);
        let &(_, id) = id.ok_or("the model has a waiter that the scheduler has not")?;
        let theirs = self.scheduler.withdraw(self.model.now, id);
        let theirs = theirs.map(|(payload, _)| payload);
        let ours = self.model.withdraw(call).then_some(call);
        same("withdraw", &theirs, &ours)
    }
}
