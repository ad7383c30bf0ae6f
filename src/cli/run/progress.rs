//! A line of progress on standard error, while that is a terminal and standard output is not.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::time::Time;

/// How often it is drawn.
const STEP: Duration = Duration::from_millis(100);

/// The line.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    next: Time,
}

impl Progress {
    /// One that is shown if `wanted` and somebody can see it.
    pub(super) fn new(wanted: bool) -> Progress {
        let seen = wanted && io::stderr().is_terminal() && !io::stdout().is_terminal();
        let bar = seen.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.with_style(style.expect("the template is well-formed"))
        });
        let next = Time::ZERO;
        Progress { bar, next }
    }

    /// Draws what `text` says, unless it has just done so.
    pub(super) fn show(&mut self, now: Time, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar
            && now >= self.next
        {
            self.next = now + STEP;
            bar.set_message(text());
            bar.tick();
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
