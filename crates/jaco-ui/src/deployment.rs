//! One deployment: its services, where their replicas run, its rollouts, its routes and its revisions.

use std::collections::BTreeMap;

use jaco_proto::v1::{
    ClusterStatusResponse, DeploymentInfo, HistoryResponse, ReplicaInfo, RolloutInfo, RouteInfo,
    ServiceInfo, StatusResponse,
};
use jaco_sentences::quantity::{count, natural_order};
use jaco_sentences::{progress, replica, service, termination};

use crate::badge::{self, Mood, shaped};
use crate::cells::{Table, ago, of_wanted, section, sentence, sorted, together};
use crate::endpoints;
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::offered;
use crate::problem::Part;
use crate::shell::{Frame, Live, Page, Place};
use crate::when::{self, Around, When};

/// How many replicas the list has. The map and the counts have all of them.
const REPLICAS_MAX: usize = 1000;

/// The page of a deployment.
#[derive(Debug)]
pub struct DeploymentPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// The deployment.
    pub deployment: &'a DeploymentInfo,
    /// The status that it is of, with its replicas.
    pub status: &'a StatusResponse,
    /// Its kept revisions.
    pub history: Part<HistoryResponse>,
    /// Its routes.
    pub routes: Part<Vec<RouteInfo>>,
    /// What happened around its moment; none if that is now.
    pub around: Option<Around>,
}

impl DeploymentPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let name = &self.deployment.name;
        let here = Link::deployment(name);
        let at = When::of(self.status);
        let then = &when::then(self.status, frame);
        let replicas = sorted(self.status.replicas.iter());
        let mut content = when::banner(self.status, self.around.as_ref(), &here);
        content.push(self.summary(then));
        content.push(self.services(then));
        if at == When::Now {
            let (it, now) = (self.deployment, &self.status.replicas);
            content.push(offered::deployment(it, now, &self.history, frame));
        }
        content.extend(self.rollouts());
        content.push(map(&replicas, at));
        content.push(list(&replicas, then, at));
        content.push(endpoints::section_of(&replicas));
        content.push(self.routes());
        content.push(match &self.around {
            // What a deployment keeps of its revisions now is no part of then.
            Some(around) => when::events(self.status, around, &here),
            None => self.history(frame),
        });
        let heading = match at {
            When::Now => format!("Deployment {name}"),
            When::At(index) => format!("Deployment {name} at index {index}"),
        };
        let live = (at == When::Now).then(|| Link::events().with("deployment", name));
        let live = live.map(Live::Changes);
        let page = Page { heading, place: Place::Elsewhere, content, live };
        page.html(frame, Some(self.cluster))
    }

    fn summary(&self, frame: &Frame) -> Element {
        let it = self.deployment;
        let running = progress::running_text(self.status, &it.name);
        el("p")
            .class("summary")
            .with(badge::state(&it.status))
            .with(format!(", revision {}, ", it.revision))
            .with(running)
            .with(". Updated ")
            .with(ago(it.updated_at_ms, frame.now_ms))
            .with(" by ")
            .with(it.updated_by.clone())
            .with(". ")
            .with(
                el("a").href(&Link::audit().with("deployment", &it.name)).with("Its audit events"),
            )
            .with(".")
    }

    fn services(&self, frame: &Frame) -> Element {
        let mut table = Table::new(
            "Services with their replicas",
            &["Service", "Status", "Running", "Updated", "Image", "Placement", "Ports", "Notes"],
        );
        for one in &self.deployment.services {
            let why = Link::why().with("deployment", &self.deployment.name);
            let why = why.with("service", &one.name);
            let label = format!("Why {} is where it is", one.name);
            let why: Vec<Node> = match When::of(self.status) {
                When::Now => {
                    let why = el("a").href(&why).attr("aria-label", label).with("why");
                    vec![" (".into(), why.into(), ")".into()]
                }
                When::At(_) => Vec::new(),
            };
            let placement = std::iter::once(one.placement.clone().into()).chain(why);
            table.row(vec![
                one.name.clone().into(),
                badge::state(&one.status),
                of_wanted(
                    progress::fulfilled(one),
                    one.desired,
                    "replicas that run or have completed",
                ),
                of_wanted(one.updated, one.desired, "replicas with the newest spec"),
                one.image.clone().into(),
                together(placement.collect()),
                one.published.join(" ").into(),
                service::notes(self.status, self.deployment, one, frame.now_ms).into(),
            ]);
        }
        let content = match table.is_empty() {
            true => vec![sentence("It has none.")],
            false => vec![table.element()],
        };
        section("services", "Services", content)
    }

    /// Rollouts that are not over, step by step.
    fn rollouts(&self) -> Option<Element> {
        let open = self.deployment.services.iter().filter_map(|one| {
            let rollout = one.rollout.as_ref()?;
            let text = progress::rollout(self.status, self.deployment, one)?;
            Some(rollout_item(one, rollout, text))
        });
        let open: Vec<Element> = open.collect();
        if open.is_empty() {
            return None;
        }
        let list = el("ul").class("rollouts").all(open);
        Some(section("rollouts", "Rollouts", vec![list]))
    }

    fn routes(&self) -> Element {
        let routes = match &self.routes {
            Ok(routes) => routes,
            Err(refused) => return section("routes", "Routes", vec![refused.note("its routes")]),
        };
        let mut table = Table::new(
            "Requests from outside, and what answers them",
            &["Route", "To", "Endpoints", "Edges", "TLS", "Notes"],
        );
        for route in routes {
            let forwards = route.redirect.is_empty();
            let to = match forwards {
                true => format!("{}:{}", route.service, route.port),
                false => format!("redirect to {}", route.redirect),
            };
            let endpoints: Node = match forwards {
                true => of_wanted(route.endpoints, route.wanted, "endpoints"),
                false => "–".into(),
            };
            let notes: Node = match route.warning.is_empty() {
                true => "".into(),
                false => shaped(Mood::Warning, route.warning.clone()).into(),
            };
            table.row(vec![
                format!("{}{}", route.domain, route.path.trim_end_matches('/')).into(),
                to.into(),
                endpoints,
                of_wanted(route.edges, route.nodes, "edges that serve it"),
                route.tls.clone().into(),
                notes,
            ]);
        }
        let content = match table.is_empty() {
            true => vec![sentence("It has none.")],
            false => vec![table.element()],
        };
        section("routes", "Routes", content)
    }

    fn history(&self, frame: &Frame) -> Element {
        let history = match &self.history {
            Ok(history) => history,
            Err(refused) => {
                return section("revisions", "Revisions", vec![refused.note("its revisions")]);
            }
        };
        let mut table = Table::new(
            "Kept revisions, the newest first",
            &["Revision", "Applied", "By", "Replicas", "Images", "Notes"],
        );
        let kept: Vec<String> =
            history.revisions.iter().map(|it| it.revision.to_string()).collect();
        for (place, one) in history.revisions.iter().enumerate().rev() {
            let before = place.checked_sub(1).map(|before| &kept[before]);
            let mut images: Vec<_> = one.images.iter().collect();
            images.sort();
            let images = images.into_iter().map(|(service, image)| format!("{service}: {image}"));
            let revision: Node = match before {
                Some(before) => {
                    let link = Link::difference(&history.deployment).with("from", before);
                    let link = link.with("to", &one.revision.to_string());
                    let label = format!("What revision {} changed", one.revision);
                    let link = el("a").href(&link).attr("aria-label", label).with("changes");
                    together(vec![one.revision.to_string().into(), " ".into(), link.into()])
                }
                None => one.revision.to_string().into(),
            };
            let mut notes = Vec::new();
            if one.revision == history.revision {
                notes.push("the desired one".to_owned());
            }
            if one.restores > 0 {
                notes.push(format!("restores revision {}", one.restores));
            }
            if one.pinned {
                notes.push("pinned".to_owned());
            }
            if !one.failure.is_empty() {
                notes.push(format!("its rollout was aborted: {}", one.failure));
            }
            table.row(vec![
                revision,
                ago(one.applied_at_ms, frame.now_ms),
                one.applied_by.clone().into(),
                one.replicas.to_string().into(),
                images.collect::<Vec<_>>().join(", ").into(),
                notes.join("; ").into(),
            ]);
        }
        section("revisions", "Revisions", vec![table.element()])
    }
}

fn rollout_item(service: &ServiceInfo, rollout: &RolloutInfo, text: String) -> Element {
    let (done, total) = match &rollout.rollback_progress {
        Some(back) => (back.current_step, back.total_steps),
        None => (rollout.current_step, rollout.total_steps),
    };
    let bar = el("progress")
        .attr("max", total.max(1).to_string())
        .attr("value", done.min(total).to_string())
        .attr("aria-label", format!("Steps of the rollout of {}", service.name))
        .with(format!("{done} of {total} steps"));
    let mood = if rollout.state == "in_progress" { Mood::Warning } else { Mood::Failing };
    el("li")
        .with(shaped(mood, rollout.state.replace('_', " ")))
        .with(" ")
        .with(el("b").with(service.name.clone()))
        .with(": ")
        .with(text)
        .with(". ")
        .with(bar)
        .with(format!(" {done} of {total} steps done."))
}

/// Which replicas run where: a row for each node, a column for each service.
fn map(replicas: &[&ReplicaInfo], at: When) -> Element {
    let mut nodes: BTreeMap<&str, BTreeMap<&str, Vec<&ReplicaInfo>>> = BTreeMap::new();
    let mut services: Vec<&str> = Vec::new();
    for replica in replicas {
        if !services.contains(&replica.service.as_str()) {
            services.push(&replica.service);
        }
        let of_node = nodes.entry(&replica.node).or_default();
        of_node.entry(&replica.service).or_default().push(replica);
    }
    if nodes.is_empty() {
        let nothing = sentence("It has no replicas.");
        return section("map", "Where its replicas are", vec![nothing]);
    }
    services.sort_by(|a, b| natural_order(a, b));
    let mut table = Table::new("Replicas by node and service", &["Node"]);
    for service in &services {
        table.head((*service).to_owned());
    }
    let mut rows: Vec<_> = nodes.into_iter().collect();
    rows.sort_by(|(a, _), (b, _)| natural_order(a, b));
    for (node, by_service) in rows {
        let head: Node = match node {
            "" => "not placed".into(),
            node => at.node(node),
        };
        let cells = services.iter().map(|service| {
            let here = by_service.get(service).map(Vec::as_slice).unwrap_or_default();
            together(here.iter().map(|replica| dot(replica)).collect())
        });
        table.row(std::iter::once(head).chain(cells).collect());
    }
    let key = [
        (Mood::Good, "running"),
        (Mood::Warning, "on its way"),
        (Mood::Failing, "failing"),
        (Mood::Still, "stopped or unknown"),
    ];
    let key = key.map(|(mood, word)| shaped(mood, word.to_owned()));
    let key = el("p").class("key").with("Shapes: ").all(key);
    section("map", "Where its replicas are", vec![table.element(), key])
}

/// A replica in the map: its shape and its number.
fn dot(replica: &ReplicaInfo) -> Node {
    let mood = badge::of_replica(replica);
    let prefix = format!("{}-{}-", replica.deployment, replica.service);
    let short = replica.id.strip_prefix(&prefix).unwrap_or(&replica.id).to_owned();
    let state = el("span").class("hidden").with(format!(" {}", replica.state));
    el("a")
        .class("dot")
        .attr("title", progress::replica_text(replica))
        .href(&Link::part(&row_id(&replica.id)))
        .with(shaped(mood, short))
        .with(state)
        .into()
}

fn row_id(replica: &str) -> String {
    format!("replica-{replica}")
}

fn list(replicas: &[&ReplicaInfo], frame: &Frame, at: When) -> Element {
    let table = table(replicas.iter().copied().take(REPLICAS_MAX), frame, at);
    let content = match (table.is_empty(), replicas.len() > REPLICAS_MAX) {
        (true, _) => vec![sentence("It has none.")],
        (false, false) => vec![table.element()],
        (false, true) => vec![
            table.element(),
            sentence(format!(
                "{}; the first {REPLICAS_MAX} are in the list. The map has all of them.",
                count(replicas.len(), "replica")
            )),
        ],
    };
    section("replicas", "Replicas", content)
}

/// The name of a replica, with the ways to what else is known of it now.
fn name(replica: &ReplicaInfo, at: When) -> Node {
    let id = &replica.id;
    let name = el("span").id(row_id(id)).with(id.clone());
    if at != When::Now {
        return name.into();
    }
    let link = |to: Link, label: String, text: &'static str| {
        el("a").href(&to).attr("aria-label", label).with(text)
    };
    let why = link(Link::why().with("replica", id), format!("Why {id} is where it is"), "why");
    let logs = Link::logs().with("deployment", &replica.deployment);
    let logs = logs.with("service", &replica.service).with("replica", id);
    let logs = link(logs, format!("Log lines of {id}"), "logs");
    together(vec![name.into(), " ".into(), why.into(), " ".into(), logs.into()])
}

/// Replicas, one a row.
pub(crate) fn table<'r>(
    replicas: impl Iterator<Item = &'r ReplicaInfo>,
    frame: &Frame,
    at: When,
) -> Table {
    let mut table = Table::new(
        "Replicas with their state",
        &[
            "Replica",
            "State",
            "Node",
            "Revision",
            "Since",
            "In endpoints",
            "Address",
            "Notes",
            "Last end",
        ],
    )
    .class("replicas");
    for one in replicas {
        let node: Node = match one.node.as_str() {
            "" => "–".into(),
            node => at.node(node),
        };
        let word = if one.state.is_empty() { "unknown" } else { &one.state };
        let addresses = one.addresses.iter().map(|it| it.address.as_str());
        let last = one.terminations.first().map(|last| {
            let text = termination::text(last).replace('_', " ");
            together(vec![text.into(), ", ".into(), ago(last.at_ms, frame.now_ms)])
        });
        table.row(vec![
            name(one, at),
            shaped(badge::of_replica(one), word.to_owned()).into(),
            node,
            if one.revision == 0 { "–".into() } else { one.revision.to_string().into() },
            ago(one.since_ms, frame.now_ms),
            if one.in_routing { "yes".into() } else { "no".into() },
            addresses.collect::<Vec<_>>().join(" ").into(),
            replica::notes(one, frame.now_ms).into(),
            last.unwrap_or_else(|| "–".into()),
        ]);
    }
    table
}
