//! The machine's Docker Engine through its command line.

use std::process::Command;

/// The image of the tests, which `cargo xtask test docker` builds.
pub const IMAGE: &str = "jaco-hello:v1";

/// Runs `docker` with these arguments and hands back what it printed.
///
/// # Panics
/// When it cannot be run, or fails; the message is its own.
pub fn docker(args: &[&str]) -> String {
    let out = Command::new("docker").args(args).output();
    let out = out.expect("the docker command is there: `cargo xtask test docker` installs it");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "docker {}: {said}", args.join(" "));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// The names of a cluster's containers, running or not, in order.
#[must_use]
pub fn containers(cluster: &str) -> Vec<String> {
    list(&["ps", "--all", "--format", "{{.Names}}", "--filter", &label(cluster)])
}

/// The ids and start times of a cluster's running containers, in order.
#[must_use]
pub fn running(cluster: &str) -> Vec<String> {
    let ids = list(&["ps", "--no-trunc", "--format", "{{.ID}}", "--filter", &label(cluster)]);
    let mut seen = Vec::new();
    for id in ids {
        let started = docker(&["inspect", "--format", "{{.Id}} {{.State.StartedAt}}", &id]);
        seen.push(started);
    }
    seen.sort();
    seen
}

/// How many of a cluster's containers run, counted in one look.
#[must_use]
pub fn running_now(cluster: &str) -> usize {
    list(&["ps", "--quiet", "--filter", &label(cluster)]).len()
}

/// Removes what a cluster left on the engine: containers, networks, volumes.
pub(crate) fn remove_all(cluster: &str) {
    let label = label(cluster);
    for (what, remove) in [("ps", "rm"), ("network", "network"), ("volume", "volume")] {
        let listed = match what {
            "ps" => list(&["ps", "--all", "--quiet", "--filter", &label]),
            kind => list(&[kind, "ls", "--quiet", "--filter", &label]),
        };
        for id in listed {
            let args: &[&str] = match remove {
                "rm" => &["rm", "--force", "--volumes", &id],
                kind => &[kind, "rm", &id],
            };
            // Called while a test unwinds, too: what cannot be removed must not hide its failure.
            let _left_over = Command::new("docker").args(args).output().is_err();
        }
    }
}

fn label(cluster: &str) -> String {
    format!("label=jaco.cluster_id={cluster}")
}

fn list(args: &[&str]) -> Vec<String> {
    let mut lines: Vec<_> = docker(args).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
