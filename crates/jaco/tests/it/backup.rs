//! `jaco backup` and `jaco restore`: interrupted backups, stdin and stdout, and the result of each object.

use std::io::Write;
use std::process::Stdio;

use jaco_client::scripted::{Answer, Feed, Script, Then};
use jaco_proto::v1;
use jaco_proto::v1::backup_part::Kind;
use jaco_types::{ErrorCode, Rejection};

use crate::fixture::{Run, Session};

/// A cluster that sends this backup, and refuses deployments on unknown hosts.
#[derive(Clone)]
pub(crate) struct Cluster(pub(crate) Feed<v1::BackupPart>);

impl Script for Cluster {
    fn backup(&self, _: v1::BackupRequest, _: Option<&str>) -> Answer<Feed<v1::BackupPart>> {
        Ok(self.0.clone())
    }

    fn overview(
        &self,
        request: v1::StatusRequest,
        _: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        assert!(request.linearizable, "an older state would differ");
        Ok(Feed::of(vec![v1::StatusResponse::default()]))
    }

    fn status(
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

    fn list_networks(
        &self,
        _: v1::ListNetworksRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListNetworksResponse> {
        let back = v1::NetworkInfo {
            name: "back".to_owned(),
            subnet: "10.64.0.0/24".to_owned(),
            used: 1,
            ..Default::default()
        };
        let pool = Some(v1::NetworkPoolInfo::default());
        Ok(v1::ListNetworksResponse { pool, networks: vec![back] })
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
    let disabled = |deployment: &str| v1::AllocationRef {
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
        Kind::Disabled(v1::BackupDisabled {
            allocations: vec![disabled("blog"), disabled("pinned")],
        }),
        Kind::End(v1::BackupEnd { deployments: 3, ..v1::BackupEnd::default() }),
    ];
    kinds.into_iter().map(|kind| v1::BackupPart { kind: Some(kind) }).collect()
}

pub(crate) fn piped(session: &Session, line: &str, input: &[u8]) -> Run {
    let mut command = session.command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    session.result(child.wait_with_output().unwrap())
}

pub(crate) fn files(session: &Session) -> Vec<String> {
    let entries = std::fs::read_dir(session.folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "s").collect();
    names.sort();
    names
}

/// R-CLI-6, R-CLI-7: a file and a pipe get the same bytes; with a pipe the summary goes to stderr.
#[test]
fn backup_goes_to_a_file_or_a_pipe() {
    let session = Session::with(Cluster(Feed::of(parts())));
    let run = session.run("backup a.jacobak");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let row: Vec<&str> = run.out.lines().nth(1).unwrap().split_whitespace().collect();
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

/// R-CLI-6: an incomplete or refused backup leaves no file that could be restored.
#[test]
fn incomplete_backup_leaves_no_file() {
    let mut cut = parts();
    cut.pop();
    let refusal = Rejection::new(ErrorCode::Internal, "content cannot be read");
    for then in [Then::End, Then::Refuse(refusal)] {
        let session = Session::with(Cluster(Feed { items: cut.clone(), then }));
        let run = session.run("backup a.jacobak");
        assert!(run.code != Some(0) && run.out.is_empty(), "{}", run.out);
        assert_eq!(files(&session), Vec::<String>::new());
        let output = session.command("backup -").output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        let restored = piped(&session, "restore -", &output.stdout);
        assert_eq!(restored.code, Some(3), "{}", restored.err);
        assert!(restored.err.contains("truncated"), "{}", restored.err);
    }
}

/// R-CLI-6, R-CLI-7: the result of each object is reported; a refusal makes the exit code 3 and does not
/// prevent other objects from being restored.
#[test]
fn restore_reports_the_result_of_each_object() {
    let session = Session::with(Cluster(Feed::of(parts())));
    let backup = session.command("backup -").output().unwrap().stdout;
    let run = piped(&session, "restore -", &backup);
    assert_eq!(run.code, Some(3), "{}", run.err);
    expect_test::expect![[r#"
        KIND        NAME        OUTCOME   REASON
        constraint  max         skipped   the cluster has "3", the backup "5"
        node        n9          refused   no node with this name has joined
        deployment  blog        skipped   revision 4 of the cluster differs: jaco diff --of blog
        deployment  pinned      refused   no node is called n9
        deployment  shop        restored  -
        disabled    blog/web    skipped   its deployment differs and was not changed
        disabled    pinned/web  refused   its deployment was refused
    "#]]
    .assert_eq(&run.out);
    expect_test::expect![[r#"
        backup of sun, taken at 2023-11-14T22:13:20Z
        not changed because they differ: 3 objects; --replace restores them too
        error[restore_incomplete]: 3 objects refused
          because: node n9: no node with this name has joined [node_not_found]
          because: deployment pinned: no node is called n9 [unknown_host]
          because: disabled pinned/web: its deployment was refused [unknown_host]
          help: fix the reasons and run it again: restored objects stay as they are
          help: more: jaco help error restore_incomplete
    "#]]
    .assert_eq(&run.err);
    let only = piped(&session, "restore - --only shop -o json", &backup);
    let json: serde_json::Value = serde_json::from_str(&only.out).unwrap();
    assert_eq!((only.code, &json["counts"]["restored"]), (Some(0), &1.into()), "{json}");
    let absent = piped(&session, "restore - --only shp", &backup);
    assert_eq!(absent.code, Some(2), "{}", absent.err);
    assert!(absent.err.contains("its deployments are blog, pinned, shop"), "{}", absent.err);
}
