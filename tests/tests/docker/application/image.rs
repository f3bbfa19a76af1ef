//! An image with nginx, postgres, redis and a shell, made of packages of the distribution: no registry is asked.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::packages;
use jaco_testkit::ran;

pub(super) const IMAGE: &str = "jaco-application:v1";

/// What is asked for; their dependencies come along.
const PACKAGES: [&str; 4] = ["nginx", "redis-server", "postgresql-15", "busybox-static"];

/// Beginnings of dependencies that nothing here runs: large ones, and those that only installing needs.
const LEFT_OUT: [&str; 9] =
    ["perl", "libperl", "libllvm", "libz3", "locales", "libc-l10n", "tzdata", "dpkg", "iproute2"];

/// What the scripts of the image are made of.
const APPLETS: [&str; 6] = ["sh", "wget", "httpd", "sleep", "cat", "echo"];

/// Writes a row and counts it, in both stores.
const API: &str = "#!/bin/sh
echo 'content-type: text/plain'
echo
psql -h db -U postgres -qtAc 'insert into visits default values' || echo 'no database'
echo \"rows $(psql -h db -U postgres -qtAc 'select count(*) from visits')\"
echo \"hits $(redis-cli -h cache incr hits)\"
";

const WEB: &str = "#!/bin/sh
echo 'content-type: text/plain'
echo
wget -qO- http://api:8080/cgi-bin/api || echo 'no api'
";

const DATABASE: &str = "#!/bin/sh
set -e
if [ ! -e /data/db/PG_VERSION ]; then
  initdb -D /data/db -A trust --no-locale -E UTF8 --no-sync
  echo 'host all all 0.0.0.0/0 trust' >> /data/db/pg_hba.conf
fi
exec postgres -D /data/db -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off
";

const WORKER: &str = "#!/bin/sh
set -e
while true; do
  redis-cli -h cache incr rounds
  psql -h db -U postgres -qtAc 'select count(*) from visits'
  sleep 1
done
";

/// The root of the image, as a folder.
pub(super) struct Root {
    folder: TempDir,
}

impl Root {
    /// Downloads the packages and unpacks them.
    pub(super) fn build() -> Self {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let root = Self { folder };
        fs::create_dir_all(root.path("tmp")).expect("written");
        packages::know(&PACKAGES);
        let names = root.closure();
        packages::unpack(names.iter().map(String::as_str), &root.at("packages"), &root.at("root"));
        root.trim();
        root.furnish();
        root
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.at("root").join(path)
    }

    /// Appends what runs a small program of the image, which takes libraries and name services from the image.
    pub(super) fn busybox(&self, inside: &mut Command) {
        inside.arg("chroot").arg(self.at("root")).arg("/bin/busybox");
    }

    /// The packages and all that they depend on, as if nothing was installed.
    fn closure(&self) -> Vec<String> {
        let nothing = self.at("installed");
        fs::write(&nothing, "").expect("written");
        let status = format!("Dir::State::status={}", nothing.display());
        let mut simulation = Command::new("apt-get");
        simulation.args(["-o", &status, "-s", "-qq", "--no-install-recommends", "install"]);
        let steps = ran(simulation.args(PACKAGES));
        let installed = steps.lines().filter_map(|line| line.strip_prefix("Inst "));
        let names = installed.filter_map(|rest| rest.split(' ').next());
        let is_wanted = |name: &&str| {
            !LEFT_OUT.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("-perl")
        };
        names.filter(is_wanted).map(str::to_owned).collect()
    }

    /// Each container is a copy of the image here.
    fn trim(&self) {
        for folder in fs::read_dir(self.path("usr/share")).expect("it is there") {
            let folder = folder.expect("it can be read").path();
            if folder.file_name().is_some_and(|name| name != "postgresql") {
                let removed = fs::remove_dir_all(&folder).or_else(|_| fs::remove_file(&folder));
                removed.expect("it is ours");
            }
        }
        for folder in ["usr/lib/postgresql/15/lib/bitcode", "usr/lib/systemd"] {
            // Not every version of the package has it.
            let _gone = fs::remove_dir_all(self.path(folder)).is_err();
        }
    }

    fn furnish(&self) {
        for folder in ["srv/cgi-bin", "data"] {
            fs::create_dir_all(self.path(folder)).expect("written");
        }
        chown(self.path("data"), Some(70), Some(70)).expect("we are root");
        fs::set_permissions(self.path("tmp"), Permissions::from_mode(0o1777)).expect("it is ours");
        let users = "root:x:0:0:root:/:/bin/sh\npostgres:x:70:70:postgres:/:/bin/sh\n";
        fs::write(self.path("etc/passwd"), users).expect("written");
        fs::write(self.path("etc/group"), "root:x:0:\npostgres:x:70:\n").expect("written");
        fs::write(self.path("srv/health"), "well\n").expect("written");
        for (path, text) in [
            ("srv/cgi-bin/api", API),
            ("srv/cgi-bin/web", WEB),
            ("bin/database", DATABASE),
            ("bin/worker", WORKER),
        ] {
            fs::write(self.path(path), text).expect("written");
            let mode = Permissions::from_mode(0o755);
            fs::set_permissions(self.path(path), mode).expect("it is ours");
        }
        for applet in APPLETS {
            // A package may have brought a program of that name.
            let _there = symlink("busybox", self.path("bin").join(applet)).is_err();
        }
    }

    /// Gives the image to an engine: `docker` is the command line for it.
    pub(super) fn import(&self, docker: &mut Command) {
        let path = "PATH=/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let import = docker.args(["import", "--change", &format!("ENV {path}"), "-", IMAGE]);
        let mut pack = Command::new("tar");
        pack.arg("-C").arg(self.at("root")).args(["-c", "."]).stdout(Stdio::piped());
        let mut pack = pack.spawn().expect("tar is there");
        let packed = pack.stdout.take().expect("it is piped");
        let imported = import.stdin(packed).output().expect("docker runs");
        assert!(imported.status.success(), "{imported:?}");
        assert!(pack.wait().expect("it ends").success());
    }
}
