//! The process driver: a harness that is its own shim, and one that is killed.

#[cfg(target_os = "linux")]
mod process_support;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    use watertight::driver::process::shim_main;

    shim_main();
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(linux::HARNESS) {
        return linux::harness(&args.next().expect("a folder"));
    }
    linux::this_program_is_its_own_shim();
    linux::nobody_outlives_a_harness_that_is_killed();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::Path;
    use std::process::Command as Bare;

    use serde_json::json;
    use watertight::driver::process::{Command, Limits, Process};

    use super::process_support::{Stray, alive, eventually, pids, run, sh};

    /// The first argument of the harness that is to be killed.
    pub(super) const HARNESS: &str = "a-harness-to-be-killed";

    /// Makes one call that never ends by itself, in `folder`.
    pub(super) fn harness(folder: &str) {
        let script = "
            sleep 120 & echo $! >> pids
            (env -i /usr/bin/setsid /bin/sh -c 'echo $$ >> pids; exec sleep 120' &)
            echo $$ >> pids
            until [ $(wc -l < pids) = 3 ]; do sleep 0.01; done
            touch ready; trap '' TERM; wait";
        let _ = run(Process::new().dir(folder), sh(script), json!({}));
    }

    pub(super) fn this_program_is_its_own_shim() {
        let command = Command::new(["nice"]).limits(Limits::new().nice(19));
        let shown = run(Process::new(), command, json!({})).unwrap();
        assert_eq!((&shown["stdout"], &shown["held_by"]), (&json!("19\n"), &json!("shim")));
    }

    pub(super) fn nobody_outlives_a_harness_that_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap();
        let harness = Bare::new(this).arg(HARNESS).arg(folder.path()).spawn().unwrap();
        let mut harness = Stray(harness);
        let in_folder = |name: &str| -> std::path::PathBuf { Path::new(folder.path()).join(name) };
        eventually("the call runs", || in_folder("ready").exists());
        let begun = pids(&in_folder("pids"));
        assert!(begun.len() == 3 && begun.iter().copied().all(alive));
        harness.0.kill().unwrap();
        eventually("nobody is left", || !begun.iter().copied().any(alive));
    }
}
