//! Commands that run in a container before it is stopped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jaco_testkit::{Cluster, Engine};

/// The image holds one program: shell and libraries are those of the machine.
fn compose(out: &Path, revision: usize) -> String {
    let out = out.display();
    format!(
        "
name: shop
services:
  web:
    image: jaco-hello:v1
    command: [serve]
    environment: {{OF: container, REVISION: '{revision}'}}
    volumes: ['/usr:/usr:ro', '/usr/lib:/lib:ro', '/usr/lib64:/lib64:ro', '{out}:/out']
    pre_stop:
      - command: [/usr/bin/sh, -c, 'echo $$REVISION $$OF $$TO $$(/usr/bin/id -u) $$(pwd) >> /out/said']
        environment: {{TO: hook}}
        user: '1234'
        working_dir: /out
      - command: /usr/bin/sh -c '/usr/bin/id -u >> /out/said'
"
    )
}

/// R-HEAL-3, R-IN-2: a container that is replaced by a rollout, and the last one when its deployment is deleted, runs
/// its hooks in their order, with their environment beside its own, their user and working directory.
#[tokio::test(flavor = "multi_thread")]
async fn pre_stop_hooks_run_when_a_replica_is_replaced_and_deleted() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let folder = cluster.nodes[0].folder();
    // Not in the folder of the compose file: what is there is uploaded.
    let out = tempfile::tempdir().expect("there is room");
    let out = out.path();
    fs::set_permissions(out, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let said = || fs::read_to_string(out.join("said")).unwrap_or_default();
    let run = |args: &[&str]| {
        let ran = cluster.cli(0, args);
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    let file = folder.join("compose.yaml");
    let path = file.to_str().expect("a temporary folder has a plain name");
    for revision in [1, 2] {
        fs::write(&file, compose(out, revision)).expect("the test's folder can be written");
        run(&["apply", "--timeout", "60s", "-f", path]);
        assert_eq!(said().lines().count(), 2 * (revision - 1), "{}", said());
    }
    run(&["delete", "shop", "--yes"]);
    let said = said();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, ["1 container hook 1234 /out", "0", "2 container hook 1234 /out", "0"]);
}
