//! The whole cluster: what needs attention, the deployments and the nodes.

use jaco_proto::v1::{
    BackupScheduleInfo, ClusterStatusResponse, DeploymentInfo, NodeInfo, RouteInfo, ServiceInfo,
    StatusResponse, VoterProgress,
};
use jaco_sentences::attention::{self, Attention, Severity, Subject};
use jaco_sentences::node::{ListedNode, listed};
use jaco_sentences::quantity::{count, natural_order};
use jaco_sentences::{progress, service};

use crate::badge::{self, Mood, shaped};
use crate::cells::{Table, ago, is_current, of_wanted, section, sentence};
use crate::html::{Element, Node, el};
use crate::link::Link;
use crate::problem::Part;
use crate::shell::{Frame, Live, Page, Place};
use crate::when::{self, Around, When};

/// How many things that need attention are shown. Further ones are counted: who has so many looks at them one by one.
const ATTENTION_MAX: usize = 50;

/// How many deployments are shown, and how many nodes.
const ROWS_MAX: usize = 80;

/// How much of a long text is shown in a table that has one for each of many rows, in characters.
const NOTES_MAX: usize = 120;

/// The overview.
#[derive(Debug)]
pub struct OverviewPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// Deployments, replicas and nodes.
    pub status: Part<StatusResponse>,
    /// Routes with what is wrong with them.
    pub routes: Part<Vec<RouteInfo>>,
    /// How far the voters are, as the leader says.
    pub voters: Part<Vec<VoterProgress>>,
    /// The schedules of backups with what became of them.
    pub backups: Part<Vec<BackupScheduleInfo>>,
    /// Only deployments and nodes whose names have this; all if it is empty.
    pub find: String,
    /// What happened around its moment; none if that is now.
    pub around: Option<Around>,
}

impl OverviewPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        if let (Ok(status), Some(around)) = (&self.status, &self.around) {
            return self.earlier(status, around, frame);
        }
        let voters = self.voters.as_deref().unwrap_or_default();
        let nodes = listed(self.cluster.nodes.clone(), voters);
        let mut content = vec![self.attention(&nodes, frame), self.find(When::Now)];
        content.push(match &self.status {
            Ok(status) => self.deployments(status, frame),
            Err(refused) => section(
                "deployments",
                "Deployments",
                vec![refused.note("deployments and their replicas")],
            ),
        });
        content.push(self.nodes(&nodes, When::Now));
        let page = Page {
            heading: "Overview".to_owned(),
            place: Place::Overview,
            content,
            live: Some(Live::Changes(Link::events())),
        };
        page.html(frame, Some(self.cluster))
    }

    /// The page as of an earlier moment: of what is in the log.
    fn earlier(&self, status: &StatusResponse, around: &Around, frame: &Frame) -> String {
        let then = when::then(status, frame);
        let at = When::of(status);
        let nodes = listed(status.nodes.clone(), &[]);
        let mut content = when::banner(status, Some(around), &Link::overview());
        let mut found = attention::workload(status);
        found.extend(attention::nodes(&nodes));
        found.extend(self.routes.iter().flat_map(|routes| attention::routes(routes)));
        let calm = "Nothing, of what is in the log.".to_owned();
        let mut attention = attention_list(found, at, calm);
        attention.extend(self.routes.as_ref().err().map(|why| why.note("what routes lacked")));
        content.push(section("attention", "Needed attention", attention));
        content.push(self.find(at));
        content.push(self.deployments(status, &then));
        content.push(self.nodes(&nodes, at));
        content.push(when::events(status, around, &Link::overview()));
        let page = Page {
            heading: format!("Overview at index {}", status.raft_index),
            place: Place::Overview,
            content,
            live: None,
        };
        page.html(frame, Some(self.cluster))
    }

    fn attention(&self, nodes: &[ListedNode], frame: &Frame) -> Element {
        let mut found = attention::cluster(self.cluster);
        found.extend(attention::nodes(nodes));
        found.extend(self.status.iter().flat_map(attention::workload));
        found.extend(self.routes.iter().flat_map(|routes| attention::routes(routes)));
        found.extend(self.backups.iter().flat_map(|all| attention::backups(all, frame.now_ms)));
        let calm = match (is_current(self.cluster), &self.status) {
            (true, Ok(_)) => format!("Nothing, as far as {} knows.", self.cluster.answered_by),
            _ => format!("{} cannot tell at the moment.", self.cluster.answered_by),
        };
        let mut content = attention_list(found, When::Now, calm);
        content.extend(self.routes.as_ref().err().map(|why| why.note("what routes lack")));
        content.extend(
            self.voters.as_ref().err().map(|why| why.note("whether the votes of all nodes count")),
        );
        content.extend(self.backups.as_ref().err().map(|why| why.note("whether backups fail")));
        section("attention", "Needs attention", content)
    }

    fn find(&self, at: When) -> Element {
        let input = el("input")
            .id("find-name")
            .attr("type", "search")
            .attr("name", "find")
            .attr("value", self.find.clone());
        let form = el("form")
            .class("find")
            .attr("method", "get")
            .attr("action", Link::overview().to_string())
            .attr("role", "search");
        let form = match at {
            When::Now => form,
            When::At(index) => form.with(
                el("input")
                    .attr("type", "hidden")
                    .attr("name", "at")
                    .attr("value", index.to_string()),
            ),
        };
        form.with(el("label").attr("for", "find-name").with("Names with"))
            .with(input)
            .with(el("button").attr("type", "submit").with("Show"))
    }

    fn is_wanted(&self, name: &str) -> bool {
        name.contains(self.find.as_str())
    }

    fn deployments(&self, status: &StatusResponse, frame: &Frame) -> Element {
        let wanted = status.deployments.iter().filter(|it| self.is_wanted(&it.name));
        let mut wanted: Vec<&DeploymentInfo> = wanted.collect();
        wanted.sort_by(|a, b| natural_order(&a.name, &b.name));
        let mut table = Table::new(
            "Deployments with their replicas",
            &["Deployment", "Status", "Replicas running", "Revision", "Updated", "Notes"],
        );
        for deployment in wanted.iter().take(ROWS_MAX) {
            let sum = |of: fn(&ServiceInfo) -> u32| deployment.services.iter().map(of).sum::<u32>();
            let notes = deployment.services.iter().filter_map(|one| {
                let notes = service::notes(status, deployment, one, frame.now_ms);
                (!notes.is_empty()).then(|| format!("{}: {notes}", one.name))
            });
            let notes = shortened(&notes.collect::<Vec<_>>().join("; "));
            let link = When::of(status).link(Link::deployment(&deployment.name));
            table.row(vec![
                el("a").href(&link).with(deployment.name.clone()).into(),
                badge::state(&deployment.status),
                of_wanted(
                    sum(progress::fulfilled),
                    sum(|it| it.desired),
                    "replicas that run or have completed",
                ),
                deployment.revision.to_string().into(),
                ago(deployment.updated_at_ms, frame.now_ms),
                notes.into(),
            ]);
        }
        let content = match (table.is_empty(), self.find.is_empty()) {
            (true, true) => vec![
                el("p")
                    .with("There are none. ")
                    .with(el("code").with("jaco apply compose.yaml"))
                    .with(" creates one."),
            ],
            (true, false) => vec![sentence("No name has this.")],
            (false, _) => vec![table.element(), shown_of(wanted.len(), "deployment")],
        };
        section("deployments", "Deployments", content)
    }

    fn nodes(&self, nodes: &[ListedNode], at: When) -> Element {
        let wanted = nodes.iter().filter(|it| self.is_wanted(it.hostname()));
        let mut wanted: Vec<&ListedNode> = wanted.collect();
        wanted.sort_by(|a, b| natural_order(a.hostname(), b.hostname()));
        let mut table = Table::new(
            "Nodes with what they run",
            &["Node", "Status", "Availability", "Raft", "Replicas", "Version", "Notes"],
        );
        for one in wanted.iter().take(ROWS_MAX) {
            let node: &NodeInfo = &one.node;
            let leads = at == When::Now
                && !node.hostname.is_empty()
                && node.hostname == self.cluster.leader;
            let raft = if leads { "leader".to_owned() } else { node.suffrage.clone() };
            table.row(vec![
                at.node(&node.hostname),
                badge::state(&node.status),
                badge::state(&node.availability),
                raft.into(),
                node.replicas.to_string().into(),
                node.version.clone().into(),
                shortened(&one.notes()).into(),
            ]);
        }
        let mut content = match table.is_empty() {
            true => vec![sentence("No name has this.")],
            false => vec![table.element(), shown_of(wanted.len(), "node")],
        };
        if at == When::Now {
            let network = el("a").href(&Link::network()).with("Which node reaches which");
            content.push(el("p").with(network).with(", measured when it is asked."));
        }
        section("nodes", "Nodes", content)
    }
}

/// What needs attention, the worst first.
fn attention_list(mut found: Vec<Attention>, at: When, calm: String) -> Vec<Element> {
    found.sort();
    if found.is_empty() {
        return vec![sentence(calm)];
    }
    let shown = found.iter().take(ATTENTION_MAX).map(|found| item(found, at));
    let mut content = vec![el("ul").class("attention").all(shown)];
    let left_out = found.len().saturating_sub(ATTENTION_MAX);
    if left_out > 0 {
        content.push(sentence(format!(
            "{left_out} more are not shown here; the pages of the deployments and nodes have them."
        )));
    }
    content
}

fn item(found: &Attention, at: When) -> Element {
    let (mood, word) = match found.severity {
        Severity::Failing => (Mood::Failing, "failing"),
        Severity::Warning => (Mood::Warning, "warning"),
    };
    let name = found.subject.to_string();
    let subject: Node = match &found.subject {
        Subject::Cluster | Subject::BackupSchedule(_) => el("b").with(name).into(),
        Subject::Node(node) => at.node(node),
        Subject::Service { deployment, .. }
        | Subject::Replica { deployment, .. }
        | Subject::Route { deployment, .. } => {
            el("a").href(&at.link(Link::deployment(deployment))).with(name).into()
        }
    };
    let item = el("li")
        .with(shaped(mood, word.to_owned()))
        .with(" ")
        .with(subject)
        .with(": ")
        .with(shortened(&found.message));
    match found.help.is_empty() {
        true => item,
        false => item.with(el("span").class("help").with(format!(" {}.", found.help))),
    }
}

/// How many there are, and that not all of them are shown.
fn shown_of(number: usize, noun: &str) -> Element {
    let all = count(number, noun);
    match number > ROWS_MAX {
        false => sentence(format!("{all}.")),
        true => sentence(format!(
            "{all}; the first {ROWS_MAX} are shown. Part of a name, above, shows others."
        )),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(NOTES_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
