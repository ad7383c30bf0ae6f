//! The ends after which a call is attempted again.

use std::fmt;

use crate::outcome::{BusyReason, CallError, FailureReason, Status};
use crate::resilience::PolicyError;
use crate::resilience::check::{Advice, refusal};

/// How an attempt must have ended to be retried: a set of statuses and reasons.
///
/// Defaults to `busy`, `throttled`, `timeout`, `connect`, `pool_exhausted` and `server_down`: what
/// may well be over soon. An open breaker answers at once, so that the caller can do other things,
/// and is not among them.
///
/// Some ends are in no set, for they cannot go better the next time: wrong calls, closed doors,
/// cancels, and a call into its own full partition. Nor is `decode`: an answer is decoded when its
/// call is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kinds(u32);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Status(Status),
    Reason(FailureReason),
}

/// Everything that can be chosen; a set has a bit for each.
const ALL: [Kind; 18] = [
    Kind::Status(Status::Busy),
    Kind::Status(Status::CircuitOpen),
    Kind::Status(Status::Throttled),
    Kind::Status(Status::Timeout),
    Kind::Status(Status::Panicked),
    Kind::Reason(FailureReason::Error),
    Kind::Reason(FailureReason::Connect),
    Kind::Reason(FailureReason::PoolExhausted),
    Kind::Reason(FailureReason::ServerDown),
    Kind::Reason(FailureReason::QueryFailed),
    Kind::Reason(FailureReason::QueryCancelled),
    Kind::Reason(FailureReason::HttpStatus),
    Kind::Reason(FailureReason::HttpProtocol),
    Kind::Reason(FailureReason::Redirect),
    Kind::Reason(FailureReason::TooLarge),
    Kind::Reason(FailureReason::Spawn),
    Kind::Reason(FailureReason::ExitCode),
    Kind::Reason(FailureReason::Signal),
];

const WORDS: Advice = (
    "must be one of failed, busy, circuit_open, throttled, timeout, panicked, error, connect, \
     pool_exhausted, server_down, query_failed, query_cancelled, http_status, http_protocol, \
     redirect, too_large, spawn, exit_code, signal",
    "leave it out if it is none of these",
);

impl Kinds {
    /// The set of `words`: statuses and reasons as they stand in outcomes. `failed` stands for
    /// every reason that can be chosen. No words: nothing is retried.
    ///
    /// # Errors
    ///
    /// The first word that is none of them, with all that are.
    ///
    /// ```
    /// use watertight::resilience::retry::Kinds;
    ///
    /// let kinds = Kinds::parse(["busy", "connect"])?;
    /// assert_eq!(kinds.to_string(), "busy, connect");
    /// let refused = Kinds::parse(["cancelled"]).unwrap_err();
    /// assert!(refused.to_string().starts_with("on = cancelled: must be one of failed, busy, "));
    /// # Ok::<(), watertight::resilience::PolicyError>(())
    /// ```
    pub fn parse<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<Kinds, PolicyError> {
        let mut kinds = Kinds(0);
        for word in words {
            let chosen = ALL.iter().filter(|kind| kind.word() == word || kind.is_part_of(word));
            let bits = chosen.fold(0, |bits, kind| bits | kind.bit());
            if bits == 0 {
                return Err(refusal("on", word, WORDS));
            }
            kinds.0 |= bits;
        }
        Ok(kinds)
    }

    /// Whether it holds the way that `error` says a call ended.
    pub fn contains(self, error: &CallError) -> bool {
        let kind = match error {
            CallError::Busy { reason: BusyReason::Reentrant, .. } => return false,
            CallError::Failed(failure) => Kind::Reason(failure.reason),
            _ => Kind::Status(error.status()),
        };
        self.0 & kind.bit() != 0
    }
}

impl Default for Kinds {
    fn default() -> Kinds {
        let chosen = [
            Kind::Status(Status::Busy),
            Kind::Status(Status::Throttled),
            Kind::Status(Status::Timeout),
            Kind::Reason(FailureReason::Connect),
            Kind::Reason(FailureReason::PoolExhausted),
            Kind::Reason(FailureReason::ServerDown),
        ];
        Kinds(chosen.iter().fold(0, |bits, kind| bits | kind.bit()))
    }
}

/// The words, as [`Kinds::parse`] reads them.
impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen = ALL.iter().filter(|kind| self.0 & kind.bit() != 0);
        f.write_str(&chosen.map(|kind| kind.word()).collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kinds({self})")
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Status(status) => status.as_str(),
            Kind::Reason(reason) => reason.as_str(),
        }
    }

    fn is_part_of(self, word: &str) -> bool {
        matches!(self, Kind::Reason(_)) && word == Status::Failed.as_str()
    }

    /// Its bit; none for what cannot be chosen.
    fn bit(self) -> u32 {
        ALL.iter().position(|kind| *kind == self).map_or(0, |at| 1 << at)
    }
}
