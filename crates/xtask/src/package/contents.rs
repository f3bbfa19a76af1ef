//! Which files are in which package.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::control::Control;
use super::gzip::compressed;
use super::programs::{Program, Programs};
use super::{Release, date, read};

/// A file of a package.
#[derive(Debug)]
pub(super) struct Entry {
    /// From the root, without a leading slash.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Bytes(Vec<u8>),
    CopyOf(PathBuf),
    /// A folder with a mode of its own, or one that would not be there.
    Folder,
}

/// A Debian package.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) control: Control,
    pub(super) files: Vec<Entry>,
    /// Files that the administrator changes, with a leading slash.
    pub(super) conffiles: Vec<String>,
    /// Maintainer scripts by name.
    pub(super) scripts: Vec<(String, Vec<u8>)>,
}

/// What the packages share.
#[derive(Debug)]
pub(super) struct Material {
    /// Man pages by file name.
    pub(super) pages: Vec<(String, Vec<u8>)>,
    /// For bash, zsh and fish.
    pub(super) completions: [String; 3],
    /// The bill of materials.
    pub(super) bill: Vec<u8>,
    /// The folder `deploy`.
    pub(super) deploy: PathBuf,
    /// The root of the repository.
    pub(super) root: PathBuf,
}

const UNITS: [&str; 3] = ["jacod.service", "jacod-net.service", "jacod-edge.service"];

/// `jaco`: the command line, with its pages and completions.
pub(super) fn client(
    programs: &Programs,
    material: &Material,
    release: &Release,
) -> Result<Package> {
    let mut files = vec![program("usr/bin/jaco", &programs.jaco.path)];
    files.extend(pages(material, "usr/share/man", Section::Commands)?);
    files.extend(completions(material, "usr/share", "vendor-completions"));
    files.extend(documents(material, "jaco", release)?);
    let depends = format!("libc6 (>= {}), libgcc-s1", programs.glibc_of_client());
    let control = Control {
        package: "jaco",
        depends,
        recommends: "",
        suggests: "bash-completion",
        summary: "command line of JACO, which runs compose files on a cluster",
        description: "JACO runs compose files on a cluster of machines with a Docker Engine:\n\
             consensus, placement, rolling updates, networks and routes. This is the\n\
             program of its users, which talks to any node.",
    };
    Ok(Package { control, files, conffiles: Vec::new(), scripts: Vec::new() })
}

/// `jacod`: the daemon, with the units of its processes, their user and folders, and the default configuration.
pub(super) fn daemon(
    programs: &Programs,
    material: &Material,
    release: &Release,
) -> Result<Package> {
    let mut files = vec![
        program("usr/bin/jacod", &programs.jacod.path),
        // Keys may be named in it, and the unit keeps it from others in the same way.
        Entry { path: "etc/jaco".to_owned(), mode: 0o700, content: Content::Folder },
        Entry {
            path: "etc/jaco/jacod.yaml".to_owned(),
            mode: 0o600,
            content: Content::Bytes(read(&material.deploy.join("jacod.yaml"))?),
        },
    ];
    files.extend(beside(programs, "usr/lib"));
    files.extend(services(material, "usr/lib", "/usr/bin/jacod")?);
    files.extend(pages(material, "usr/share/man", Section::Daemons)?);
    files.extend(documents(material, "jacod", release)?);
    let script = |name: &str| {
        let path = material.deploy.join(format!("debian/jacod.{name}"));
        anyhow::Ok((name.to_owned(), read(&path)?))
    };
    let scripts = ["postinst", "prerm", "postrm"].map(script).into_iter().collect::<Result<_>>()?;
    let control = Control {
        package: "jacod",
        // The edge's unit calls `kill`, of procps.
        depends: format!("libc6 (>= {}), libgcc-s1, procps, systemd", programs.glibc_of_daemon()),
        recommends: "jaco, docker.io | docker-ce, nftables",
        suggests: "",
        summary: "daemon of JACO, which runs compose files on a cluster",
        description: "JACO runs compose files on a cluster of machines with a Docker Engine:\n\
             consensus, placement, rolling updates, networks and routes. This is the\n\
             program of its nodes: the daemon, the router of the cluster's networks, and\n\
             the edge for requests from outside.",
    };
    Ok(Package { control, files, conffiles: vec!["/etc/jaco/jacod.yaml".to_owned()], scripts })
}

/// Everything, below the folder that it is unpacked into, such as `/usr/local`.
pub(super) fn tarball(programs: &Programs, material: &Material) -> Result<Vec<Entry>> {
    let mut files = vec![
        program("bin/jaco", &programs.jaco.path),
        program("bin/jacod", &programs.jacod.path),
        plain("share/doc/jaco/LICENSE", read(&material.root.join("LICENSE"))?),
        plain("share/doc/jaco/CHANGELOG.md", read(&material.root.join("CHANGELOG.md"))?),
        plain("share/doc/jaco/jacod.yaml", read(&material.deploy.join("jacod.yaml"))?),
        plain("share/doc/jaco/sbom.cdx.json", material.bill.clone()),
    ];
    files.extend(beside(programs, "lib"));
    files.extend(services(material, "lib", "/usr/local/bin/jacod")?);
    files.extend(pages(material, "share/man", Section::Commands)?);
    files.extend(pages(material, "share/man", Section::Daemons)?);
    files.extend(completions(material, "share", "site-functions"));
    Ok(files)
}

fn program(path: &str, from: &Path) -> Entry {
    Entry { path: path.to_owned(), mode: 0o755, content: Content::CopyOf(from.to_owned()) }
}

/// The programs that the daemon's becomes, where it looks for them.
fn beside(programs: &Programs, lib: &str) -> impl Iterator<Item = Entry> {
    let entry =
        move |(name, from): &(&str, Program)| program(&format!("{lib}/jaco/{name}"), &from.path);
    programs.beside.iter().map(entry)
}

fn plain(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
    Entry { path: path.into(), mode: 0o644, content: Content::Bytes(bytes.into()) }
}

/// Units of the processes, and what makes their user and folders.
fn services(material: &Material, lib: &str, program: &str) -> Result<Vec<Entry>> {
    let mut files = Vec::new();
    for unit in UNITS {
        let path = material.deploy.join("systemd").join(unit);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?;
        files.push(plain(format!("{lib}/systemd/system/{unit}"), installed(&text, program)));
    }
    for (from, to) in [("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")] {
        let text = read(&material.deploy.join(format!("debian/jacod.{from}")))?;
        files.push(plain(format!("{lib}/{to}/jacod.conf"), text));
    }
    Ok(files)
}

/// A unit as it is installed: with the program's place, and without the words for who copies it by hand.
fn installed(unit: &str, program: &str) -> String {
    let (_, unit) = unit.split_once("[Unit]").expect("a unit has this section");
    format!("[Unit]{}", unit.replace("/usr/local/bin/jacod", program))
}

/// A section of the manual.
#[derive(Clone, Copy)]
enum Section {
    Commands,
    Daemons,
}

fn pages(material: &Material, folder: &str, section: Section) -> Result<Vec<Entry>> {
    let (number, suffix) = match section {
        Section::Commands => (1, ".1"),
        Section::Daemons => (8, ".8"),
    };
    let own = material.pages.iter().filter(|(name, _)| name.ends_with(suffix));
    own.map(|(name, page)| Ok(plain(format!("{folder}/man{number}/{name}.gz"), compressed(page)?)))
        .collect()
}

/// The scripts where the shells look for those of packages; zsh has one folder for Debian's and one for others.
fn completions(material: &Material, share: &str, zsh: &str) -> Vec<Entry> {
    let [for_bash, for_zsh, for_fish] = &material.completions;
    vec![
        plain(format!("{share}/bash-completion/completions/jaco"), for_bash.as_str()),
        plain(format!("{share}/zsh/{zsh}/_jaco"), for_zsh.as_str()),
        plain(format!("{share}/fish/vendor_completions.d/jaco.fish"), for_fish.as_str()),
    ]
}

/// What each package says of itself.
fn documents(material: &Material, package: &str, release: &Release) -> Result<Vec<Entry>> {
    let folder = format!("usr/share/doc/{package}");
    let version = release.debian();
    let day = date(release.epoch, "--rfc-email")?;
    let history = format!(
        "{package} ({version}) stable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {day}\n",
        release.maintainer
    );
    Ok(vec![
        plain(format!("{folder}/copyright"), read(&material.deploy.join("debian/copyright"))?),
        plain(format!("{folder}/changelog.Debian.gz"), compressed(history.as_bytes())?),
        plain(
            format!("{folder}/changelog.gz"),
            compressed(&read(&material.root.join("CHANGELOG.md"))?)?,
        ),
        plain(format!("{folder}/sbom.cdx.json.gz"), compressed(&material.bill)?),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_name_the_installed_program() {
        let unit = "# Install as x, then: y\n[Unit]\nDescription=z\n\n[Service]\nExecStart=/usr/local/bin/jacod net\n";
        let expected = "[Unit]\nDescription=z\n\n[Service]\nExecStart=/usr/bin/jacod net\n";
        assert_eq!(installed(unit, "/usr/bin/jacod"), expected);
    }
}
