//! Systems without sub-reapers as Linux has them: there is no shim, and calls go without one.

use std::io;
use std::path::Path;
use std::process::Command;

use super::Shim;
use super::child::{Leash, Pipes};
use super::limits::Limits;

/// What a shim would be called.
pub(super) const SHIM_NAME: &str = "watertight-shim";

/// Starts nothing: no value of it can be made.
#[derive(Clone, Debug)]
pub(super) enum ShimStarter {}

impl ShimStarter {
    pub(super) fn find(chosen: &Shim, _cgroup: bool) -> Result<Option<ShimStarter>, String> {
        match chosen {
            Shim::At(file) => Err(format!(
                "shim: `{}`: there is no shim on this system; leave it out",
                file.display()
            )),
            Shim::Own | Shim::Off => Ok(None),
        }
    }

    pub(super) fn file(&self) -> &Path {
        match *self {}
    }

    pub(super) fn spawn(
        &self,
        _program: &Command,
        _name: &str,
        _limits: &Limits,
        _input: Option<&str>,
    ) -> io::Result<(Box<dyn Leash>, Pipes)> {
        match *self {}
    }
}

/// Does nothing on this system: there is no shim on it.
pub fn shim_main() {}
