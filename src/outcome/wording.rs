//! The words a model reads: the one place that owns them.
//!
//! Each text says what happened, whether anything was executed, what to do now, and when to retry,
//! if at all.

use std::time::Duration;

use super::{
    BusyReason, CallError, CancelledBy, Executed, Failure, FailureReason, Outcome, ThrottledBy,
    TimeoutClock,
};

/// From this attempt on the advice is to go on without the call.
pub(crate) const ENOUGH_ATTEMPTS: u32 = 5;

const MAY_HAVE_RUN: &str = "If it changes anything, find out whether it did before you repeat it; \
     otherwise ask for less at once, or go on without it.";

impl<T> Outcome<T> {
    /// What happened and what to do now, in words for a model; `None` if it finished well.
    ///
    /// ```
    /// use watertight::{PartitionSpec, Runtime};
    ///
    /// let runtime = Runtime::builder().partition(PartitionSpec::new("search").slots(1)).build()?;
    /// let search = runtime.partition("search").expect("it was just built");
    /// let _only_slot = search.permit().expect("it is free");
    /// let outcome = search.permit().map(drop).expect_err("the slot is held by this very thread");
    /// assert!(outcome.detail().expect("it was refused").contains("Nothing was started."));
    /// # Ok::<(), watertight::SpecError>(())
    /// ```
    pub fn detail(&self) -> Option<String> {
        let error = self.result.as_ref().err()?;
        let text = self.detail_of(error);
        Some(match self.earlier.len() {
            0 => text,
            1 => format!("{text} It had been attempted once before."),
            earlier => format!("{text} It had been attempted {earlier} times before."),
        })
    }

    fn detail_of(&self, error: &CallError) -> String {
        let executed = self.executed();
        let partition = if self.partition.is_empty() { "this" } else { &self.partition };
        let come_back = |retry_after| match executed {
            Executed::No => come_back(retry_after, self.attempt),
            Executed::Yes | Executed::Unknown => MAY_HAVE_RUN.to_owned(),
        };
        match error {
            CallError::Failed(failure) => failed(failure, executed),
            CallError::Panicked { .. } => {
                "The tool crashed while it ran, so it may have done part \
                of its work. Do not repeat the same call; go on without it or use another tool."
                    .to_owned()
            }
            CallError::Busy { reason, retry_after } => {
                let what = busy(*reason, partition);
                format!("{what} {} {}", started(executed), come_back(*retry_after))
            }
            CallError::CircuitOpen { retry_after } => format!(
                "{partition} has been failing and is given a pause; other tools are unaffected. {} \
                 {}",
                started(executed),
                come_back(Some(*retry_after))
            ),
            CallError::Throttled { by, retry_after, .. } => format!(
                "{}; other tools are unaffected. {} {}",
                throttled(*by, partition),
                started(executed),
                come_back(Some(*retry_after))
            ),
            CallError::Timeout { clock, .. } => timeout(*clock, executed, partition),
            CallError::Cancelled { by, .. } => format!(
                "{} {} Do not retry it by yourself.",
                match by {
                    CancelledBy::Caller => "The call was cancelled.",
                    CancelledBy::Shutdown =>
                        "The call was cancelled because the harness is ending.",
                },
                started(executed)
            ),
        }
    }
}

fn busy(reason: BusyReason, partition: &str) -> String {
    match reason {
        BusyReason::SlotsFull => {
            format!("{partition} concurrency limit reached; other tools are unaffected.")
        }
        BusyReason::SlotsStuck => format!(
            "every slot of {partition} is held by a call that does not end; other tools are \
             unaffected."
        ),
        BusyReason::QueueFull => {
            format!("{partition} is full and its waiting room, too; other tools are unaffected.")
        }
        BusyReason::TenantQueueFull => format!(
            "too many of your calls to {partition} are waiting already; other tools are unaffected."
        ),
        BusyReason::Displaced => format!(
            "{partition} is full, and the place in its waiting room went to somebody who had fewer \
             calls there; other tools are unaffected."
        ),
        BusyReason::Reentrant => format!(
            "this call was made from inside {partition}, which is full: waiting could never end."
        ),
    }
}

fn throttled(by: ThrottledBy, partition: &str) -> String {
    match by {
        ThrottledBy::Backend => format!("the service behind {partition} asks for a pause"),
        ThrottledBy::Rate => format!("{partition} has used up its rate"),
    }
}

fn timeout(clock: TimeoutClock, executed: Executed, partition: &str) -> String {
    let what = match (clock, executed) {
        (TimeoutClock::Run, _) => {
            format!("The call ran into the time limit of {partition} and was ended.")
        }
        (TimeoutClock::Deadline, Executed::No) => {
            "The time given to this call was over before it could start.".to_owned()
        }
        (TimeoutClock::Deadline, _) => {
            "The time given to this call was over, and it was ended.".to_owned()
        }
    };
    let then = match executed {
        Executed::No => "If it is still needed, call it again with more time.",
        Executed::Yes | Executed::Unknown => MAY_HAVE_RUN,
    };
    format!("{what} {} {then}", started(executed))
}

fn failed(failure: &Failure, executed: Executed) -> String {
    let Failure { reason, message, retry_after, .. } = failure;
    let message = message.trim_end().trim_end_matches('.');
    let then = match (reason, retry_after) {
        (FailureReason::InvalidCall | FailureReason::UnknownPartition, _) => {
            "Correct the arguments and call it again.".to_owned()
        }
        (FailureReason::UnknownTool, _) => "Use one of the tools you were given.".to_owned(),
        (FailureReason::Closed, _) => "Do not retry it; go on without it.".to_owned(),
        _ if executed != failure.executed => MAY_HAVE_RUN.to_owned(),
        (_, Some(after)) => format!("Retry this same call after about {}.", about(*after)),
        (FailureReason::Connect | FailureReason::PoolExhausted | FailureReason::ServerDown, _) => {
            "The service is not there right now: go on with other work, and retry later.".to_owned()
        }
        _ => "Read the message before you decide whether another call makes sense.".to_owned(),
    };
    format!("{message}. {} {then}", started(executed))
}

fn started(executed: Executed) -> &'static str {
    match executed {
        Executed::Yes => "The call was executed.",
        Executed::No => "Nothing was started.",
        Executed::Unknown => "It may or may not have been executed.",
    }
}

fn come_back(retry_after: Option<Duration>, attempt: u32) -> String {
    match retry_after {
        _ if attempt >= ENOUGH_ATTEMPTS => {
            format!("This was attempt {attempt}: go on without it, and say so in your answer.")
        }
        Some(after) => format!(
            "Do the other work of this turn first, then retry this same call after about {}. Do \
             not change its arguments.",
            about(after)
        ),
        None => "Do not retry it by itself; do the work in another way.".to_owned(),
    }
}

/// A span as a person says it: `350 ms`, `4 s`, `2 min`.
fn about(span: Duration) -> String {
    let ms = span.as_millis();
    match ms {
        0..1_000 => format!("{} ms", ms.max(1)),
        1_000..10_000 if ms % 1_000 >= 50 => format!("{:.1} s", span.as_secs_f64()),
        1_000..120_000 => format!("{} s", span.as_secs_f64().ceil()),
        _ => format!("{} min", (span.as_secs_f64() / 60.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{EarlierAttempt, Evidence, Timing};

    fn detail(error: CallError, attempt: u32) -> String {
        let (partition, timing) = ("search".into(), Timing::default());
        let earlier = Vec::new();
        let result = Err(error);
        let outcome = Outcome::<()> { result, partition, tool: None, attempt, timing, earlier };
        outcome.detail().unwrap()
    }

    #[test]
    fn an_earlier_attempt_that_may_have_run_is_not_forgotten() {
        let clock = TimeoutClock::Run;
        let (executed, evidence) = (Executed::Unknown, Evidence::default());
        let timeout = CallError::Timeout { clock, executed, evidence };
        let earlier = EarlierAttempt::new(&timeout, Timing::default(), Duration::ZERO);
        let (reason, retry_after) = (BusyReason::SlotsFull, Some(Duration::from_secs(4)));
        let outcome = Outcome::<()> {
            result: Err(CallError::Busy { reason, retry_after }),
            partition: "search".into(),
            tool: None,
            attempt: 2,
            timing: Timing::default(),
            earlier: vec![earlier],
        };
        assert_eq!(outcome.executed(), Executed::Unknown);
        assert_eq!(
            outcome.detail().unwrap(),
            "search concurrency limit reached; other tools are unaffected. It may or may not have \
             been executed. If it changes anything, find out whether it did before you repeat it; \
             otherwise ask for less at once, or go on without it. It had been attempted once before."
        );
    }

    #[test]
    fn every_text_says_whether_anything_was_executed_and_what_to_do() {
        let evidence = Evidence::default;
        let second = Duration::from_secs(1);
        let clock = TimeoutClock::Run;
        let by = CancelledBy::Caller;
        let reason = BusyReason::SlotsFull;
        let errors = [
            CallError::Failed(Failure::new(FailureReason::ExitCode, "it ended with 1")),
            CallError::Panicked { message: String::new() },
            CallError::Busy { reason, retry_after: Some(second) },
            CallError::Busy { reason: BusyReason::Reentrant, retry_after: None },
            CallError::CircuitOpen { retry_after: second },
            CallError::Throttled {
                by: ThrottledBy::Backend,
                executed: Executed::No,
                retry_after: second,
            },
            CallError::Timeout { clock, executed: Executed::Unknown, evidence: evidence() },
            CallError::Cancelled { by, executed: Executed::No, evidence: evidence() },
        ];
        for error in errors {
            let retry = error.retry_after();
            let text = detail(error, 1);
            let says_executed =
                ["executed", "started", "done part"].iter().any(|w| text.contains(w));
            assert!(says_executed, "{text}");
            assert_eq!(retry.is_some(), text.contains("retry this same call after"), "{text}");
        }
    }

    #[test]
    fn the_busy_text_is_as_documented() {
        let reason = BusyReason::SlotsFull;
        let error = CallError::Busy { reason, retry_after: Some(Duration::from_secs(4)) };
        assert_eq!(
            detail(error.clone(), 1),
            "search concurrency limit reached; other tools are unaffected. Nothing was started. Do \
             the other work of this turn first, then retry this same call after about 4 s. Do not \
             change its arguments."
        );
        assert!(detail(error, 5).contains("go on without it"));
    }

    #[test]
    fn spans_are_said_as_people_say_them() {
        for (ms, said) in [
            (0, "1 ms"),
            (350, "350 ms"),
            (4_000, "4 s"),
            (4_200, "4.2 s"),
            (61_001, "62 s"),
            (180_000, "3 min"),
        ] {
            assert_eq!(about(Duration::from_millis(ms)), said);
        }
    }
}
