//! Packages of the distribution, unpacked into a folder: images of tests are made of them, and no registry is asked.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::command::ran;

/// Held while the lists of packages are updated, which two cannot do at once.
static LISTS: Mutex<()> = Mutex::new(());

/// Makes sure that the lists have these packages.
///
/// # Panics
/// When apt-get is not there, or fails.
pub fn know(packages: &[&str]) {
    let _alone = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = Command::new("apt-cache").arg("show").args(packages).output();
    if !known.expect("this is a Debian").status.success() {
        ran(Command::new("apt-get").args(["update", "-qq"]));
    }
}

/// Downloads packages into a folder and unpacks them below another one, without installing anything.
///
/// # Panics
/// If they cannot be had: the layer would prove less than it says.
pub fn unpack<'a>(packages: impl Iterator<Item = &'a str>, downloads: &Path, root: &Path) {
    fs::create_dir_all(downloads).expect("written");
    fs::create_dir_all(root).expect("written");
    // As an unprivileged user, apt-get could not write into a folder of ours.
    let mut download = Command::new("apt-get");
    download.current_dir(downloads).args(["download", "-qq", "-o", "APT::Sandbox::User=root"]);
    ran(download.args(packages));
    for package in fs::read_dir(downloads).expect("it is there") {
        let package = package.expect("it can be read").path();
        ran(Command::new("dpkg").arg("-x").arg(package).arg(root));
    }
}
