//! Where a program is, and why it could not be begun.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::outcome::{Executed, Failure, FailureReason};

/// Where tools are looked for when they are given no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file of `program`, as a shell in `dir` would find it: a name with a `/` is a path from
/// `dir`, any other is looked for in `variables`' `PATH`.
pub(super) fn find(
    program: &str,
    dir: &Path,
    variables: &[(OsString, OsString)],
) -> Result<PathBuf, Failure> {
    if program.contains('/') {
        return Ok(dir.join(program));
    }
    let path =
        variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let candidates = std::env::split_paths(path).map(|folder| dir.join(folder).join(program));
    let mut found = candidates.filter(|file| file.is_file()).peekable();
    let Some(first) = found.peek().cloned() else {
        return Err(not_begun(format!("no program `{program}` in any folder of the tool's PATH")));
    };
    Ok(found.find(|file| access(file, Access::EXEC_OK).is_ok()).unwrap_or(first))
}

/// The failure of a call whose program could not be begun; names what is missing.
pub(super) fn explain(error: &io::Error, program: &str, file: &Path, dir: &Path) -> Failure {
    let in_dir = dir.display();
    let message = match error.kind() {
        _ if !dir.exists() => format!("directory `{in_dir}` does not exist"),
        _ if !dir.is_dir() => format!("`{in_dir}` is not a directory"),
        io::ErrorKind::NotFound if file.exists() => {
            format!("the interpreter that the first line of `{program}` names does not exist")
        }
        io::ErrorKind::NotFound => {
            format!("no program `{program}`: `{}` does not exist", file.display())
        }
        io::ErrorKind::PermissionDenied if access(dir, Access::EXEC_OK).is_err() => {
            format!("no permission to enter directory `{in_dir}`")
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "no permission to execute `{program}`: `{}` is no executable file",
                file.display()
            )
        }
        io::ErrorKind::ArgumentListTooLong => {
            format!("the arguments of `{program}` are longer than the system takes; use its stdin")
        }
        _ => format!("`{program}` could not be begun: {error}"),
    };
    not_begun(message)
}

/// The failure of a call that began nothing.
pub(super) fn not_begun(message: impl Into<String>) -> Failure {
    Failure::new(FailureReason::Spawn, message).executed(Executed::No)
}
