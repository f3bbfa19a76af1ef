//! One test program, run as `cargo test` would run it: in its package's folder, with its package's variables.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::layer::Layer;
use super::outcome::{Counts, Outcome};
use crate::workspace::Package;
use crate::{interrupt, process, say};

/// How many cases of each law are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// As many as the laws say themselves.
    Usual,
    /// In the pure crates, so many that a rare one is found.
    Thorough,
}

impl Effort {
    /// What the environment says of it, and how many times as long a program may take.
    fn of(self, layer: Layer) -> (Option<&'static str>, u32) {
        match (self, layer) {
            (Self::Thorough, Layer::Pure) => (Some("10000"), 20),
            (Self::Thorough | Self::Usual, _) => (None, 1),
        }
    }
}

/// A built test program.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// Package and target.
    pub(super) name: String,
    pub(super) layer: Layer,
    pub(super) executable: PathBuf,
    pub(super) package: Package,
}

/// How the test programs of a layer are started.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) layer: Layer,
    /// Folders of programs that tests start, each with the variable that tells them.
    pub(super) folders: Vec<(&'static str, PathBuf)>,
    pub(super) arguments: Vec<String>,
    pub(super) effort: Effort,
}

impl Program {
    /// Runs it, and shows each of its lines.
    ///
    /// # Errors
    /// If it was interrupted.
    pub(super) fn run(&self, start: &Start, show: impl FnMut(&str)) -> Result<Outcome> {
        let folder = self.package.manifest.parent().expect("a manifest lies in a folder");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new(&self.executable);
        let (cases, times) = start.effort.of(self.layer);
        command
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env("CARGO_PKG_NAME", &self.package.name)
            .env("RUST_TEST_THREADS", self.layer.tests_at_once(cores).to_string())
            .envs(start.folders.iter().map(|(name, folder)| (name, folder)))
            .envs(cases.map(|cases| ("PROPTEST_CASES", cases)))
            .args(&start.arguments);
        run(&self.name, &mut command, start.layer.limit() * times, show)
    }
}

fn run(
    name: &str,
    command: &mut Command,
    limit: Duration,
    mut show: impl FnMut(&str),
) -> Result<Outcome> {
    say::note(&format!("running {name}"));
    let mut counts = Counts::default();
    let ended = process::stream(command, limit, |line| {
        counts = counts + Counts::parse(line).unwrap_or_default();
        show(line);
    });
    interrupt::check()?;
    let mut outcome = Outcome::of(counts);
    match ended {
        Ok(status) if status.success() => {}
        // It counted its failures itself.
        Ok(_) if counts.failed > 0 => outcome.blame(name),
        Ok(status) => outcome.fail(format!("{name} ended with {status}")),
        Err(error) => outcome.fail(format!("{name}: {error:#}")),
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Outcome {
        let limit = Duration::from_millis(500);
        // Not shown: whoever counts the results of these tests would count these lines too.
        run("it", Command::new("sh").args(["-c", text]), limit, |_| {}).expect("nobody interrupts")
    }

    #[test]
    fn only_pure_laws_are_tried_more_often() {
        assert_eq!(Effort::Thorough.of(Layer::Pure), (Some("10000"), 20));
        assert_eq!(Effort::Thorough.of(Layer::Sim), (None, 1));
        assert_eq!(Effort::Usual.of(Layer::Pure), (None, 1));
    }

    #[test]
    fn results_are_counted_and_crashes_too() {
        let good = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'";
        let check = |text: &str, passed, failed, trouble: Option<&str>| {
            let outcome = script(text);
            assert_eq!(outcome.counts(), Counts { passed, failed }, "{text}");
            assert_eq!(outcome.trouble.as_deref(), trouble, "{text}");
        };
        check(good, 2, 0, None);
        check(
            "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'; exit 101",
            1,
            2,
            Some("failures in it"),
        );
        check(&format!("{good}; exit 9"), 2, 1, Some("it ended with exit status: 9"));
        check("sleep 30", 0, 1, Some("it: took too long and was ended"));
    }
}
