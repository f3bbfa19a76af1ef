//! `jaco backup` and `jaco restore` at their edges: what is left when a backup is cut off, stdin and
//! stdout, and what a restore says of each thing.

use std::io::Write;
use std::process::Stdio;

use jaco_client::scripted::{Answer, Feed, Script, Then};
use jaco_proto::v1;
use jaco_proto::v1::backup_part::Kind;
use jaco_types::{ErrorCode, Rejection};

use crate::session::{Did, Session};

/// A cluster that is backed up by these parts, and refuses to be told of deployments on unknown hosts.
#[derive(Clone)]
struct Cluster(Feed<v1::BackupPart>);

impl Script for Cluster {
    fn backup(&self, _: v1::BackupRequest, _: Option<&str>) -> Answer<Feed<v1::BackupPart>> {
        Ok(self.0.clone())
    }

    fn status(&self, request: v1::StatusRequest, _: Option<&str>) -> Answer<v1::StatusResponse> {
        assert!(request.linearizable, "an older state would look like a difference");
        Ok(v1::StatusResponse::default())
    }

    fn cluster_status(
        &self,
        _: v1::ClusterStatusRequest,
        _: Option<&str>,
    ) -> Answer<v1::ClusterStatusResponse> {
        Ok(v1::ClusterStatusResponse::default())
    }

    fn get_constraints(
        &self,
        _: v1::GetConstraintsRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetConstraintsResponse> {
        Ok(v1::GetConstraintsResponse { pairs: [("max".to_owned(), "3".to_owned())].into() })
    }

    fn list_contents(
        &self,
        _: v1::ListContentsRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListContentsResponse> {
        Ok(v1::ListContentsResponse::default())
    }

    fn get_disabled(
        &self,
        _: v1::GetDisabledRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetDisabledResponse> {
        Ok(v1::GetDisabledResponse::default())
    }

    fn get_deployment(
        &self,
        request: v1::GetDeploymentRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetDeploymentResponse> {
        match request.name.as_str() {
            "blog" => Ok(v1::GetDeploymentResponse {
                name: request.name,
                revision: 4,
                compose_json: "{}".to_owned(),
                ..Default::default()
            }),
            _ => Err(Rejection::new(ErrorCode::DeploymentNotFound, "there is none")),
        }
    }

    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        match request.deployment.as_str() {
            "shop" => Ok(v1::ApplyResponse { change: "created".to_owned(), ..Default::default() }),
            _ => Err(Rejection::new(ErrorCode::UnknownHost, "no node is called n9")),
        }
    }
}

fn parts() -> Vec<v1::BackupPart> {
    let deployment = |name: &str| {
        Kind::Deployment(v1::BackupDeployment { name: name.to_owned(), ..Default::default() })
    };
    let pair = v1::BackupPair { key: "max".to_owned(), value: "5".to_owned() };
    let rests = |deployment: &str| v1::AllocationRef {
        deployment: deployment.to_owned(),
        service: "web".to_owned(),
        ..Default::default()
    };
    let kinds = vec![
        Kind::Header(v1::BackupHeader {
            format: 1,
            cluster_name: "sun".to_owned(),
            raft_index: 42,
            taken_at_ms: 1_700_000_000_000,
            ..Default::default()
        }),
        Kind::Constraints(v1::BackupConstraints { pairs: vec![pair] }),
        Kind::Node(v1::BackupNode {
            hostname: "n9".to_owned(),
            cordoned: true,
            ..Default::default()
        }),
        deployment("blog"),
        deployment("pinned"),
        deployment("shop"),
        Kind::Disabled(v1::BackupDisabled { allocations: vec![rests("blog"), rests("pinned")] }),
        Kind::End(v1::BackupEnd { deployments: 3, ..v1::BackupEnd::default() }),
    ];
    kinds.into_iter().map(|kind| v1::BackupPart { kind: Some(kind) }).collect()
}

fn piped(session: &Session, line: &str, input: &[u8]) -> Did {
    let mut command = session.command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    session.did(child.wait_with_output().unwrap())
}

fn files(session: &Session) -> Vec<String> {
    let entries = std::fs::read_dir(session.folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "s").collect();
    names.sort();
    names
}

/// R-CLI-6, R-CLI-7: a file and a pipe hold the same; a pipe has nothing but the backup, and its result is
/// told on stderr.
#[test]
fn a_backup_goes_to_a_file_or_a_pipe() {
    let session = Session::with(Cluster(Feed::of(parts())));
    let did = session.run("backup a.jacobak");
    assert_eq!(did.code, Some(0), "{}", did.err);
    let row: Vec<&str> = did.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], &row[2..]), ("a.jacobak", &["sun", "42", "3", "0", "0"][..]));
    let kept = std::fs::read(session.folder.path().join("a.jacobak")).unwrap();
    assert_eq!(row[1], kept.len().to_string());
    let output = session.command("backup -").output().unwrap();
    assert_eq!(output.stdout, kept);
    assert!(String::from_utf8(output.stderr).unwrap().contains("sun"));
    let refused = session.run("backup a.jacobak");
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(session.run("backup a.jacobak --force").code, Some(0));
    assert_eq!(files(&session), ["a.jacobak"]);
}

/// R-CLI-6: a backup that was cut off, or ended by a refusal, leaves nothing that could be taken for one.
#[test]
fn a_backup_that_is_cut_off_leaves_nothing() {
    let mut cut = parts();
    cut.pop();
    let refusal = Rejection::new(ErrorCode::Internal, "content cannot be read");
    for then in [Then::End, Then::Refuse(refusal)] {
        let session = Session::with(Cluster(Feed { items: cut.clone(), then }));
        let did = session.run("backup a.jacobak");
        assert!(did.code != Some(0) && did.out.is_empty(), "{}", did.out);
        assert_eq!(files(&session), Vec::<String>::new());
        let output = session.command("backup -").output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        let restored = piped(&session, "restore -", &output.stdout);
        assert_eq!(restored.code, Some(3), "{}", restored.err);
        assert!(restored.err.contains("cut off"), "{}", restored.err);
    }
}

/// R-CLI-6, R-CLI-7: each thing is told with what became of it; a refusal makes the exit code 3 and keeps
/// nothing else from being restored.
#[test]
fn a_restore_tells_of_each_thing() {
    let session = Session::with(Cluster(Feed::of(parts())));
    let backup = session.command("backup -").output().unwrap().stdout;
    let did = piped(&session, "restore -", &backup);
    assert_eq!(did.code, Some(3), "{}", did.err);
    expect_test::expect![[r#"
        KIND        NAME        OUTCOME   REASON
        constraint  max         skipped   it is "3" here, and was "5"
        node        n9          refused   no node of this name has joined
        deployment  blog        skipped   revision 4 here differs: jaco diff --of blog
        deployment  pinned      refused   no node is called n9
        deployment  shop        restored  -
        disabled    blog/web    skipped   its deployment stayed as it is here
        disabled    pinned/web  refused   its deployment was refused
    "#]]
    .assert_eq(&did.out);
    expect_test::expect![[r#"
        a backup of sun, taken at 2023-11-14T22:13:20Z
        3 differences stayed as in the cluster; --replace restores them, too
        error[restore_incomplete]: 3 items refused
          because: node n9: no node of this name has joined [node_not_found]
          because: deployment pinned: no node is called n9 [unknown_host]
          because: disabled pinned/web: its deployment was refused [unknown_host]
          help: take away what the reasons name, then run it again: the rest stays as it is
          help: more: jaco help error restore_incomplete
    "#]]
    .assert_eq(&did.err);
    let only = piped(&session, "restore - --only shop -o json", &backup);
    let told: serde_json::Value = serde_json::from_str(&only.out).unwrap();
    assert_eq!((only.code, &told["counts"]["restored"]), (Some(0), &1.into()), "{told}");
    let absent = piped(&session, "restore - --only shp", &backup);
    assert_eq!(absent.code, Some(2), "{}", absent.err);
    assert!(absent.err.contains("it holds blog, pinned, shop"), "{}", absent.err);
}
