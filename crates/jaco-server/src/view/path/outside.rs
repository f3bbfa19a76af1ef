//! Whether a request from outside reaches a service, from the state and from what edges have found. Pure.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::view::{in_routing, slots_of};
use jaco_types::route::{RouteAction, RouteDomain, RouteTls, Upstream};
use jaco_types::{
    DeploymentName, InstanceId, NodeId, NodeStatus, Rejection, Route, RouteKey, ServiceKey, Slot,
    Timestamp,
};

use super::outcome::{Broken, Step, Walk};
use crate::edge::EdgeReports;
use crate::status::invalid;
use crate::view::{hostname, replica_state};

/// Whether a request is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// What is asked for from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    scheme: Scheme,
    pub(crate) host: String,
    /// Without query.
    pub(crate) path: String,
}

/// Reads `https://shop.example.com/path`.
///
/// # Errors
/// `invalid_request` where it is no such address, or one that edges would resolve to another path first.
pub(crate) fn asked(url: &str) -> Result<Asked, Rejection> {
    let (scheme, rest) = match url.split_once("://") {
        Some(("http", rest)) => (Scheme::Http, rest),
        Some(("https", rest)) => (Scheme::Https, rest),
        Some(_) | None => {
            return Err(invalid(format!(
                "{url:?} is no address: write https://HOST/PATH or http://HOST/PATH"
            )));
        }
    };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.is_empty() || host.contains([':', '@', '*']) {
        return Err(invalid(format!(
            "{host:?} is no host: write a name without port; routes are served at 80 and 443 only"
        )));
    }
    let path = if path.is_empty() { "/" } else { path };
    let is_dots = |segment: &str| matches!(segment, "." | "..");
    if path.contains("//") || path.contains('%') || path.split('/').any(is_dots) {
        return Err(invalid(format!(
            "{path:?} has escapes, `.`, `..` or empty segments: write it as routes have it"
        )));
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_lowercase();
    Ok(Asked { scheme, host, path: path.to_owned() })
}

/// All steps, up to the first that does not hold.
pub(crate) fn walk_from_outside(
    state: &ClusterState,
    asked: &Asked,
    now: Timestamp,
    reports: &EdgeReports,
) -> Walk {
    let mut walk = Walk::default();
    let found = match found(state, asked) {
        Ok(found) => found,
        Err(broken) => {
            walk.end(broken);
            return walk;
        }
    };
    walk.hold(Step::Route, found.describe());
    let walker = Outside { state, asked, now, reports, found };
    let checks: [(Step, Check<'_>); 5] = [
        (Step::Certificate, Outside::certificate),
        (Step::Edges, Outside::edges),
        (Step::Endpoints, Outside::endpoints),
        (Step::Applied, Outside::applied),
        (Step::Connect, Outside::connect),
    ];
    // A redirect is answered by the edge itself.
    let wanted = if walker.found.upstream().is_some() { 5 } else { 2 };
    for (step, check) in checks.into_iter().take(wanted) {
        match check(&walker) {
            Ok(detail) => walk.hold(step, detail),
            Err(broken) => {
                walk.end(broken);
                break;
            }
        }
    }
    walk
}

/// What it found where it holds.
type Check<'a> = fn(&Outside<'a>) -> Result<String, Broken>;

/// The route that a request is matched with.
struct Found<'a> {
    deployment: &'a DeploymentName,
    key: &'a RouteKey,
    route: &'a Route,
}

impl Found<'_> {
    fn upstream(&self) -> Option<&Upstream> {
        match &self.route.action {
            RouteAction::Forward(upstream) => Some(upstream),
            RouteAction::Redirect(_) => None,
        }
    }

    fn describe(&self) -> String {
        let (deployment, route) = (self.deployment, self.route);
        let mut text = match &route.action {
            RouteAction::Forward(Upstream { service, port, .. }) => {
                format!("{} goes to {deployment}/{service}:{port}", self.key)
            }
            RouteAction::Redirect(redirect) => {
                format!("{} of {deployment} is a redirect to {}", self.key, redirect.to.as_str())
            }
        };
        let sources: Vec<String> = route.sources.as_set().iter().map(ToString::to_string).collect();
        if !sources.is_empty() {
            text.push_str(&format!(", for clients in {} only", sources.join(", ")));
        }
        if route.users != jaco_types::route::AllowedUsers::default() {
            text.push_str(", with a password");
        }
        text
    }
}

/// The routes whose domain has a host, by deployment.
fn of_host<'a>(state: &'a ClusterState, host: &'a str) -> impl Iterator<Item = Found<'a>> {
    let claims = state.edges.claims.iter().filter(|(key, _)| is_for(&key.domain, host));
    claims.filter_map(|(key, claim)| {
        let deployment = state.deployments.get(&claim.deployment)?;
        let route = deployment.spec().routes.get(key)?;
        Some(Found { deployment: &deployment.name, key, route })
    })
}

fn is_for(domain: &RouteDomain, host: &str) -> bool {
    match domain.as_str().strip_prefix("*.") {
        None => domain.as_str() == host,
        Some(base) => {
            host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == base)
        }
    }
}

/// As edges do it: the own domain before a wildcard, and a longer path before a shorter one.
fn found<'a>(state: &'a ClusterState, asked: &'a Asked) -> Result<Found<'a>, Broken> {
    let matching = of_host(state, &asked.host).filter(|one| one.key.path.matches(&asked.path));
    let rank = |one: &Found<'_>| (!one.key.domain.is_wildcard(), one.key.path.prefix().len());
    matching.max_by_key(rank).ok_or_else(|| {
        let others: Vec<String> =
            of_host(state, &asked.host).map(|one| one.key.to_string()).collect();
        let others = match others.is_empty() {
            true => "no route has this host".to_owned(),
            false => format!("those of this host are {}", others.join(", ")),
        };
        Broken::new(
            Step::Route,
            format!("no route is for {}{}: {others}", asked.host, asked.path),
            "compare with `jaco route ls`, and add a route to `routes` in the jaco.yaml of its deployment",
        )
    })
}

struct Outside<'a> {
    state: &'a ClusterState,
    asked: &'a Asked,
    now: Timestamp,
    reports: &'a EdgeReports,
    found: Found<'a>,
}

impl Outside<'_> {
    fn certificate(&self) -> Result<String, Broken> {
        let own = (&self.found.key.domain, &self.found.route.tls);
        match (self.asked.scheme, &self.found.route.tls) {
            (Scheme::Http, RouteTls::Off) => {
                Ok("not needed: the route is served in clear".to_owned())
            }
            (Scheme::Http, RouteTls::Auto | RouteTls::Certificate(_)) => {
                let detail = self.valid(own)?;
                Ok(format!("redirected to https (308): {detail}"))
            }
            (Scheme::Https, RouteTls::Auto | RouteTls::Certificate(_)) => self.valid(own),
            (Scheme::Https, RouteTls::Off) => {
                // A handshake is for the host, not for a path.
                let others = of_host(self.state, &self.asked.host);
                let other = others.map(|one| (&one.key.domain, &one.route.tls));
                let other = other.into_iter().find(|(_, tls)| **tls != RouteTls::Off);
                self.valid(other.ok_or_else(|| {
                    Broken::new(
                        Step::Certificate,
                        "the route has `tls: off`, and no other route of the host is encrypted",
                        "ask for http://, or remove `tls: off` from the route",
                    )
                })?)
            }
        }
    }

    fn valid(&self, (domain, tls): (&RouteDomain, &RouteTls)) -> Result<String, Broken> {
        let (name, not_after, covers) = match tls {
            RouteTls::Certificate(name) => {
                let row = self.state.edges.certificates.get(name);
                let row = row.ok_or_else(|| {
                    let fix = format!("store it: jaco certificate set {name}");
                    Broken::new(Step::Certificate, format!("there is no certificate {name}"), fix)
                })?;
                (format!("certificate {name}"), row.not_after, row.covers(domain))
            }
            RouteTls::Auto | RouteTls::Off => {
                let acme = &self.state.edges.acme;
                let why = acme.attempts.get(domain).map(|attempt| format!(": {}", attempt.reason));
                let row = acme.issued.get(domain).ok_or_else(|| {
                    Broken::new(
                        Step::Certificate,
                        format!("{domain} has no certificate yet{}", why.unwrap_or_default()),
                        "see `jaco certificate ls`: the authority must reach port 80 or 443 of a node by this name",
                    )
                })?;
                (format!("the certificate of {domain}"), row.not_after, true)
            }
        };
        if not_after < self.now {
            let fix = "replace it: jaco certificate set; of an ordered one, `jaco certificate ls` says why it was not renewed";
            return Err(Broken::new(Step::Certificate, format!("{name} has expired"), fix));
        }
        if !covers {
            let fix = "store one that has the domain among its names: jaco certificate set";
            return Err(Broken::new(Step::Certificate, format!("{name} is not for {domain}"), fix));
        }
        let days = not_after.since(self.now).0 / (24 * 3_600_000);
        Ok(format!("{name} is valid for {days} more days"))
    }

    /// The edges of nodes that are not down.
    fn edges_up(&self) -> impl Iterator<Item = (NodeId, &Result<v1::ProbeEdgeResponse, String>)> {
        let up = self.reports.iter().filter(|(node, _)| !self.is_down(**node));
        up.map(|(node, report)| (*node, report))
    }

    fn is_down(&self, node: NodeId) -> bool {
        self.state.nodes.get(&node).is_none_or(|node| node.status == NodeStatus::Down)
    }

    /// All of them listen.
    fn edges(&self) -> Result<String, Broken> {
        let listener = match self.asked.scheme {
            Scheme::Http => "tcp/80",
            Scheme::Https => "tcp/443",
        };
        let broken = |detail: String, fix: String| Broken::new(Step::Edges, detail, fix);
        let mut names = Vec::new();
        for (node, report) in self.edges_up() {
            let name = hostname(self.state, node);
            let report = report.as_ref().map_err(|why| {
                broken(
                    format!("{name} cannot be asked: {why}"),
                    format!("check its daemon and the way to it: jaco doctor; journalctl -u jacod on {name}"),
                )
            })?;
            if !report.problem.is_empty() {
                return Err(broken(
                    format!("the edge of {name} does not answer: {}", report.problem),
                    format!(
                        "see `jaco route ls`, and the log on {name}: journalctl -u jacod-edge -u jacod"
                    ),
                ));
            }
            if !report.listeners.iter().any(|known| known == listener) {
                return Err(broken(
                    format!("the edge of {name} does not listen on {listener}"),
                    format!(
                        "see whether another program has the port, and the router's log, on {name}: ss -ltnp; journalctl -u jacod-net"
                    ),
                ));
            }
            names.push(name);
        }
        if names.is_empty() {
            let fix = "turn them on with `jaco network enable`, and see EDGES in `jaco route ls`";
            return Err(broken(
                "no node has an edge: edges are part of the networks of the cluster".to_owned(),
                fix.to_owned(),
            ));
        }
        let down = self.reports.keys().filter(|node| self.is_down(**node));
        let down: Vec<String> = down.map(|node| hostname(self.state, *node)).collect();
        let rest = match down.is_empty() {
            true => String::new(),
            false => format!("; down: {}", down.join(", ")),
        };
        Ok(format!("on {listener} listen {}{rest}", names.join(", ")))
    }

    fn service(&self) -> Option<ServiceKey> {
        let service = self.found.upstream()?.service.clone();
        Some(ServiceKey { deployment: self.found.deployment.clone(), service })
    }

    fn slots(&self) -> Vec<&Slot> {
        let Some(key) = self.service() else { return Vec::new() };
        slots_of(self.state, &key.deployment).filter(|slot| slot.service == key).collect()
    }

    /// Instances that get requests, with their nodes.
    fn ready(&self) -> BTreeMap<InstanceId, NodeId> {
        let all = self.slots().into_iter().flat_map(Slot::instances);
        let ready = all.filter(|(id, _)| in_routing(self.state, id));
        ready.map(|(id, instance)| (id, instance.node)).collect()
    }

    fn endpoints(&self) -> Result<String, Broken> {
        let (slots, ready) = (self.slots(), self.ready());
        let at =
            |id: &InstanceId, node| format!("{} on {}", id.replica, hostname(self.state, node));
        let mut others = Vec::new();
        for slot in &slots {
            if !ready.keys().any(|id| id.replica == slot.id) {
                let (shown, code, details) = replica_state(self.state, slot);
                let reason = details.get("reason").cloned().unwrap_or(code);
                let reason = if reason.is_empty() { reason } else { format!(" ({reason})") };
                others.push(format!(
                    "{} is {shown}{reason}",
                    at(&slot.current_id(), slot.current.node)
                ));
            }
        }
        let service = self.service();
        let leaving = self.state.terminating.values();
        let leaving = leaving.filter(|row| Some(&row.service) == service.as_ref());
        others.extend(
            leaving
                .map(|row| format!("{} leaves, and finishes what it has", at(&row.id, row.node))),
        );
        if ready.is_empty() {
            let deployment = self.found.deployment;
            let name = service.map(|key| key.to_string()).unwrap_or_default();
            let first = slots.first().map(|slot| format!("; jaco logs {}", slot.id));
            let why = if others.is_empty() { "it has none".to_owned() } else { others.join("; ") };
            return Err(Broken::new(
                Step::Endpoints,
                format!("no replica of {name} is ready: {why}"),
                format!("make it ready: jaco status {deployment}{}", first.unwrap_or_default()),
            ));
        }
        let names: Vec<String> = ready.iter().map(|(id, node)| at(id, *node)).collect();
        let mut text = format!("{} ready", names.join(", "));
        if !others.is_empty() {
            text.push_str(&format!("; gets nothing: {}", others.join("; ")));
        }
        Ok(text)
    }

    /// The edges that answered, by name.
    fn answered(&self) -> impl Iterator<Item = (String, &v1::ProbeEdgeResponse)> {
        let answered =
            self.edges_up().filter_map(|(node, report)| Some((node, report.as_ref().ok()?)));
        answered.map(|(node, report)| (hostname(self.state, node), report))
    }

    /// All edges have the route, its certificate and its instances.
    fn applied(&self) -> Result<String, Broken> {
        let ready = self.ready();
        let key = self.found.key;
        let mut held = Vec::new();
        for (name, report) in self.answered() {
            let has_route = report.route_domain == key.domain.as_str()
                && report.route_path == key.path.to_string();
            let has = |id: &InstanceId| report.instances.iter().any(|one| is_of(one, id));
            let missing: Vec<String> =
                ready.keys().filter(|id| !has(id)).map(|id| id.replica.to_string()).collect();
            let what = if !has_route {
                format!("does not have the route {key}")
            } else if self.asked.scheme == Scheme::Https && !report.has_certificate {
                "has no certificate for the host".to_owned()
            } else if !missing.is_empty() && report.instances.len() < PROBED_MAX {
                format!("does not have {}", missing.join(", "))
            } else {
                held.push(format!("{name} sends to {}", report.instances.len()));
                continue;
            };
            return Err(Broken::new(
                Step::Applied,
                format!(
                    "the edge of {name} {what}: it holds index {}, the cluster is at {}",
                    report.applied, self.state.index
                ),
                format!(
                    "try again in a second; if it stays, see journalctl -u jacod -u jacod-edge on {name}"
                ),
            ));
        }
        Ok(held.join(", "))
    }

    /// All instances accept connections of all edges.
    fn connect(&self) -> Result<String, Broken> {
        let port = self.found.upstream().map_or(0, |upstream| upstream.port.get());
        let (mut accepted, mut passed_over) = (0, Vec::new());
        for (name, report) in self.answered() {
            for one in &report.instances {
                let replica = &one.replica;
                let (what, fix) = match one.result.as_str() {
                    "accepted" => {
                        accepted += 1;
                        if one.passed_over {
                            passed_over.push(format!("{name} passes over {replica}, which refused or broke a connection in the last 5 s"));
                        }
                        continue;
                    }
                    "refused" => (
                        format!("refuses connections at port {port}"),
                        format!(
                            "let it listen on 0.0.0.0:{port}, or give the route the `port` that it listens on: jaco logs {replica}"
                        ),
                    ),
                    _ => (
                        format!("does not accept at port {port} within 250 ms, tried twice"),
                        format!(
                            "see whether it hangs, and the tunnel between the nodes: jaco logs {replica}; jaco doctor"
                        ),
                    ),
                };
                let detail = format!("{replica} {what}, asked by the edge of {name}");
                return Err(Broken::new(Step::Connect, detail, fix));
            }
        }
        let rest: String = passed_over.iter().map(|text| format!("; {text}")).collect();
        Ok(format!("all {accepted} connections to port {port} are accepted{rest}"))
    }
}

/// How many instances an edge tries.
const PROBED_MAX: usize = 64;

fn is_of(one: &v1::ProbedInstance, id: &InstanceId) -> bool {
    one.replica == id.replica.as_str() && one.raft_index == id.raft_index.0
}
