//! Plain HTTP as every common client speaks it.

use std::process::Command;

use jaco_testkit::{Cluster, Node, v1};

/// An answer of plain HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) version: String,
    /// In small letters.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// How a scraper asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// Asks as every common client does: the authority from a file, the name of the server from the configuration, and
/// verification of the certificate by the rules of the web.
pub(crate) async fn ask(
    cluster: &Cluster,
    node: &Node,
    version: Version,
    path: &str,
    arguments: &[&str],
) -> Answer {
    run(asking(cluster, node, version, path, arguments)).await
}

pub(crate) fn asking(
    cluster: &Cluster,
    node: &Node,
    version: Version,
    path: &str,
    arguments: &[&str],
) -> Command {
    let (ip, port) = node.address.rsplit_once(':').expect("ip:port");
    let name = format!("{}.internal", cluster.id);
    let version = match version {
        Version::Http1 => "--http1.1",
        Version::Http2 => "--http2",
    };
    let mut curl = Command::new("curl");
    curl.arg(version).arg("--cacert").arg(node.folder().join("data/node/ca.crt"));
    curl.args(["--resolve", &format!("{name}:{port}:{ip}")]);
    curl.arg(format!("https://{name}:{port}{path}")).args(arguments);
    curl
}

pub(crate) async fn run(mut curl: Command) -> Answer {
    curl.args(["--silent", "--show-error", "--include", "--max-time", "20"]);
    curl.args(["--write-out", "\n%{http_code} %{http_version}"]);
    let asked =
        tokio::task::spawn_blocking(move || curl.output()).await.expect("it does not panic");
    let asked = asked.expect("curl is installed");
    let text = String::from_utf8(asked.stdout).expect("answers are text");
    let why = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{}: {why}", asked.status);
    let (answer, facts) = text.rsplit_once('\n').expect("facts follow");
    let (status, version) = facts.split_once(' ').expect("two of them");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    Answer {
        status: status.parse().expect("a status"),
        version: version.to_owned(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

/// A token of a viewer, as the argument of a client.
pub(crate) async fn viewer(cluster: &Cluster) -> (String, String) {
    token(cluster, "scraper", "viewer").await
}

/// A token of this name and role, as the argument of a client.
pub(crate) async fn token(cluster: &Cluster, name: &str, role: &str) -> (String, String) {
    let request = v1::IssueOperatorTokenRequest {
        name: name.to_owned(),
        role: role.to_owned(),
        ..Default::default()
    };
    let issued = cluster.client().issue_operator_token(request).await.expect("issued");
    (issued.token.clone(), format!("authorization: Bearer {}", issued.token))
}
