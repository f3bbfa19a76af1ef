//! Debian's cloud kernel, downloaded and unpacked, and never installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Depends on the kernel of the machine's release.
const NEWEST: &str = "linux-image-cloud-amd64";

/// A kernel and its modules.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    /// The files of modules, by their names with `_`.
    modules: BTreeMap<String, PathBuf>,
}

/// Downloads the kernel and unpacks it into a folder, unless it is there.
///
/// # Panics
/// If it cannot be had: the tests would prove less than they say.
pub(super) fn kernel(folder: &Path) -> Kernel {
    let machine = std::env::consts::ARCH;
    assert_eq!(machine, "x86_64", "these tests know no kernel for this machine");
    let root = folder.join("root");
    if !root.exists() {
        fs::create_dir_all(folder).unwrap();
        let package = package();
        // As an unprivileged user, apt-get could not write into a folder of ours.
        let mut download = Command::new("apt-get");
        download.current_dir(folder).args(["download", "-qq", "-o", "APT::Sandbox::User=root"]);
        output(download.arg(&package));
        for file in fs::read_dir(folder).unwrap() {
            output(Command::new("dpkg-deb").arg("-x").arg(file.unwrap().path()).arg(&root));
        }
    }
    let images = fs::read_dir(root.join("boot")).unwrap().map(|file| file.unwrap().path());
    let named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("vmlinuz");
    let image = images.into_iter().find(named).expect("the package has a kernel");
    let mut modules = BTreeMap::new();
    // Where /lib is a link to it, packages have this folder.
    for place in ["lib/modules", "usr/lib/modules"] {
        find_modules(&root.join(place), &mut modules);
    }
    Kernel { image, modules }
}

/// The package of the kernel itself.
fn package() -> String {
    let ask = || Command::new("apt-cache").args(["depends", NEWEST]).output().unwrap();
    let mut answer = ask();
    if !answer.status.success() {
        output(Command::new("apt-get").args(["update", "-qq"]));
        answer = ask();
    }
    let text = String::from_utf8(answer.stdout).unwrap();
    let depends = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    depends.unwrap_or_else(|| panic!("{NEWEST} depends on no kernel: {text}")).to_owned()
}

fn find_modules(folder: &Path, modules: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            find_modules(&path, modules);
        } else if let Some((name, "ko" | "ko.xz")) =
            path.file_name().unwrap().to_str().unwrap().split_once('.')
        {
            modules.insert(name.replace('-', "_"), path);
        }
    }
}

impl Kernel {
    /// These modules and those that they depend on, each after what it depends on.
    pub(super) fn modules(&self, names: &[&str]) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for name in names {
            self.add(name, &mut found);
        }
        found
    }

    fn add(&self, name: &str, found: &mut Vec<(String, Vec<u8>)>) {
        if found.iter().any(|(it, _)| it == name) {
            return;
        }
        let path = self.modules.get(name).unwrap_or_else(|| panic!("no module {name}"));
        let content = match path.extension().is_some_and(|extension| extension == "xz") {
            true => output(Command::new("xz").arg("-dc").arg(path)),
            false => fs::read(path).unwrap(),
        };
        for name in dependencies(&content) {
            self.add(&name, found);
        }
        found.push((name.to_owned(), content));
    }
}

/// A module says what it depends on, as text between two zeros.
fn dependencies(module: &[u8]) -> Vec<String> {
    let lines = module.split(|byte| *byte == 0);
    let mut depends = lines.filter_map(|line| line.strip_prefix(b"depends="));
    let names = depends.next().expect("each module says so, although it may be nothing");
    let names = String::from_utf8(names.to_vec()).unwrap().replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Runs to the end, and returns what it printed.
pub(super) fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    output.stdout
}
