//! The threads of a partition: workers, the timekeeper, the ender.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::actions::{Actions, Errand, Job};
use super::cell::{Ended, Said, catch};
use super::gate::End;
use super::lineage;
use super::partition::{Inbox, Shared, Work};
use super::sync::{Builder, Receiver};
use crate::call::Run;

/// Starts the threads of a partition, named after it.
///
/// # Errors
///
/// The operating system's, if it has no thread left to give.
pub(super) fn start(shared: &Arc<Shared>, inbox: &Inbox, workers: u32) -> io::Result<()> {
    for at in 0..workers {
        let (mine, work) = (Arc::clone(shared), inbox.work.clone());
        shared.spawn(format!("{}-{at}", shared.name), move || mine.work(&work))?;
    }
    let mine = Arc::clone(shared);
    shared.spawn(format!("{}-time", shared.name), move || mine.keep_time())?;
    let errands = inbox.errands.clone();
    let run = move || run_errands(&errands);
    shared.spawn(format!("{}-end", shared.name), run)
}

impl Shared {
    fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let life = self.alive.begin();
        let thread = Builder::new().name(name);
        thread.spawn(move || {
            let _life = life;
            body();
        })?;
        Ok(())
    }

    fn work(&self, inbox: &Receiver<Work>) {
        for work in inbox.iter() {
            if let Work::Run(job) = work {
                self.run(&job);
            }
            if self.over.load(Ordering::SeqCst) {
                break;
            }
        }
        // What was sent before the end is done, and the next one told to leave, whoever it is.
        loop {
            for work in inbox.try_iter() {
                if let Work::Run(job) = work {
                    self.run(&job);
                }
            }
            if self.send_exit() {
                break;
            }
        }
    }

    fn run(&self, job: &Job) {
        let about = job.call.about();
        let ended = if about.begin() {
            let _inside = lineage::descend(about.lineage.as_deref(), self.id);
            let run = Run {
                clock: self.gate.clock().clone(),
                limit_at: job.limit().0,
                cancel: about.token.clone(),
                attempt: about.attempt(),
                given_key: about.key.get().or(about.given_key.as_ref()).cloned(),
                key: OnceLock::new(),
                used_up_until: AtomicU64::new(0),
            };
            job.call.execute(&run, job, &self.spec.door.throttle)
        } else {
            let at = self.gate.clock().now();
            Ended { at, said: Said::default(), error: None }
        };
        let mut actions = Actions::default();
        match self.gate.finish(job.slot, ended, &mut actions) {
            End::Publish => job.call.publish(),
            End::Answered => {}
            End::Overdue => {
                // The drop may block, and what the section decided for others must not wait for it.
                self.act(std::mem::take(&mut actions));
                job.call.discard();
                self.gate.finish_overdue(job.slot, &mut actions);
            }
        }
        self.act(actions);
    }

    fn keep_time(&self) {
        loop {
            let mut actions = Actions::default();
            let goes_on = self.gate.keep_time(&mut actions);
            self.act(actions);
            if !goes_on {
                break;
            }
        }
    }
}

/// Runs what may block, one after the other. It holds nothing of the partition, so it ends when the
/// partition is gone, should it have been stuck before.
fn run_errands(errands: &Receiver<Errand>) {
    for errand in errands.iter() {
        match errand {
            Errand::Cancel(call) => {
                while let Some(hook) = call.about().token.next_hook() {
                    let _ = catch(hook);
                }
            }
            Errand::Discard(call) => call.discard(),
            Errand::Exit => break,
        }
    }
}
