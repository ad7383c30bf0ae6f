//! A control group for each call (version 2), where this process may make one: the kernel then
//! kills everything in it in one step, whoever has begun it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};

/// How often, and for how long each time, a group that was killed is waited for.
const EMPTY_WAITS: u32 = 20;
const EMPTY_WAIT: Duration = Duration::from_millis(50);

/// The group this process is in, below which it may make others.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    base: PathBuf,
}

impl Hierarchy {
    /// Finds it; `None` where there is none, or it is not ours to change.
    pub(super) fn find() -> Option<Hierarchy> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let hierarchy = Hierarchy { base: base(&mounts, &groups)? };
        let leaf = hierarchy.leaf().ok()?;
        let may = |file: PathBuf| access(file, Access::WRITE_OK).is_ok();
        let usable = may(hierarchy.base.join("cgroup.procs"))
            && may(leaf.path.join("cgroup.procs"))
            && may(leaf.path.join("cgroup.kill"));
        usable.then_some(hierarchy)
    }

    /// Makes an empty group.
    ///
    /// # Errors
    ///
    /// The group could not be made.
    pub(super) fn leaf(&self) -> io::Result<Leaf> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.base.join(format!("watertight-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Leaf { path }),
                // Left by a process that had our id before us.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The folder of our own group, from the table of mounts and the list of our groups.
fn base(mounts: &str, groups: &str) -> Option<PathBuf> {
    let ours = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = Path::new(ours).strip_prefix(root).ok()?;
        kind.starts_with("cgroup2 ").then(|| Path::new(point).join(below))
    })
}

/// The group of one call; dropping it kills whoever is still in it and removes it.
#[derive(Debug)]
pub(super) struct Leaf {
    path: PathBuf,
}

impl Leaf {
    /// Its folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anybody is in it.
    pub(super) fn is_populated(&self) -> bool {
        std::fs::read_to_string(self.path.join("cgroup.events")).is_ok_and(|text| populated(&text))
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Moves this process, and whoever it begins from then on, into the group at `path`.
pub(super) fn enter(path: &Path) -> io::Result<()> {
    std::fs::write(path.join("cgroup.procs"), "0")
}

/// Moves this process from the group at `path` back into the one above.
pub(super) fn leave(path: &Path) -> io::Result<()> {
    enter(path.parent().unwrap_or(path))
}

/// Kills everybody in the group at `path`.
pub(super) fn kill(path: &Path) -> io::Result<()> {
    std::fs::write(path.join("cgroup.kill"), "1")
}

/// Kills everybody in the group at `path` and removes it, if it is there. Blocks until they have
/// ended, at most for a second.
pub(super) fn remove(path: &Path) {
    for _ in 0..EMPTY_WAITS {
        match std::fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let _ = kill(path);
                let _ = await_empty(path);
            }
            _ => return,
        }
    }
}

/// Blocks while somebody is in the group at `path`, at most for `EMPTY_WAIT`.
fn await_empty(path: &Path) -> io::Result<()> {
    let mut events = File::open(path.join("cgroup.events"))?;
    // What is polled for is a change since it was read.
    let mut text = String::new();
    events.read_to_string(&mut text)?;
    if populated(&text) {
        let wait = Timespec::try_from(EMPTY_WAIT).ok();
        poll(&mut [PollFd::new(&events, PollFlags::PRI)], wait.as_ref())?;
    }
    Ok(())
}

fn populated(events: &str) -> bool {
    events.lines().any(|line| line == "populated 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_where_the_second_version_is_mounted() {
        let mounts = "25 1 0:22 / /sys rw shared:7 - sysfs sysfs rw\n\
                      31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      42 25 0:28 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let groups = "4:memory:/a\n0::/user.slice/app.scope\n";
        let unified = Path::new("/sys/fs/cgroup/unified");
        assert_eq!(base(mounts, groups), Some(unified.join("user.slice/app.scope")));
        let inside = mounts.replace("0:28 / ", "0:28 /user.slice ");
        assert_eq!(base(&inside, groups), Some(unified.join("app.scope")));
        assert_eq!(base(mounts, "4:memory:/a\n"), None);
        assert_eq!(base("", groups), None);
    }
}
