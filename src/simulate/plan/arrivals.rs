//! When calls come.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::Deserialize;

use super::chance::{Chance, Sampler};
use super::input::{LONGEST, Load, Plan, duration, refuse, time};
use super::report::{Known, Tables};
use super::trace::{self, TraceRow};
use crate::simulate::InputError;
use crate::time::Time;

/// When the calls of a load come.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Arrivals {
    /// Independently of each other, so many a second on average: up to 1e9.
    PoissonPerS(f64),
    /// Regularly, from 0 on.
    Every {
        /// So often.
        ms: f64,
        /// So many at once. Defaults to 1.
        #[serde(default = "one")]
        batch: u32,
    },
    /// At these times, in order.
    AtMs(Vec<f64>),
    /// As they did in measured sessions.
    Trace {
        /// What was measured. Defaults to what is in the file.
        #[serde(default)]
        rows: Vec<TraceRow>,
        /// The file with more rows, one a line. Defaults to none.
        file: Option<String>,
        /// Sessions begin at random times up to this one. Defaults to 0: all at once.
        #[serde(default)]
        spread_ms: f64,
        /// Partitions by tool; the load's own for the tools left out. Defaults to none.
        #[serde(default)]
        tools: BTreeMap<String, String>,
    },
}

fn one() -> u32 {
    1
}

impl Arrivals {
    /// Whether each arrival says how long it runs.
    pub(super) fn brings_service(&self) -> bool {
        matches!(self, Arrivals::Trace { .. })
    }

    /// Reads the trace that it names, if it names one.
    pub(super) fn load(
        &mut self,
        place: &str,
        open: &mut impl FnMut(&str) -> io::Result<String>,
    ) -> Result<(), InputError> {
        if let Arrivals::Trace { rows, file, .. } = self
            && let Some(file) = file.take()
        {
            rows.extend(trace::read(place, &file, open)?);
        }
        Ok(())
    }

    pub(super) fn check(&self, place: &str, plan: &Plan) -> Result<(), InputError> {
        match self {
            Arrivals::PoissonPerS(rate) if !(*rate > 0.0 && *rate <= 1e9) => {
                refuse(place, *rate, "must be above 0 and at most 1e9 calls a second")
            }
            Arrivals::Every { ms, .. } if *ms < 1e-6 || duration(*ms).is_none() => {
                refuse(place, *ms, "must be a nanosecond (1e-6) to 1e10 milliseconds")
            }
            Arrivals::Every { batch: 0, .. } => refuse(place, 0, "batch must be at least 1"),
            Arrivals::AtMs(times) if !times.is_sorted() => {
                refuse(place, times.len(), "must be in order of time")
            }
            Arrivals::AtMs(times) => times.iter().try_for_each(|&ms| time(place, ms)),
            Arrivals::Trace { rows, spread_ms, tools, .. } => {
                time(&format!("{place}.spread_ms"), *spread_ms)?;
                for (at, row) in rows.iter().enumerate() {
                    time(&format!("{place}.rows[{at}].t_ms"), row.t_ms)?;
                    time(&format!("{place}.rows[{at}].dur_ms"), row.dur_ms)?;
                }
                let unknown = tools.values().find(|partition| plan.find(partition).is_none());
                let rule = "must map tools to partitions of this plan";
                unknown
                    .map_or(Ok(()), |name| refuse(&format!("{place}.tools"), name.as_str(), rule))
            }
            Arrivals::PoissonPerS(_) | Arrivals::Every { .. } => Ok(()),
        }
    }
}

/// A call that is about to be offered.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) at: Time,
    pub(super) partition: usize,
    pub(super) tool: u32,
    pub(super) tenant: Option<Known>,
    pub(super) service: Duration,
    pub(super) seed: u64,
}

/// The calls of one load, one after the other.
pub(super) struct Source {
    partition: usize,
    tool: u32,
    tenants: Vec<Known>,
    service: Option<Sampler>,
    chance: Chance,
    end: Time,
    times: Times,
}

/// What is left of the arrivals.
enum Times {
    Poisson { mean: f64, last: f64 },
    Every { period: Duration, next: Time, batch: u32, left: u32 },
    Listed(std::vec::IntoIter<Listed>),
}

/// An arrival whose time is known from the beginning.
struct Listed {
    at: Time,
    of: Option<Traced>,
}

/// What a trace says of an arrival.
struct Traced {
    partition: usize,
    tool: u32,
    tenant: Known,
    service: Duration,
}

impl Source {
    pub(super) fn new(plan: &Plan, at: usize, load: &Load, tables: &mut Tables) -> Source {
        let mut chance = Chance::branch(plan.seed, at);
        let partition = plan.find(&load.partition).unwrap_or_default();
        let tool = load.tool.as_deref().unwrap_or(&load.partition);
        let tenants = match (&load.tenant, load.tenants) {
            (_, Some(many)) => {
                (0..many).map(|at| tables.tenant(&format!("t-{at}"))).collect::<Vec<_>>()
            }
            (Some(name), None) => vec![tables.tenant(name)],
            (None, None) => Vec::new(),
        };
        let times = match &load.arrivals {
            Arrivals::PoissonPerS(rate) => Times::Poisson { mean: 1e9 / rate, last: 0.0 },
            Arrivals::Every { ms, batch } => Times::Every {
                period: duration(*ms).unwrap_or(LONGEST),
                next: Time::ZERO,
                batch: *batch,
                left: *batch,
            },
            Arrivals::AtMs(times) => {
                let listed = times.iter().map(|&ms| Listed { at: at_ms(ms), of: None });
                Times::Listed(listed.collect::<Vec<_>>().into_iter())
            }
            Arrivals::Trace { rows, spread_ms, tools, .. } => {
                let to = |tool: &str| {
                    let named = tools.get(tool).and_then(|name| plan.find(name));
                    named.unwrap_or(partition)
                };
                let traced = TraceOf { rows, spread_ms: *spread_ms, tool };
                Times::Listed(traced.listed(to, &mut chance, tables).into_iter())
            }
        };
        let tool = tables.tool(tool);
        let service = load.service.as_ref().map(Sampler::from);
        Source { partition, tool, tenants, service, chance, end: at_ms(plan.duration_ms), times }
    }
}

/// A trace to be replayed.
struct TraceOf<'t> {
    rows: &'t [TraceRow],
    spread_ms: f64,
    /// The tool of rows that name none.
    tool: &'t str,
}

impl TraceOf<'_> {
    /// The rows as arrivals in order of time, each session shifted by a chance of its own.
    fn listed(
        &self,
        partition: impl Fn(&str) -> usize,
        chance: &mut Chance,
        tables: &mut Tables,
    ) -> Vec<Listed> {
        let mut sessions = BTreeMap::new();
        let mut listed = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            let (tenant, begin) = sessions.entry(row.session.as_str()).or_insert_with(|| {
                (tables.tenant(row.session.as_str()), self.spread_ms * chance.share())
            });
            let tool = if row.tool.is_empty() { self.tool } else { &row.tool };
            let traced = Traced {
                partition: partition(&row.tool),
                tool: tables.tool(tool),
                tenant: tenant.clone(),
                service: duration(row.dur_ms).unwrap_or(LONGEST),
            };
            listed.push(Listed { at: at_ms(*begin + row.t_ms), of: Some(traced) });
        }
        listed.sort_by_key(|arrival| arrival.at);
        listed
    }
}

fn at_ms(ms: f64) -> Time {
    Time::from_nanos((ms * 1e6) as u64)
}

impl Iterator for Source {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        let (at, of) = match &mut self.times {
            Times::Poisson { mean, last } => {
                *last += *mean * self.chance.exponential();
                (Time::from_nanos(*last as u64), None)
            }
            Times::Every { period, next, batch, left } => {
                if *left == 0 {
                    *next = *next + *period;
                    *left = *batch;
                }
                *left -= 1;
                (*next, None)
            }
            Times::Listed(rows) => rows.next().map(|row| (row.at, row.of))?,
        };
        if at >= self.end {
            return None;
        }
        let drawn = match self.tenants.len() {
            0 => None,
            1 => Some(0),
            several => Some(self.chance.below(several)),
        };
        let drawn = drawn.map(|at| self.tenants[at].clone());
        let sampled = self.service.as_ref().map(|sampler| sampler.draw(&mut self.chance));
        let seed = self.chance.bits();
        Some(match of {
            Some(Traced { partition, tool, tenant, service }) => Arrival {
                at,
                partition,
                tool,
                tenant: drawn.or(Some(tenant)),
                service: sampled.unwrap_or(service),
                seed,
            },
            None => Arrival {
                at,
                partition: self.partition,
                tool: self.tool,
                tenant: drawn,
                service: sampled.unwrap_or_default(),
                seed,
            },
        })
    }
}
