//! What can be done about a subject: links to the pages of actions, as far as the reader may do them, and to what-if.

use jaco_proto::v1::{DeploymentInfo, HistoryResponse, NodeInfo, ReplicaInfo, ServiceInfo};

use crate::action::{Action, Allocation, BoundData};
use crate::cells::section;
use crate::html::{Element, el};
use crate::problem::Part;
use crate::shell::Frame;
use crate::whatif::Supposed;

/// How many earlier revisions are offered, the newest first. The others can be rolled back to with `jaco rollback`.
const REVISIONS_MAX: usize = 10;

/// About a deployment and its services.
pub(crate) fn deployment(
    deployment: &DeploymentInfo,
    replicas: &[ReplicaInfo],
    history: &Part<HistoryResponse>,
    frame: &Frame,
) -> Element {
    let name = &deployment.name;
    let mut items = Vec::new();
    for service in &deployment.services {
        let supposed = Supposed {
            scale: format!("{name}/{}={}", service.name, service.desired),
            ..Supposed::default()
        };
        let mut links = vec![el("a").href(&supposed.link()).with("What if it is scaled")];
        let actions = of_service(name, service, replicas);
        links.extend(actions.iter().filter(|it| it.is_offered_to(&frame.rights)).map(to));
        items.push(item(service.name.clone(), links));
    }
    let whole = [
        Action::Restart { deployment: name.clone(), service: None },
        Action::Delete { deployment: name.clone() },
    ];
    let whole = whole.iter().filter(|it| it.is_offered_to(&frame.rights)).map(to).collect();
    items.push(item(format!("All of {name}"), whole));
    let earlier = earlier(name, history);
    let earlier = earlier.iter().filter(|it| it.is_offered_to(&frame.rights));
    let earlier = earlier.map(|action| el("a").href(&action.link()).with(action.title()));
    items.push(item("Earlier revisions".to_owned(), earlier.collect()));
    list(items.into_iter().flatten().collect())
}

fn of_service(deployment: &str, of: &ServiceInfo, replicas: &[ReplicaInfo]) -> Vec<Action> {
    let names = || (deployment.to_owned(), of.name.clone());
    let all = || {
        let (deployment, service) = names();
        Allocation::Service { deployment, service }
    };
    let (deployment, service) = names();
    let mut actions = Vec::new();
    match (of.completes_as.as_str(), of.placement.as_str()) {
        ("job", _) => actions.push(Action::Run { deployment, service }),
        // It has one on each node.
        (_, "global") => {}
        _ => actions.push(Action::Scale { deployment, service, replicas: None }),
    }
    let (deployment, service) = names();
    let is_disabled = |replica: &ReplicaInfo| {
        (&replica.deployment, &replica.service) == (&deployment, &service)
            && replica.code == "disabled"
    };
    let some_are_disabled = replicas.iter().any(is_disabled);
    actions.push(Action::Restart { deployment, service: Some(service) });
    actions.push(Action::Disable(all()));
    if some_are_disabled {
        actions.push(Action::Enable(all()));
    }
    actions
}

/// Rollbacks to kept revisions that are not the desired one, the newest first.
fn earlier(deployment: &str, history: &Part<HistoryResponse>) -> Vec<Action> {
    let Ok(history) = history else { return Vec::new() };
    let revisions = history.revisions.iter().rev().map(|one| one.revision);
    let earlier = revisions.filter(|revision| *revision != history.revision).take(REVISIONS_MAX);
    earlier.map(|to| Action::Rollback { deployment: deployment.to_owned(), to }).collect()
}

/// About a node.
pub(crate) fn node(node: &NodeInfo, frame: &Frame) -> Element {
    let name = &node.hostname;
    let lost = Supposed { lose: name.clone(), ..Supposed::default() };
    let drained = Supposed { drain: name.clone(), ..Supposed::default() };
    let mut links = vec![
        el("a").href(&lost.link()).with("What if it is lost"),
        el("a").href(&drained.link()).with("What if it is drained"),
    ];
    let all = || Allocation::Node(name.clone());
    let mut actions = Vec::new();
    if node.availability != "draining" {
        actions.push(Action::Drain { node: name.clone(), data: BoundData::Refuses });
    }
    if node.availability == "active" {
        actions.push(Action::Cordon { node: name.clone() });
    } else {
        actions.push(Action::Uncordon { node: name.clone() });
    }
    actions.push(Action::Disable(all()));
    actions.push(Action::Enable(all()));
    actions.push(match node.status.as_str() {
        "down" => Action::RemoveLost { node: name.clone() },
        _ => Action::Remove { node: name.clone() },
    });
    let offered = actions.iter().filter(|it| it.is_offered_to(&frame.rights));
    links.extend(offered.map(|action| el("a").href(&action.link()).with(action.title())));
    list(item(name.clone(), links).into_iter().collect())
}

/// A way to an action, with its whole name for those who do not see what it is beside.
fn to(action: &Action) -> Element {
    el("a").href(&action.link()).attr("aria-label", action.title()).with(action.verb())
}

fn item(head: String, links: Vec<Element>) -> Option<Element> {
    if links.is_empty() {
        return None;
    }
    let mut item = el("li").with(el("b").with(head)).with(": ");
    for (place, link) in links.into_iter().enumerate() {
        item = if place == 0 { item.with(link) } else { item.with(", ").with(link) };
    }
    Some(item)
}

fn list(items: Vec<Element>) -> Element {
    section("actions", "What can be done", vec![el("ul").class("actions").all(items)])
}
