//! The paths of the JSON gateway: what each of them serves, and which parameters it takes.
//!
//! Known to what answers requests and to what counts them; nothing is served below [`PREFIX`] that is not here.

/// Where all of it is.
pub const PREFIX: &str = "/api/v1";

/// What a segment of a path stands for that is the name of an object.
const NAME: &str = "NAME";

/// A path that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The path; its segment `NAME` stands for a name.
    pub path: &'static str,
    /// What it serves.
    pub subject: Subject,
    /// The parameters that it takes.
    pub parameters: &'static [&'static str],
    /// The command that prints the same JSON.
    pub command: &'static str,
}

/// What a path serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The paths themselves.
    Paths,
    /// Services on nodes.
    Allocations,
    /// Certificates that routes can name.
    Certificates,
    /// The cluster as this node knows it.
    Cluster,
    /// All deployments, with their services.
    Deployments,
    /// The stored spec of one deployment.
    Deployment,
    /// The kept revisions of one deployment.
    History,
    /// Audit events.
    Events,
    /// Pushed images.
    Images,
    /// Jobs with their schedules and runs.
    Jobs,
    /// Networks of the cluster.
    Networks,
    /// The nodes.
    Nodes,
    /// Replicas of services.
    Replicas,
    /// Routes with what answers them.
    Routes,
    /// Deployments, replicas and nodes at one state.
    Status,
    /// Operator tokens, client certificates and join tokens.
    Tokens,
    /// Volumes of all nodes.
    Volumes,
}

/// Every path that is served, in the order of the paths.
pub const ENDPOINTS: &[Endpoint] = &[
    row(PREFIX, Subject::Paths, &[], ""),
    row(
        "/api/v1/allocations",
        Subject::Allocations,
        &["deployment", "service", "node"],
        "jaco get allocations",
    ),
    row("/api/v1/certificates", Subject::Certificates, &[], "jaco certificate ls"),
    row("/api/v1/cluster", Subject::Cluster, &[], "jaco cluster status"),
    row("/api/v1/deployments", Subject::Deployments, &[], "jaco get deployments"),
    row("/api/v1/deployments/NAME", Subject::Deployment, &["revision"], "jaco get deployment NAME"),
    row("/api/v1/deployments/NAME/history", Subject::History, &[], "jaco history NAME"),
    row(
        "/api/v1/events",
        Subject::Events,
        &["since", "until", "after", "limit", "type", "deployment", "node"],
        "jaco audit",
    ),
    row("/api/v1/images", Subject::Images, &[], "jaco image ls"),
    row("/api/v1/jobs", Subject::Jobs, &["deployment", "service"], "jaco get jobs"),
    row("/api/v1/networks", Subject::Networks, &[], "jaco network ls"),
    row("/api/v1/nodes", Subject::Nodes, &[], "jaco status"),
    row("/api/v1/replicas", Subject::Replicas, &["deployment", "service"], "jaco get replicas"),
    row("/api/v1/routes", Subject::Routes, &["deployment"], "jaco route ls"),
    row("/api/v1/status", Subject::Status, &["at", "deployment", "service"], "jaco status"),
    row("/api/v1/tokens", Subject::Tokens, &[], "jaco token ls"),
    row("/api/v1/volumes", Subject::Volumes, &["deployment"], "jaco volume ls"),
];

const fn row(
    path: &'static str,
    subject: Subject,
    parameters: &'static [&'static str],
    command: &'static str,
) -> Endpoint {
    Endpoint { path, subject, parameters, command }
}

/// A path that was asked for, and the name in it; empty if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located<'p> {
    pub(crate) endpoint: &'static Endpoint,
    pub(crate) name: &'p str,
}

/// Whether a path belongs to the gateway, whether or not anything is there.
pub(crate) fn is_below(path: &str) -> bool {
    path.strip_prefix("/api").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is served at a path.
pub(crate) fn at(path: &str) -> Option<Located<'_>> {
    if !is_below(path) {
        return None;
    }
    ENDPOINTS
        .iter()
        .find_map(|endpoint| name_in(path, endpoint.path).map(|name| Located { endpoint, name }))
}

/// The name in a path of this form, empty if the form has none; `None` if the path is of another form.
fn name_in<'p>(path: &'p str, form: &str) -> Option<&'p str> {
    let (mut segments, mut expected) = (path.split('/'), form.split('/'));
    let mut name = "";
    loop {
        match (segments.next(), expected.next()) {
            (None, None) => return Some(name),
            (Some(segment), Some(NAME)) if !segment.is_empty() => name = segment,
            (Some(segment), Some(literal)) if segment == literal && literal != NAME => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_what_they_name() {
        let check = |path, subject, name| {
            let found = at(path).map(|found| (found.endpoint.subject, found.name));
            assert_eq!(found, Some((subject, name)), "{path}");
        };
        check("/api/v1", Subject::Paths, "");
        check("/api/v1/status", Subject::Status, "");
        check("/api/v1/deployments", Subject::Deployments, "");
        check("/api/v1/deployments/shop", Subject::Deployment, "shop");
        check("/api/v1/deployments/NAME", Subject::Deployment, "NAME");
        check("/api/v1/deployments/shop/history", Subject::History, "shop");
        for nowhere in [
            "/api",
            "/api/",
            "/api/v1/",
            "/api/v2/status",
            "/api/v1/status/",
            "/api/v1/Status",
            "/api/v1/deployments/",
            "/api/v1/deployments//history",
            "/api/v1/deployments/shop/history/1",
            "/apix",
            "/metrics",
            "",
        ] {
            assert_eq!(at(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn paths_are_sorted_and_below_the_prefix() {
        assert!(ENDPOINTS.is_sorted_by_key(|endpoint| endpoint.path));
        assert!(ENDPOINTS.iter().all(|endpoint| endpoint.path.starts_with(PREFIX)));
        assert!(is_below("/api") && is_below("/api/x") && !is_below("/apix") && !is_below("/"));
    }
}
