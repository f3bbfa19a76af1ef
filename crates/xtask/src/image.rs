//! The images `jaco-hello:v1` and `jaco-hello:v2`, built FROM scratch: no registry is asked for anything.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{process, say};

/// The versions that exist; they differ in what they answer.
pub(crate) const VERSIONS: [&str; 2] = ["v1", "v2"];

/// The image's name for a version.
pub(crate) fn name(version: &str) -> String {
    format!("jaco-hello:{version}")
}

/// Builds the program and both images. Cheap when nothing changed: cargo and the engine both remember.
///
/// # Errors
/// If the program does not build or link statically, or the engine refuses the image.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    say::note("building the static program of the image");
    let program = build_program(workspace)?;
    let context = prepare_context(workspace, &program)?;
    for version in VERSIONS {
        build_image(&context, version)?;
        // An image whose program needs a loader builds without complaint and never starts.
        process::run(Command::new("docker").args(["run", "--rm", &name(version), "sleep", "0"]))
            .with_context(|| format!("{} does not run FROM scratch", name(version)))?;
        say::note(&format!("built {}", name(version)));
    }
    Ok(())
}

/// Builds `hello` without any shared library. It has a target folder of its own: the flags would else rebuild the rest.
fn build_program(workspace: &Workspace) -> Result<PathBuf> {
    let host = host()?;
    let target = workspace.target.join("hello");
    let mut command = workspace.cargo();
    command
        .args(["build", "--quiet", "--release", "--package", "jaco-hello", "--bin", "hello"])
        // What it would be faster by is not worth the time that it takes.
        .args(["--config", "profile.release.lto=\"off\""])
        // With the target named, the flags do not reach build scripts and macros, which cannot be static.
        .args(["--target", &host])
        .arg("--target-dir")
        .arg(&target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    process::run(&mut command)?;
    Ok(target.join(host).join("release/hello"))
}

/// The machine's own target triple.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = process::capture(Command::new(rustc).arg("-vV"))?;
    host_in(&text).context("rustc does not name its host")
}

fn host_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

/// A folder with nothing but the program and its Dockerfile: all of it is sent to the engine.
fn prepare_context(workspace: &Workspace, program: &Path) -> Result<PathBuf> {
    let context = workspace.scratch()?.join("image");
    std::fs::create_dir_all(&context).with_context(|| format!("cannot create {context:?}"))?;
    let dockerfile = workspace.root.join("examples/hello/Dockerfile");
    for (from, name) in [(dockerfile.as_path(), "Dockerfile"), (program, "hello")] {
        std::fs::copy(from, context.join(name))
            .with_context(|| format!("cannot copy {} into {context:?}", from.display()))?;
    }
    Ok(context)
}

/// The classic builder needs no plugin and pulls no front end.
fn build_image(context: &Path, version: &str) -> Result<()> {
    let mut command = Command::new("docker");
    command
        .env("DOCKER_BUILDKIT", "0")
        .args(["build", "--quiet", "--tag", &name(version)])
        .args(["--build-arg", &format!("VERSION={version}")])
        .arg(context);
    let output = process::capture_all(&mut command)?;
    if !output.status.success() {
        bail!("docker build of {} failed: {}", name(version), output.stderr.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read() {
        let text = "rustc 1.95.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host_in(text).as_deref(), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(host_in("rustc"), None);
    }
}
