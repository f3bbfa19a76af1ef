//! The root of an image, made of packages of the distribution: no registry is asked.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::command::ran;
use tempfile::TempDir;

use crate::packages;

/// Beginnings of dependencies that nothing here runs: large ones, and those that only installing needs.
const LEFT_OUT: [&str; 9] =
    ["perl", "libperl", "libllvm", "libz3", "locales", "libc-l10n", "tzdata", "dpkg", "iproute2"];

/// A folder that becomes an image.
#[derive(Debug)]
pub struct Root {
    folder: TempDir,
}

impl Root {
    /// Downloads packages with all that they depend on, and unpacks them.
    ///
    /// # Panics
    /// When they cannot be had.
    #[must_use]
    pub fn of(packages: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let root = Self { folder };
        fs::create_dir_all(root.path("tmp")).expect("written");
        packages::know(packages);
        let names = root.closure(packages);
        packages::unpack(names.iter().map(String::as_str), &root.at("packages"), &root.at("root"));
        fs::set_permissions(root.path("tmp"), Permissions::from_mode(0o1777)).expect("it is ours");
        root
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path of the image.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.at("root").join(path)
    }

    /// Appends what runs a program of the image, which takes libraries and name services from the image.
    pub fn inside(&self, command: &mut Command) {
        command.arg("chroot").arg(self.at("root"));
    }

    /// The same of a small program, whose name and arguments come next.
    pub fn busybox(&self, command: &mut Command) {
        self.inside(command);
        command.arg("/bin/busybox");
    }

    /// The packages and all that they depend on, as if nothing was installed.
    fn closure(&self, packages: &[&str]) -> Vec<String> {
        let nothing = self.at("installed");
        fs::write(&nothing, "").expect("written");
        let status = format!("Dir::State::status={}", nothing.display());
        let mut simulation = Command::new("apt-get");
        simulation.args(["-o", &status, "-s", "-qq", "--no-install-recommends", "install"]);
        let steps = ran(simulation.args(packages));
        let installed = steps.lines().filter_map(|line| line.strip_prefix("Inst "));
        let names = installed.filter_map(|rest| rest.split(' ').next());
        let is_wanted = |name: &&str| {
            !LEFT_OUT.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("-perl")
        };
        names.filter(is_wanted).map(str::to_owned).collect()
    }

    /// Leaves of `/usr/share` only this: each container is a copy of the image here.
    ///
    /// # Panics
    /// When it cannot be removed.
    pub fn trim(&self, kept: &str) {
        for folder in fs::read_dir(self.path("usr/share")).expect("it is there") {
            let folder = folder.expect("it can be read").path();
            if folder.file_name().is_some_and(|name| name != kept) {
                let removed = fs::remove_dir_all(&folder).or_else(|_| fs::remove_file(&folder));
                removed.expect("it is ours");
            }
        }
    }

    /// Writes a program or a script.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn script(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).expect("written");
        fs::set_permissions(self.path(path), Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// Names of busybox.
    pub fn applets(&self, names: &[&str]) {
        for name in names {
            // A package may have brought a program of that name.
            let _there = symlink("busybox", self.path("bin").join(name)).is_err();
        }
    }

    /// Gives it to an engine as an image, whose programs are in `path`: `docker` is the command line for the engine.
    ///
    /// # Panics
    /// When it is refused.
    pub fn import(&self, docker: &mut Command, image: &str, path: &str) {
        let import = docker.args(["import", "--change", &format!("ENV PATH={path}"), "-", image]);
        let mut pack = Command::new("tar");
        pack.arg("-C").arg(self.at("root")).args(["-c", "."]).stdout(Stdio::piped());
        let mut pack = pack.spawn().expect("tar is there");
        let packed = pack.stdout.take().expect("it is piped");
        let imported = import.stdin(packed).output().expect("docker runs");
        assert!(imported.status.success(), "{imported:?}");
        assert!(pack.wait().expect("it ends").success());
    }
}
