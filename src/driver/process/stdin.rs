//! Standard input that is given: a file nobody else can open, so that feeding it never waits.

use std::fs::File;
use std::io::{self, Seek, Write};

/// A file that holds `text`, to be read from its beginning.
///
/// # Errors
///
/// No descriptors, memory or room left.
pub(super) fn holding(text: &str) -> io::Result<File> {
    let mut file = anonymous()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn anonymous() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};

    Ok(memfd_create("stdin", MemfdFlags::CLOEXEC)?.into())
}

/// Where memory has no files: one in the folder for temporary files, which loses its name at once.
#[cfg(not(target_os = "linux"))]
fn anonymous() -> io::Result<File> {
    use std::hash::{BuildHasher, RandomState};
    use std::os::unix::fs::OpenOptionsExt;

    let name = format!("watertight-stdin-{:016x}", RandomState::new().hash_one(0));
    let path = std::env::temp_dir().join(name);
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
