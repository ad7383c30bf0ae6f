//! What a program may use.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The least memory that a limit may leave: less, and no program gets as far as its own code.
const MEMORY_MIN: u64 = 1024 * 1024;
/// The fewest open files that a limit may leave: the loader needs some.
const OPEN_FILES_MIN: u64 = 8;

/// Bounds of a program. Those of a tool come before those of its partition.
///
/// All but the output's are set on the program before it begins, by the shim, so that they need it
/// ([`Process::shim`](super::Process::shim)), and they hold for each process that it begins: two
/// children of a program that may use 1 GiB use up to 1 GiB each. Only a program that runs as root
/// can lift them, and where the harness's own limit is lower, that stays.
///
/// ```
/// use watertight::driver::process::Limits;
///
/// let limits = Limits::new().memory(512 << 20).cpu_seconds(20).open_files(64).nice(10);
/// # let _ = limits;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub(super) memory: Option<u64>,
    pub(super) cpu_seconds: Option<u64>,
    pub(super) file_size: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) nice: Option<u8>,
    pub(super) cpus: Option<BTreeSet<usize>>,
    pub(super) output_kept: Option<usize>,
    pub(super) output_max: Option<u64>,
}

impl Limits {
    /// No bounds but the defaults.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// Bytes of memory of its own (heap, stacks of threads, private mappings; `RLIMIT_DATA`). An
    /// allocation beyond it fails, which ends most programs. Reserved address space does not count,
    /// so that Node, Go and Java start. At least 1 MiB; defaults to no bound.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Limits {
        self.memory = Some(bytes);
        self
    }

    /// Seconds of CPU time: then SIGXCPU, and SIGKILL a second later (`RLIMIT_CPU`). At least 1;
    /// defaults to no bound.
    #[must_use]
    pub fn cpu_seconds(mut self, seconds: u64) -> Limits {
        self.cpu_seconds = Some(seconds);
        self
    }

    /// Bytes that a file it writes may have: writing on means SIGXFSZ (`RLIMIT_FSIZE`). Its outputs
    /// are no files. 0 allows empty files only; defaults to no bound.
    #[must_use]
    pub fn file_size(mut self, bytes: u64) -> Limits {
        self.file_size = Some(bytes);
        self
    }

    /// Open descriptors (`RLIMIT_NOFILE`). At least 8; defaults to the harness's.
    #[must_use]
    pub fn open_files(mut self, count: u64) -> Limits {
        self.open_files = Some(count);
        self
    }

    /// The least niceness, 0 to 19: how far it stands back from others for the CPU. Defaults to the
    /// harness's.
    #[must_use]
    pub fn nice(mut self, nice: u8) -> Limits {
        self.nice = Some(nice);
        self
    }

    /// The CPUs it may run on, counted from 0. Defaults to the harness's.
    #[must_use]
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Limits {
        self.cpus = Some(BTreeSet::from_iter(cpus));
        self
    }

    /// Bytes of each output that are kept, half of them its first and half its last. Defaults to
    /// 64 KiB; 0 keeps none and counts only.
    #[must_use]
    pub fn output_kept(mut self, bytes: usize) -> Limits {
        self.output_kept = Some(bytes);
        self
    }

    /// Bytes that may come out of both outputs before it is killed. Defaults to 256 MiB; 0 allows
    /// none.
    #[must_use]
    pub fn output_max(mut self, bytes: u64) -> Limits {
        self.output_max = Some(bytes);
        self
    }

    /// These limits, and `partition`'s where they say nothing.
    pub(super) fn over(self, partition: &Limits) -> Limits {
        Limits {
            memory: self.memory.or(partition.memory),
            cpu_seconds: self.cpu_seconds.or(partition.cpu_seconds),
            file_size: self.file_size.or(partition.file_size),
            open_files: self.open_files.or(partition.open_files),
            nice: self.nice.or(partition.nice),
            cpus: self.cpus.or_else(|| partition.cpus.clone()),
            output_kept: self.output_kept.or(partition.output_kept),
            output_max: self.output_max.or(partition.output_max),
        }
    }

    /// The first limit that only the shim can set.
    pub(super) fn needing_shim(&self) -> Option<&'static str> {
        [
            ("memory", self.memory.is_some()),
            ("cpu_seconds", self.cpu_seconds.is_some()),
            ("file_size", self.file_size.is_some()),
            ("open_files", self.open_files.is_some()),
            ("nice", self.nice.is_some()),
            ("cpus", self.cpus.is_some()),
        ]
        .into_iter()
        .find_map(|(key, set)| set.then_some(key))
    }

    /// # Errors
    ///
    /// The key, its value and the rule.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(bytes) = self.memory.filter(|bytes| *bytes < MEMORY_MIN) {
            return Err(format!(
                "memory: {bytes} bytes start no program; give {MEMORY_MIN} or more"
            ));
        }
        if self.cpu_seconds == Some(0) {
            return Err("cpu_seconds: 0 lets nothing run; give 1 or more".to_owned());
        }
        if let Some(count) = self.open_files.filter(|count| *count < OPEN_FILES_MIN) {
            return Err(format!(
                "open_files: {count} start no program; give {OPEN_FILES_MIN} or more"
            ));
        }
        if let Some(nice) = self.nice.filter(|nice| *nice > 19) {
            return Err(format!("nice: {nice} is out of range; give 0 to 19"));
        }
        self.cpus.as_ref().map_or(Ok(()), check_cpus)
    }
}

#[cfg(target_os = "linux")]
fn check_cpus(cpus: &BTreeSet<usize>) -> Result<(), String> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    let ours = sched_getaffinity(None).map_err(|error| format!("cpus: {error}"))?;
    let allowed: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu)).collect();
    if cpus.is_empty() {
        return Err(format!("cpus: is empty; give some of {allowed:?}"));
    }
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => Err(format!("cpus: {cpu} is not ours to use; give some of {allowed:?}")),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_cpus(_cpus: &BTreeSet<usize>) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_limits_come_before_the_partitions() {
        let partition = Limits::new().memory(8 << 20).nice(3).output_max(7);
        let tool = Limits::new().memory(2 << 20).cpus([0]);
        let expected = Limits::new().memory(2 << 20).nice(3).cpus([0]).output_max(7);
        assert_eq!(tool.over(&partition), expected);
    }

    #[test]
    fn limits_that_cannot_be_are_refused_by_name() {
        for (limits, named) in [
            (Limits::new().memory(MEMORY_MIN - 1), "memory: 1048575"),
            (Limits::new().cpu_seconds(0), "cpu_seconds: 0"),
            (Limits::new().open_files(7), "open_files: 7"),
            (Limits::new().nice(20), "nice: 20"),
            (Limits::new().cpus([]), "cpus: is empty"),
            (Limits::new().cpus([0, 4_000_000_000]), "cpus: 4000000000"),
        ] {
            let refused = limits.check().unwrap_err();
            assert!(refused.starts_with(named), "{refused}");
            assert_eq!(limits.needing_shim(), named.split(':').next());
        }
        let largest = Limits::new().memory(u64::MAX).cpu_seconds(u64::MAX).file_size(0).nice(19);
        assert_eq!(largest.check(), Ok(()));
        assert_eq!(Limits::new().output_kept(0).output_max(0).needing_shim(), None);
    }
}
