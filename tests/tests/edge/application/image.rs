//! An image with nginx, postgres, redis and a shell.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use jaco_testkit::root::Root;

pub(super) const IMAGE: &str = "jaco-application:v1";

/// What is asked for; their dependencies come along.
const PACKAGES: [&str; 4] = ["nginx", "redis-server", "postgresql-15", "busybox-static"];

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

/// Makes the root of the image.
pub(super) fn build() -> Root {
    let root = Root::of(&PACKAGES);
    root.trim("postgresql");
    for folder in ["usr/lib/postgresql/15/lib/bitcode", "usr/lib/systemd"] {
        // Not every version of the package has it.
        let _gone = fs::remove_dir_all(root.path(folder)).is_err();
    }
    furnish(&root);
    root
}

fn furnish(root: &Root) {
    for folder in ["srv/cgi-bin", "data"] {
        fs::create_dir_all(root.path(folder)).expect("written");
    }
    chown(root.path("data"), Some(70), Some(70)).expect("we are root");
    let users = "root:x:0:0:root:/:/bin/sh\npostgres:x:70:70:postgres:/:/bin/sh\n";
    fs::write(root.path("etc/passwd"), users).expect("written");
    fs::write(root.path("etc/group"), "root:x:0:\npostgres:x:70:\n").expect("written");
    fs::write(root.path("srv/health"), "well\n").expect("written");
    for (path, text) in [
        ("srv/cgi-bin/api", API),
        ("srv/cgi-bin/web", WEB),
        ("bin/database", DATABASE),
        ("bin/worker", WORKER),
    ] {
        root.script(path, text);
    }
    root.applets(&APPLETS);
}

/// Gives the image to an engine: `docker` is the command line for it.
pub(super) fn import(root: &Root, docker: &mut Command) {
    let path = "/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    root.import(docker, IMAGE, path);
}
