//! The product's command line, as the demo uses it: shown before it runs, so that people can copy it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::DOWN_LIMIT;
use crate::workspace::Workspace;
use crate::{process, say};

/// `jaco` with the variables that lead it to the cluster.
#[derive(Debug)]
pub(super) struct Cli {
    program: PathBuf,
    folder: PathBuf,
    variables: BTreeMap<String, String>,
}

impl Cli {
    pub(super) fn new(workspace: &Workspace) -> Self {
        Self {
            program: workspace.target.join("release/jaco"),
            folder: workspace.root.clone(),
            variables: BTreeMap::new(),
        }
    }

    /// Runs a command with its output shown.
    pub(super) fn run(&self, args: &[&str]) -> Result<()> {
        show(args);
        process::run(&mut self.command(args))
    }

    /// Runs a command and returns its output.
    pub(super) fn capture(&self, args: &[&str]) -> Result<String> {
        show(args);
        process::capture(&mut self.command(args))
    }

    /// Runs a command that must happen, interrupts or not.
    pub(super) fn clean_up(&self, args: &[&str]) -> Result<()> {
        show(args);
        process::run_to_the_end(&mut self.command(args), DOWN_LIMIT)
    }

    /// Takes over what `jaco dev env` printed.
    pub(super) fn set_variables(&mut self, text: &str) -> Result<()> {
        self.variables = variables(text).context("jaco dev env printed no JACO_SOCKET")?;
        Ok(())
    }

    /// Shell lines that lead any `jaco` to the cluster.
    pub(super) fn exports(&self) -> impl Iterator<Item = String> {
        self.variables.iter().map(|(name, value)| format!("export {name}={value}"))
    }

    pub(super) fn program(&self) -> String {
        self.program.display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).envs(&self.variables).args(args);
        command
    }
}

fn show(args: &[&str]) {
    say::note(&format!("$ jaco {}", args.join(" ")));
}

/// Reads `NAME=value` lines, with or without `export`.
fn variables(text: &str) -> Option<BTreeMap<String, String>> {
    let pairs = text.lines().filter_map(|line| line.trim_start_matches("export ").split_once('='));
    let plain = |value: &str| value.trim_matches(['"', '\'']).to_owned();
    let found: BTreeMap<_, _> =
        pairs.map(|(name, value)| (name.trim().to_owned(), plain(value))).collect();
    found.contains_key("JACO_SOCKET").then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_in_either_form() {
        let check = |text| {
            let found = variables(text).expect("it is there");
            assert_eq!(found["JACO_SOCKET"], "/run/a.sock", "{text}");
        };
        check("JACO_SOCKET=/run/a.sock\n");
        check("export JACO_SOCKET='/run/a.sock'\nexport OTHER=1\n");
        assert_eq!(variables("OTHER=1"), None);
    }
}
