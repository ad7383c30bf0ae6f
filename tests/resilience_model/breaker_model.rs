//! A naive breaker: it keeps every outcome and counts anew each time.

use std::time::Duration;

use watertight::resilience::breaker::{Ended, Policy, State, Window};
use watertight::time::Time;

use crate::breaker::End;
use crate::tenth;

/// What the model remembers: the state by name, and every call of the present epoch.
#[derive(Clone)]
pub(crate) struct Model {
    policy: Policy,
    pub(crate) state: State,
    pub(crate) epoch: u64,
    until: Time,
    /// Time, failed, slow.
    ended: Vec<(Time, bool, bool)>,
    /// Limits of the probes let through in this round, and those still out.
    limits: Vec<Time>,
    out: usize,
    bad_rounds: u32,
    pub(crate) openings: u64,
}

impl Model {
    pub(crate) fn new(policy: Policy) -> Model {
        Model {
            policy,
            state: State::Closed,
            epoch: 0,
            until: Time::ZERO,
            ended: Vec::new(),
            limits: Vec::new(),
            out: 0,
            bad_rounds: 0,
            openings: 0,
        }
    }

    pub(crate) fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
        self.ended.clear();
        self.limits.clear();
        self.out = 0;
    }

    fn in_window(&self, now: Time) -> Vec<(Time, bool, bool)> {
        match (self.state, self.policy.window) {
            (State::Closed, Window::Count(calls)) => {
                self.ended.iter().rev().take(calls as usize).copied().collect()
            }
            (State::Closed, Window::Time(span)) => {
                let recent =
                    |(at, ..): &&(Time, bool, bool)| tenth(*at, span) + 10 > tenth(now, span);
                self.ended.iter().filter(recent).copied().collect()
            }
            _ => self.ended.clone(),
        }
    }

    pub(crate) fn counts(&self, now: Time) -> (u64, u64, u64) {
        let window = self.in_window(now);
        let count = |f: fn(&(Time, bool, bool)) -> bool| {
            window.iter().filter(|call| f(call)).count() as u64
        };
        (window.len() as u64, count(|call| call.1), count(|call| call.2))
    }

    pub(crate) fn admit(&mut self, now: Time, limit: Duration) -> Expected {
        match self.state {
            State::Closed => return Expected::Pass,
            State::Open if now < self.until => return Expected::Open(self.until - now),
            State::Open => self.enter(State::HalfOpen),
            State::HalfOpen if self.out + self.ended.len() >= self.policy.probes as usize => {
                let latest = self.limits.iter().max().copied().unwrap_or(now);
                return Expected::Open(latest - now);
            }
            State::HalfOpen => {}
            State::HeldOpen => return Expected::Open(self.policy.cool_down_max),
        }
        self.out += 1;
        self.limits.push(now + limit);
        Expected::Probe
    }

    /// Whether the call's end opens the breaker (`Some(true)`) or closes it.
    pub(crate) fn end(&mut self, now: Time, epoch: u64, end: End) -> Option<bool> {
        if epoch != self.epoch {
            return None;
        }
        self.out = self.out.saturating_sub(1);
        let End::Ended { how, slow } = end else {
            return None;
        };
        if how == Ended::TimedOut && !self.policy.count_timeouts {
            return None;
        }
        let failed = match how {
            Ended::Ok => false,
            Ended::Refused => self.policy.count_refusals,
            Ended::Failed | Ended::TimedOut => true,
        };
        self.ended.push((now, failed, slow));
        let (calls, failed, slow) = self.counts(now);
        let probes = u64::from(self.policy.probes);
        let of = if self.state == State::HalfOpen { probes } else { calls };
        let reached = |count: u64, rate: f64| rate > 0.0 && count as f64 / of as f64 >= rate;
        let bad =
            reached(failed, self.policy.failure_rate) || reached(slow, self.policy.slow_call_rate);
        match self.state {
            State::Closed => (bad && calls >= u64::from(self.policy.minimum_calls)).then_some(true),
            _ if bad => Some(true),
            _ => (calls >= probes).then_some(false),
        }
    }

    pub(crate) fn opened(&mut self, now: Time, cool_down: Duration) {
        let Policy { cool_down: first, cool_down_growth, cool_down_max, .. } = self.policy;
        let longest =
            first.mul_f64(cool_down_growth.powi(self.bad_rounds as i32)).min(cool_down_max);
        let shortest = longest.mul_f64(1.0 - self.policy.cool_down_jitter);
        assert!(cool_down <= longest, "{cool_down:?} is longer than {longest:?}");
        assert!(cool_down + Duration::from_nanos(9) >= shortest, "{cool_down:?} < {shortest:?}");
        self.bad_rounds += 1;
        self.openings += 1;
        self.until = now + cool_down;
        self.enter(State::Open);
    }

    pub(crate) fn closed(&mut self) {
        self.bad_rounds = 0;
        self.enter(State::Closed);
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    Pass,
    Probe,
    Open(Duration),
}
