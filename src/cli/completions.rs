//! `watertight completions`: for the shell.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, print};

/// Print a script that teaches a shell to complete this command
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  watertight completions bash > ~/.local/share/bash-completion/completions/watertight
  watertight completions zsh > ~/.zfunc/_watertight
  watertight completions fish > ~/.config/fish/completions/watertight.fish";

impl Completions {
    pub(super) fn run(&self) -> u8 {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "watertight", &mut script);
        print(&script)
    }
}
