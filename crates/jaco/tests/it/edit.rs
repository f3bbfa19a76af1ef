//! `jaco edit`: what is opened, asked, sent and kept.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use serde_json::{Value, json};

use crate::fixture::{Run, Session, shop};

/// A deployment with everything that an edit must not lose, and with texts that are hard to print.
fn stored() -> v1::GetDeploymentResponse {
    let upload = |name: &str, byte: u8| v1::FileUpload {
        name: name.to_owned(),
        tree: vec![byte; 32].into(),
    };
    let model = json!({
        "name": "shop",
        "configs": { "app": { "file": "app.toml" }, "own": { "content": "a $b\n" } },
        "secrets": { "token": { "environment": "TOKEN" }, "shared": { "external": true } },
        "services": { "tool": { "image": "tool:1", "profiles": ["debug"] }, "web": {
            "image": "web:1",
            "command": ["sh", "-c", "echo $HOME # it's"],
            "labels": { "jaco.restart": "4" },
            "deploy": { "replicas": 2 },
            "configs": [{ "source": "app" }, { "source": "own" }],
            "secrets": [{ "source": "token" }, { "source": "shared" }],
            "volumes": [{
                "type": "bind", "source": "conf", "target": "/conf", "read_only": true
            }],
        } },
    });
    v1::GetDeploymentResponse {
        name: "shop".to_owned(),
        revision: 3,
        compose_json: model.to_string(),
        overlay_yaml: "deployment: shop\n".to_owned(),
        environment_toml: "[web]\nmemory = '64 MB'\n".to_owned(),
        binds: vec![upload("conf", 1)],
        configs: vec![upload("app", 2)],
        secrets: vec![upload("token", 3)],
        ..Default::default()
    }
}

/// Has revision 3 of `shop`, and keeps the requests.
#[derive(Default)]
struct Cluster {
    applied: Arc<Mutex<Vec<v1::ApplyRequest>>>,
    refuse: Option<ErrorCode>,
}

impl Script for Cluster {
    fn get_deployment(
        &self,
        request: v1::GetDeploymentRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetDeploymentResponse> {
        assert_eq!((request.name.as_str(), request.revision), ("shop", 0));
        Ok(stored())
    }

    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        if let Some(code) = self.refuse.filter(|_| !request.dry_run) {
            return Err(Rejection::new(code, "revision 4 is there"));
        }
        let preview = request.dry_run.then(v1::Preview::default);
        if !request.dry_run {
            self.applied.lock().unwrap().push(request);
        }
        Ok(v1::ApplyResponse {
            deployment: "shop".to_owned(),
            revision: 4,
            change: "updated".to_owned(),
            raft_index: 40,
            preview,
            ..Default::default()
        })
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let mut status = shop("active", ["running"; 2]);
        status.deployments[0].revision = 4;
        Ok(Feed::open(vec![status]))
    }
}

/// Edits with this command line for the shell, and returns what was applied.
fn edit(cluster: Cluster, editor: &str, line: &str) -> (Session, Run, Vec<v1::ApplyRequest>) {
    let applied = Arc::clone(&cluster.applied);
    let session = Session::with(cluster);
    std::fs::create_dir(session.folder.path().join("tmp")).unwrap();
    let run = again(&session, editor, line);
    let applied = applied.lock().unwrap().clone();
    (session, run, applied)
}

fn again(session: &Session, editor: &str, line: &str) -> Run {
    let mut command: Command = session.command(line);
    command.env("EDITOR", editor).env("TMPDIR", session.folder.path().join("tmp"));
    command.env("PATH", "/usr/bin:/bin");
    session.result(command.output().unwrap())
}

/// The files that are kept, by name.
fn kept(session: &Session) -> BTreeMap<String, String> {
    let folders = std::fs::read_dir(session.folder.path().join("tmp")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let read = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(file.path()).unwrap())
    };
    files.map(|file| read(file.unwrap())).collect()
}

const CHANGE: &str = "sed -i s/web:1/web:2/";

/// R-IN-1, R-IN-4: what is changed is applied, on the revision that was edited, and everything else stays: texts with
/// dollars, uploaded files, configs and secrets, jaco.yaml and jaco.services.toml.
#[test]
fn only_what_is_edited_changes() {
    let (session, run, applied) = edit(Cluster::default(), CHANGE, "edit shop --yes");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("- services.web.image: \"web:1\"\n+ services.web.image: \"web:2\"\n"));
    let differences = run.err.lines().filter(|line| line.starts_with(['+', '-']));
    assert_eq!(differences.count(), 2, "{run:?}");
    let [request] = applied.as_slice() else { panic!("{applied:?}") };
    let stored = stored();
    assert_eq!((request.deployment.as_str(), request.based_on), ("shop", 3));
    assert_eq!(request.overlay_yaml, stored.overlay_yaml);
    assert_eq!(request.environment_toml, stored.environment_toml);
    assert_eq!(
        (&request.binds, &request.configs, &request.secrets),
        (&stored.binds, &stored.configs, &stored.secrets)
    );
    let sent: Value = serde_json::from_str(&request.compose_json).unwrap();
    assert_eq!(sent["services"]["web"]["image"], "web:2");
    assert_eq!(sent["services"]["tool"]["image"], "tool:1", "its profile was active");
    assert_eq!(sent["services"]["web"]["command"][2], "echo $HOME # it's");
    assert_eq!(sent["configs"]["own"]["content"], "a $b\n");
    assert_eq!(sent["services"]["web"]["volumes"][0]["source"], "conf");
    assert_eq!(kept(&session), BTreeMap::new(), "there may be passwords in them");
}

/// Nothing is asked or sent if nothing was changed; a comment is no change.
#[test]
fn unchanged_files_change_nothing() {
    for editor in ["true", "sed -i 's/^# shop/# mine/'"] {
        let (session, run, applied) = edit(Cluster::default(), editor, "edit shop -o json");
        assert_eq!((run.code, applied.len()), (Some(0), 0), "{run:?}");
        let json: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((&json["outcome"], &json["revision"]), (&json!("unchanged"), &json!(3)));
        assert_eq!(kept(&session), BTreeMap::new());
    }
}

/// Fails with this exit code and these words, applies nothing, and keeps the text, which can be edited on.
fn refused(cluster: Cluster, editor: &str, line: &str, code: i32, words: &str) {
    let (session, run, applied) = edit(cluster, editor, line);
    assert_eq!((run.code, applied.len()), (Some(code), 0), "{run:?}");
    assert!(run.err.contains(words), "{run:?}");
    let help = "help: your files are kept: jaco edit shop --from HOME/tmp/jaco-edit-shop-";
    assert!(run.err.contains(help), "{run:?}");
    assert!(kept(&session).contains_key("compose.yaml"));
    let folder = run.err.split_once("--from HOME").unwrap().1.split_once(" goes").unwrap().0;
    let folder = session.folder.path().join(folder.trim_start_matches('/'));
    let next = again(&session, "cat", &format!("edit shop --from {} -q", folder.display()));
    assert!(next.out.contains("# shop, revision 3"), "{next:?}");
}

/// R-CLI-1, R-CLI-7: whatever is refused is not applied, has the exit code of `jaco apply`, and the text is kept.
#[test]
fn refused_text_is_kept() {
    let stale = Cluster { refuse: Some(ErrorCode::StalePlan), ..Cluster::default() };
    refused(stale, CHANGE, "edit shop --yes", 8, "error[stale_plan]: revision 4 is there");
    // Nobody is asked.
    refused(Cluster::default(), CHANGE, "edit shop", 2, "add --yes to go on without a question");
    let check =
        |editor, code, words| refused(Cluster::default(), editor, "edit shop --yes", code, words);
    check("sed -i s/image:/imgae:/", 3, "compose.yaml:");
    check("sed -i s/deployment:/deploymnet:/", 3, "jaco.yaml:1:");
    check("sed -i s/web]/wbe]/", 3, "no service `wbe`");
    check("sed -i 's/name: shop/name: blog/'", 3, "another name is another deployment");
    check("sed -i s,app.toml,other.toml,", 3, "the cluster does not have this file");
    check("sed -i s,source:.conf,source:\\ other,", 3, "the cluster does not have this file");
    check("sh -c 'exit 3'", 2, "failed with exit status: 3");
}

/// Files that are not used any more are not sent, and jaco.yaml can be removed.
#[test]
fn what_is_removed_is_not_sent() {
    let editor = "sh -c 'cd $(dirname $0); rm jaco.yaml; sed -i /source:.token/d compose.yaml'";
    let (_, run, applied) = edit(Cluster::default(), editor, "edit shop --yes -q");
    assert_eq!(run.code, Some(0), "{run:?}");
    let [request] = applied.as_slice() else { panic!("{applied:?}") };
    assert_eq!(request.overlay_yaml, "");
    assert_eq!(request.secrets, []);
    assert_eq!(request.binds, stored().binds);
}

/// Only the user can read the files: they may have passwords in them.
#[test]
fn files_are_the_users_own() {
    let editor = "sh -c 'stat -c %a $(dirname $0); ls $(dirname $0)'";
    let (_, run, _) = edit(Cluster::default(), editor, "edit shop -q");
    assert!(run.out.starts_with("700\ncompose.yaml\njaco.services.toml\njaco.yaml\n"), "{run:?}");
}
