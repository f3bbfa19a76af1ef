//! Images that stand in for those of public projects, under their names: they listen where the real ones do, answer with
//! the name of their container, have what health checks of the projects run, and end where something that they need to
//! start cannot be reached.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use tempfile::TempDir;

use jaco_testkit::engines::Dockerd;
use jaco_testkit::packages;
use jaco_testkit::ran;

const PACKAGE: &str = "busybox-static";

/// What the scripts of the image, and those in the compose files, are made of.
const APPLETS: [&str; 9] =
    ["sh", "wget", "httpd", "sleep", "echo", "hostname", "grep", "mkdir", "timeout"];

/// A program that ends if its database is not there.
const SERVE: &str = "#!/bin/sh
for place in $NEEDS; do
  timeout 5 wget -qO /dev/null \"http://$place/\" || { echo \"cannot reach $place\"; exit 1; }
done
hostname > /srv/index.html
for port in $PORTS; do httpd -p \"$port\" -h /srv; done
exec sleep infinity
";

/// What health checks run: each asks the port of its own server.
const CHECK: &str = "#!/bin/sh
case \"${0##*/}\" in
  pg_isready) url=http://127.0.0.1:5432/ ;;
  redis-cli|valkey-cli) url=http://127.0.0.1:6379/ ;;
  mc) url=http://127.0.0.1:9000/ ;;
  curl) url=$2 ;;
esac
wget -qO /dev/null \"$url\" && echo PONG
";

/// The paths that health checks ask for.
const PATHS: [&str; 3] = ["ping", "http-bind", "about/health"];

/// What an image does.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Behaviour {
    /// Where it listens.
    pub(super) ports: Vec<u16>,
    /// What it must reach to start: `name:port`.
    pub(super) needs: Vec<String>,
}

/// The files of all images.
pub(super) struct Root {
    folder: TempDir,
}

impl Root {
    pub(super) fn build() -> Self {
        let root = Self { folder: tempfile::tempdir().expect("temporary files can be made") };
        packages::know(&[PACKAGE]);
        packages::unpack([PACKAGE].into_iter(), &root.at("packages"), &root.at("root"));
        let srv = root.at("root/srv");
        for path in PATHS {
            let path = srv.join(path);
            fs::create_dir_all(path.parent().expect("it is below /srv")).expect("written");
            fs::write(path, "well\n").expect("written");
        }
        // Some of the projects run their images as another user.
        fs::set_permissions(&srv, Permissions::from_mode(0o777)).expect("it is ours");
        for (name, text) in [("serve", SERVE), ("check", CHECK)] {
            let path = root.at("root/bin").join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
        }
        root.link("busybox", &APPLETS);
        root.link("serve", &["minio"]);
        root.link("check", &["pg_isready", "redis-cli", "valkey-cli", "mc", "curl"]);
        let (root_folder, file) = (root.at("root"), root.at("tar"));
        let mut pack = std::process::Command::new("tar");
        ran(pack.arg("-C").arg(root_folder).arg("-cf").arg(file).arg("."));
        root
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn link(&self, program: &str, names: &[&str]) {
        for name in names {
            symlink(program, self.at("root/bin").join(name)).expect("written");
        }
    }

    /// Gives each of the engines all of the images.
    pub(super) fn import(&self, engines: &[Dockerd], images: &BTreeMap<String, Behaviour>) {
        let (first, others) = engines.split_first().expect("there is an engine");
        for (name, behaviour) in images {
            let ports: Vec<String> = behaviour.ports.iter().map(u16::to_string).collect();
            let changes = [
                "ENTRYPOINT [\"/bin/serve\"]".to_owned(),
                "ENV PATH=/bin".to_owned(),
                format!("ENV PORTS=\"{}\"", ports.join(" ")),
                format!("ENV NEEDS=\"{}\"", behaviour.needs.join(" ")),
            ];
            let mut import = first.command(&["import"]);
            for change in changes {
                import.arg("--change").arg(change);
            }
            ran(import.arg(self.at("tar")).arg(name));
        }
        std::thread::scope(|scope| {
            for engine in others {
                scope.spawn(|| copy(first, engine, images.keys()));
            }
        });
    }
}

fn copy<'a>(from: &Dockerd, to: &Dockerd, images: impl Iterator<Item = &'a String>) {
    let mut save = from.command(&["save"]).args(images).stdout(Stdio::piped()).spawn();
    let save = save.as_mut().expect("docker runs");
    let load = to.command(&["load"]).stdin(save.stdout.take().expect("it is piped")).output();
    let load = load.expect("docker runs");
    assert!(load.status.success(), "{load:?}");
    assert!(save.wait().expect("it ends").success());
}
