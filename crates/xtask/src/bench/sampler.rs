//! What it costs a node to measure itself and its containers: the sampler's own stopwatch.

use anyhow::{Context, Result};

use super::build::Build;
use super::table::{Promise, Row};
use crate::process;
use crate::workspace::Workspace;

const RUNS: usize = 3;
const CONTAINERS: &str = "100";

/// The processor time of one look.
pub(super) const LOOK: &str = "sampler, one look at 100 containers";

/// Looks at files like those that the kernel has for so many containers.
///
/// # Errors
/// If the stopwatch does not build or shows no time.
pub(super) fn measure(workspace: &Workspace, build: Build) -> Result<Vec<Row>> {
    let mut ours = Vec::new();
    for _ in 0..RUNS {
        let mut command = workspace.cargo();
        command.args(["run", "--quiet"]).args(build.arguments());
        command.args(["-p", "jaco-agent"]);
        command.args(["--example", "sample", "--", "own", CONTAINERS]);
        let text = process::capture(&mut command)?;
        ours.push(millis(&text).context("the sampler's stopwatch shows no time")?);
    }
    let (name, unit, promise) = (LOOK.to_owned(), "ms".to_owned(), Promise::None);
    Ok(vec![Row { name, unit, ours, theirs: None, promise }])
}

/// The figure in `100 containers, 100 measured: 0.321 ms of processor time a look`; none where not all
/// were measured.
fn millis(text: &str) -> Option<f64> {
    let (measured, took) = text.trim().split_once(": ")?;
    let all = format!("{CONTAINERS} containers, {CONTAINERS} measured");
    let took = took.strip_suffix(" ms of processor time a look").filter(|_| measured == all)?;
    took.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_read() {
        let line = "100 containers, 100 measured: 0.321 ms of processor time a look\n";
        assert_eq!(millis(line), Some(0.321));
        assert_eq!(millis("100 containers, 0 measured: 0.001 ms of processor time a look"), None);
        assert_eq!(millis(""), None);
    }
}
