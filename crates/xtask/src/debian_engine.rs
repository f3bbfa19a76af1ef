//! The Docker Engine of another release of Debian, unpacked and not installed: for tests on machines of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{process, say};

/// The keys of Debian's archive.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A folder with the `dockerd` of a release such as `trixie`, and what only it starts; containerd and runc are the
/// machine's. Downloaded once.
///
/// # Errors
/// If apt-get is missing, does not know the release, or cannot download it.
pub(crate) fn unpacked(workspace: &Workspace, release: &str) -> Result<PathBuf> {
    if release.is_empty() || !release.bytes().all(|byte| byte.is_ascii_lowercase()) {
        bail!("{release:?} is no release of Debian: say trixie, or sid");
    }
    let folder = workspace.scratch()?.join("engines").join(release);
    let programs = folder.join("root/usr/sbin");
    if !programs.join("dockerd").is_file() {
        say::note(&format!("downloading the Docker Engine of Debian {release}"));
        download(release, &folder).with_context(|| format!("no Docker Engine of {release}"))?;
    }
    let version = process::capture(Command::new(programs.join("dockerd")).arg("--version"))?;
    say::note(&format!("machines of tests run {}", version.trim()));
    Ok(programs)
}

fn download(release: &str, folder: &Path) -> Result<()> {
    let lists = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial", "parts"] {
        let path = lists.join(part);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {path:?}"))?;
    }
    let source = format!("deb [signed-by={KEYRING}] {} {release} main\n", archive()?);
    std::fs::write(lists.join("sources.list"), source)?;
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        for (option, name) in [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "parts"),
            ("Dir::State::lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            command.arg("-o").arg(format!("{option}={}", lists.join(name).display()));
        }
        command.args(["-qq", "-o", "APT::Sandbox::User=root"]).args(words).current_dir(folder);
        process::run(&mut command)
    };
    apt(&["update"])?;
    // By its release: the package that is installed is a candidate too.
    apt(&["download", &format!("docker.io/{release}")])?;
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut packages = entries.into_iter().map(|entry| entry.path());
    let package = packages.find(|path| path.extension().is_some_and(|end| end == "deb"));
    let package = package.context("apt-get downloaded nothing")?;
    let root = folder.join("root");
    process::run(Command::new("dpkg").arg("--extract").arg(&package).arg(&root))?;
    std::fs::remove_file(&package).with_context(|| format!("cannot remove {package:?}"))
}

/// Where this machine gets Debian's packages from.
fn archive() -> Result<String> {
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let known = process::capture(command.args(["Origin: Debian", "Component: main"]))?;
    let archive = known.lines().find(|uri| uri.trim_end_matches('/').ends_with("/debian"));
    archive.map(str::to_owned).context("this machine has no source of Debian's packages")
}
