//! Drivers that break a promise, each of which a check must find.

use std::any::Any;
use std::cell::RefCell;
use std::fs::File;
use std::time::Duration;

use serde_json::{Value, json};
use watertight::call::{CancelToken, Run, Terms};
use watertight::outcome::Outcome;
use watertight::{PartitionSpec, Runtime, Ticket};

use crate::drivers::{Function, Running};
use crate::suite::{Driver, HOME, PROPERTIES, Work, alone, broken};

/// How a function breaks a promise.
enum Fault {
    /// It looks at neither its limit nor its cancel, until this is cancelled.
    Deaf(CancelToken),
    /// Its backend goes on working.
    Lingering,
    /// A descriptor stays open.
    Leaking,
}

struct Faulty {
    fault: Fault,
    function: Function,
    deaf: Running,
    kept: RefCell<Vec<Box<dyn Any>>>,
}

impl Faulty {
    fn new(fault: Fault) -> Faulty {
        Faulty {
            fault,
            function: Function::default(),
            deaf: Running::default(),
            kept: RefCell::default(),
        }
    }
}

impl Driver for Faulty {
    fn open(&self, spec: PartitionSpec) -> Runtime {
        self.function.open(spec)
    }

    fn hang(&self, runtime: &Runtime, terms: Terms) -> Ticket<Value> {
        match &self.fault {
            Fault::Deaf(released) => {
                let (running, released) = (self.deaf.clone(), released.clone());
                let home = runtime.partition(HOME).expect("it was just built");
                return home.submit_with(terms, move |_: &Run| {
                    let _running = running.begin();
                    released.wait(Duration::from_secs(600));
                    Ok(json!(null))
                });
            }
            Fault::Lingering => self.kept.borrow_mut().push(Box::new(self.deaf.begin())),
            Fault::Leaking => {
                let file = File::open("/dev/null").expect("a descriptor");
                self.kept.borrow_mut().push(Box::new(file));
            }
        }
        self.function.hang(runtime, terms)
    }

    fn quick(&self, runtime: &Runtime) -> Outcome<Value> {
        self.function.quick(runtime)
    }

    fn work(&self) -> Work {
        match self.deaf.work() {
            Work::None => self.function.work(),
            work => work,
        }
    }

    fn rounds(&self) -> u32 {
        40
    }

    fn fence(&self) -> Duration {
        Duration::from_millis(500)
    }
}

fn names(found: &[(&'static str, String)]) -> Vec<&'static str> {
    found.iter().map(|(name, _)| *name).collect()
}

#[test]
fn a_driver_that_does_not_listen_fails_every_check() {
    let _alone = alone();
    let released = CancelToken::new();
    let found = broken(&Faulty::new(Fault::Deaf(released.clone())));
    released.cancel();
    let all: Vec<_> = PROPERTIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&found), all);
}

#[test]
fn work_that_lingers_is_found() {
    let _alone = alone();
    let found = broken(&Faulty::new(Fault::Lingering));
    let (name, fault) = found.first().expect("a fault");
    assert_eq!(*name, PROPERTIES[0].0);
    assert!(fault.contains("nothing of the call is left"), "{fault}");
}

#[test]
fn a_leak_is_found() {
    let _alone = alone();
    let found = broken(&Faulty::new(Fault::Leaking));
    let expected = ["ends on shutdown", "leaves nothing behind"];
    assert_eq!(names(&found), expected, "{found:?}");
}
