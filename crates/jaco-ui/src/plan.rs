//! What the planner would do, as a map of before and after and as sentences.

use std::collections::{BTreeMap, BTreeSet};

use jaco_proto::v1::{PlannedChange, Preview, ReplicaInfo, StatusResponse};
use jaco_sentences::plan;
use jaco_sentences::quantity::{count, natural_order};

use crate::cells::{Table, section, sentence};
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::problem::Part;

/// How many services the map has, and how many changes the list. The sentences count all of them.
const SERVICES_MAX: usize = 40;
const CHANGES_MAX: usize = 500;

/// Where replicas are that have no node.
const NOWHERE: &str = "";

/// A plan, with what it begins from and the nodes that it supposes to be lost.
pub(crate) struct Planned<'a> {
    pub(crate) preview: &'a Preview,
    pub(crate) status: &'a Part<StatusResponse>,
    pub(crate) lost: &'a [String],
}

impl Planned<'_> {
    /// Its sections.
    pub(crate) fn sections(&self) -> Vec<Element> {
        let notes = plan::notes(self.preview).into_iter().map(|note| el("li").with(note));
        let mut sections = vec![section("effect", "What happens", vec![el("ul").all(notes)])];
        sections.push(match self.status {
            Ok(status) => self.map(&status.replicas),
            Err(refused) => section(
                "map",
                "Before and after",
                vec![refused.note("where replicas are at the moment")],
            ),
        });
        sections.extend(self.changes());
        sections
    }

    /// How many replicas of each service each node has before and after it.
    fn map(&self, replicas: &[ReplicaInfo]) -> Element {
        let counts = Counts::of(replicas, self.preview, self.lost);
        let mut services: Vec<&String> = counts.changed.iter().collect();
        services.sort_by(|a, b| natural_order(a, b));
        if services.is_empty() {
            return section(
                "map",
                "Before and after",
                vec![sentence("No service has other replicas on any node afterwards.")],
            );
        }
        let left_out = services.len().saturating_sub(SERVICES_MAX);
        services.truncate(SERVICES_MAX);
        let mut table = Table::new("Replicas by node and service, before → after", &["Node"]);
        for service in &services {
            table.head((*service).clone());
        }
        let mut nodes: Vec<&String> = counts.nodes(&services).into_iter().collect();
        // What has no place comes last.
        nodes.sort_by(|a, b| a.is_empty().cmp(&b.is_empty()).then_with(|| natural_order(a, b)));
        for node in nodes {
            let head: Node = match node.as_str() {
                NOWHERE => "not placed".into(),
                name => el("a").href(&Link::node(name)).with(name.to_owned()).into(),
            };
            let cells = services.iter().map(|service| {
                let (before, after) = counts.at(node, service);
                match (before == after, before) {
                    (true, 0) => "–".into(),
                    (true, _) => before.to_string().into(),
                    (false, _) => el("b").with(format!("{before} → {after}")).into(),
                }
            });
            table.row(std::iter::once(head).chain(cells).collect());
        }
        let mut content = vec![table.element()];
        if left_out > 0 {
            let more = count(left_out, "service");
            content
                .push(sentence(format!("{more} more are changed; the list has their replicas.")));
        }
        section("map", "Before and after", content)
    }

    /// Each replica that changes, with where it comes from, where it goes, and why.
    fn changes(&self) -> Option<Element> {
        let changes = plan::sorted(&self.preview.changes);
        if changes.is_empty() {
            return None;
        }
        let mut table =
            Table::new("Replicas that change", &["Replica", "Action", "Node", "Reason"]);
        for change in changes.iter().take(CHANGES_MAX) {
            table.row(vec![
                change.replica.clone().into(),
                change.action.clone().into(),
                plan::place(change).into(),
                plan::why(change).replace('_', " ").into(),
            ]);
        }
        let mut content = vec![table.element()];
        if changes.len() > CHANGES_MAX {
            let all = count(changes.len(), "change");
            content.push(sentence(format!("{all}; the first {CHANGES_MAX} are in the list.")));
        }
        Some(section("changes", "What moves", content))
    }
}

/// Replicas by service and node, before and after. Services are named `deployment/service`.
struct Counts {
    before: BTreeMap<(String, String), u32>,
    after: BTreeMap<(String, String), u32>,
    /// Services whose replicas are elsewhere, or of another number, afterwards.
    changed: BTreeSet<String>,
}

impl Counts {
    fn of(replicas: &[ReplicaInfo], preview: &Preview, lost: &[String]) -> Self {
        let changes: BTreeMap<&str, &PlannedChange> =
            preview.changes.iter().map(|change| (change.replica.as_str(), change)).collect();
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        let add = |to: &mut BTreeMap<(String, String), u32>, service: &String, node: &str| {
            *to.entry((service.clone(), node.to_owned())).or_default() += 1;
        };
        let mut present = BTreeSet::new();
        for replica in replicas {
            present.insert(replica.id.as_str());
            let service = format!("{}/{}", replica.deployment, replica.service);
            add(&mut before, &service, &replica.node);
            match changes.get(replica.id.as_str()) {
                Some(change) if change.action == "stop" => {}
                Some(change) => add(&mut after, &service, &change.node),
                // It waits for its node, or for another one that could take it.
                None if lost.contains(&replica.node) => add(&mut after, &service, NOWHERE),
                None => add(&mut after, &service, &replica.node),
            }
        }
        for change in &preview.changes {
            if change.action != "stop" && !present.contains(change.replica.as_str()) {
                let service = format!("{}/{}", change.deployment, change.service);
                add(&mut after, &service, &change.node);
            }
        }
        let differs = |place: &&(String, String)| before.get(*place) != after.get(*place);
        let places = before.keys().chain(after.keys());
        let changed = places.filter(differs).map(|(service, _)| service.clone()).collect();
        Self { before, after, changed }
    }

    fn at(&self, node: &str, service: &str) -> (u32, u32) {
        let place = (service.to_owned(), node.to_owned());
        let of = |counts: &BTreeMap<_, u32>| counts.get(&place).copied().unwrap_or_default();
        (of(&self.before), of(&self.after))
    }

    /// The nodes that have replicas of these services before or afterwards.
    fn nodes(&self, services: &[&String]) -> BTreeSet<&String> {
        let places = self.before.keys().chain(self.after.keys());
        places.filter(|(service, _)| services.contains(&service)).map(|(_, node)| node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(id: &str, node: &str) -> ReplicaInfo {
        ReplicaInfo {
            id: id.to_owned(),
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            node: node.to_owned(),
            ..ReplicaInfo::default()
        }
    }

    fn change(action: &str, replica: &str, from: &str, to: &str) -> PlannedChange {
        PlannedChange {
            action: action.to_owned(),
            replica: replica.to_owned(),
            from_node: from.to_owned(),
            node: to.to_owned(),
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            ..PlannedChange::default()
        }
    }

    /// R-OPS-1: what moves, begins, ends and stays without a place is counted where it will be.
    #[test]
    fn replicas_are_counted_where_they_will_be() {
        let present =
            [replica("a", "n1"), replica("b", "n1"), replica("c", "n2"), replica("d", "n3")];
        let preview = Preview {
            changes: vec![
                change("move", "a", "n1", "n2"),
                change("stop", "c", "n2", "n2"),
                change("create", "e", "", "n2"),
                change("create", "f", "", ""),
            ],
            ..Preview::default()
        };
        let counts = Counts::of(&present, &preview, &["n3".to_owned()]);
        let at = |node| counts.at(node, "shop/web");
        assert_eq!((at("n1"), at("n2"), at("n3"), at(NOWHERE)), ((2, 1), (1, 2), (1, 0), (0, 2)));
        assert_eq!(counts.changed.len(), 1);
        let calm = Counts::of(&present, &Preview::default(), &[]);
        assert!(calm.changed.is_empty());
    }
}
