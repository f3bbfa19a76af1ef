//! What each action is called, says and needs.

use jaco_types::{Rights, Role};

use super::{Action, Allocation, BoundData};
use crate::link::Link;

impl Action {
    /// The command that does the same.
    #[must_use]
    pub fn command(&self) -> String {
        match self {
            Self::Scale { deployment, service, replicas } => match replicas {
                Some(replicas) => format!("jaco scale {deployment}/{service} {replicas}"),
                None => format!("jaco scale {deployment}/{service} N"),
            },
            Self::Restart { deployment, service: None } => format!("jaco restart {deployment}"),
            Self::Restart { deployment, service: Some(service) } => {
                format!("jaco restart {deployment}/{service}")
            }
            Self::Run { deployment, service } => format!("jaco run {deployment}/{service}"),
            Self::Disable(allocation) => format!("jaco disable {}", allocation.option()),
            Self::Enable(allocation) => format!("jaco enable {}", allocation.option()),
            Self::Rollback { deployment, to } => format!("jaco rollback {deployment} --to {to}"),
            Self::Delete { deployment } => format!("jaco delete {deployment}"),
            Self::Cordon { node } => format!("jaco node cordon {node}"),
            Self::Uncordon { node } => format!("jaco node uncordon {node}"),
            Self::Drain { node, data: BoundData::Refuses } => format!("jaco node drain {node}"),
            Self::Drain { node, data: BoundData::Stays } => {
                format!("jaco node drain {node} --leave-data")
            }
            Self::Remove { node } => format!("jaco node rm {node}"),
            Self::RemoveLost { node } => format!("jaco node rm {node} --force"),
        }
    }

    /// What it is called, with what it is about.
    #[must_use]
    pub fn title(&self) -> String {
        let verb = self.verb();
        match self {
            Self::Scale { deployment, service, .. }
            | Self::Restart { deployment, service: Some(service) }
            | Self::Run { deployment, service } => format!("{verb} {deployment}/{service}"),
            Self::Disable(allocation) | Self::Enable(allocation) => match allocation {
                Allocation::Service { deployment, service } => {
                    format!("{verb} {deployment}/{service}")
                }
                Allocation::Node(node) => format!("{verb} everything on {node}"),
            },
            Self::Rollback { deployment, to } => format!("{verb} {deployment} to revision {to}"),
            Self::Restart { deployment, service: None } | Self::Delete { deployment } => {
                format!("{verb} {deployment}")
            }
            Self::Cordon { node }
            | Self::Uncordon { node }
            | Self::Drain { node, .. }
            | Self::Remove { node } => format!("{verb} {node}"),
            Self::RemoveLost { node } => format!("{verb} {node}, which is lost"),
        }
    }

    /// What it is called.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Scale { .. } => "Scale",
            Self::Restart { .. } => "Restart",
            Self::Run { .. } => "Run",
            Self::Disable(_) => "Disable",
            Self::Enable(_) => "Enable",
            Self::Rollback { .. } => "Roll back",
            Self::Delete { .. } => "Delete",
            Self::Cordon { .. } => "Cordon",
            Self::Uncordon { .. } => "Uncordon",
            Self::Drain { .. } => "Drain",
            Self::Remove { .. } | Self::RemoveLost { .. } => "Remove",
        }
    }

    /// What happens, in a sentence.
    #[must_use]
    pub const fn sentence(&self) -> &'static str {
        match self {
            Self::Scale { .. } => {
                "Applies the stored spec with the new number of replicas as a new revision. The next apply of the files sets \
                 the number in the files again."
            }
            Self::Restart { .. } => {
                "Replaces each replica by a new one of the same spec, one after another, and rolls back if the new ones do \
                 not become healthy."
            }
            Self::Run { .. } => {
                "Begins a run of the job with its present spec, whatever its schedule. It is refused while the job runs."
            }
            Self::Disable(_) => {
                "Takes the replicas out of the endpoints, and stops them with their grace period. They keep their nodes and \
                 their data, and do not start until they are enabled."
            }
            Self::Enable(_) => {
                "Starts the disabled replicas again on the nodes that they were on, with the current revision."
            }
            Self::Rollback { .. } => {
                "Applies the spec of the earlier revision, with the image digests that it had, as a new revision."
            }
            Self::Delete { .. } => {
                "Stops and removes all of its containers on every node. Named volumes stay. It cannot be undone here: the \
                 deployment is back once its files are applied again."
            }
            Self::Cordon { .. } => "Keeps new replicas off the node. Replicas that are there stay.",
            Self::Uncordon { .. } => {
                "Ends a cordon or a drain: the node gets new replicas again. Those that were moved are not moved back."
            }
            Self::Drain { data: BoundData::Refuses, .. } => {
                "Moves the replicas of the node to others: each starts elsewhere before it stops here. The node gets no new \
                 ones until it is uncordoned. A drain is cancelled if no replica leaves for five minutes."
            }
            Self::Drain { data: BoundData::Stays, .. } => {
                "Moves the replicas of the node to others, except for those whose data is on it: they stay and run. The \
                 node gets no new ones until it is uncordoned."
            }
            Self::Remove { .. } => {
                "Removes the node from the cluster. It is refused while the node has replicas or containers: drain it first."
            }
            Self::RemoveLost { .. } => {
                "Removes the node from the cluster although it is not empty: for a node that does not come back. Its \
                 replicas are placed on others; data that is on it is given up."
            }
        }
    }

    /// What is typed to confirm it; none where sending the form is enough.
    #[must_use]
    pub fn typed(&self) -> Option<&str> {
        let (Self::Delete { deployment: name }
        | Self::Remove { node: name }
        | Self::RemoveLost { node: name }) = self
        else {
            return None;
        };
        Some(name)
    }

    /// The rpc that does it.
    #[must_use]
    pub const fn rpc(&self) -> &'static str {
        match self {
            Self::Scale { .. } | Self::Restart { .. } => "/jaco.v1.Deploy/Apply",
            Self::Run { .. } => "/jaco.v1.Deploy/RunJob",
            Self::Disable(_) | Self::Enable(_) => "/jaco.v1.Cluster/SetDisabled",
            Self::Rollback { .. } => "/jaco.v1.Deploy/Rollback",
            Self::Delete { .. } => "/jaco.v1.Deploy/Delete",
            Self::Cordon { .. } | Self::Uncordon { .. } | Self::Drain { .. } => {
                "/jaco.v1.Cluster/SetAvailability"
            }
            Self::Remove { .. } | Self::RemoveLost { .. } => "/jaco.v1.Cluster/RemoveNode",
        }
    }

    /// Whether these rights are shown a way to it. The rpc decides.
    #[must_use]
    pub fn is_offered_to(&self, rights: &Rights) -> bool {
        match (rights, self.deployment()) {
            (Rights::Deployer(theirs), Some(deployment)) => {
                theirs.iter().any(|name| name.as_str() == deployment)
            }
            _ => rights.role() >= self.role(),
        }
    }

    /// The least role that may do it; a deployer may where it is about one of its deployments.
    #[must_use]
    pub fn role(&self) -> Role {
        if matches!(self, Self::Remove { .. } | Self::RemoveLost { .. }) {
            return Role::Admin;
        }
        if self.deployment().is_some() { Role::Deployer } else { Role::Operator }
    }

    fn deployment(&self) -> Option<&str> {
        match self {
            Self::Scale { deployment, .. }
            | Self::Restart { deployment, .. }
            | Self::Run { deployment, .. }
            | Self::Disable(Allocation::Service { deployment, .. })
            | Self::Enable(Allocation::Service { deployment, .. })
            | Self::Rollback { deployment, .. }
            | Self::Delete { deployment } => Some(deployment),
            Self::Disable(Allocation::Node(_))
            | Self::Enable(Allocation::Node(_))
            | Self::Cordon { .. }
            | Self::Uncordon { .. }
            | Self::Drain { .. }
            | Self::Remove { .. }
            | Self::RemoveLost { .. } => None,
        }
    }

    /// The page that says what it does.
    #[must_use]
    pub fn link(&self) -> Link {
        let link = Link::action(self.name());
        self.fields().iter().fold(link, |link, (name, value)| link.with(name, value))
    }

    /// The page of what it was about, which says that it was accepted.
    #[must_use]
    pub fn result(&self) -> Link {
        let page = match self {
            // What is deleted has no page any more.
            Self::Delete { .. } | Self::Remove { .. } | Self::RemoveLost { .. } => Link::overview(),
            Self::Disable(Allocation::Node(node))
            | Self::Enable(Allocation::Node(node))
            | Self::Cordon { node }
            | Self::Uncordon { node }
            | Self::Drain { node, .. } => Link::node(node),
            Self::Scale { deployment, .. }
            | Self::Restart { deployment, .. }
            | Self::Run { deployment, .. }
            | Self::Disable(Allocation::Service { deployment, .. })
            | Self::Enable(Allocation::Service { deployment, .. })
            | Self::Rollback { deployment, .. } => Link::deployment(deployment),
        };
        page.with("did", self.name())
    }
}

/// What is said on the page that an action leads to. It is one of few sentences, whatever a link says.
#[must_use]
pub fn done(name: &str) -> Option<&'static str> {
    Some(match name {
        "scale" => "The new number of replicas was accepted.",
        "restart" => "The restart was accepted.",
        "run" => "The run of the job has begun.",
        "disable" => "The replicas were disabled.",
        "enable" => "The replicas were enabled.",
        "rollback" => "The rollback was accepted.",
        "delete" => "The deletion was accepted.",
        "cordon" => "The node was cordoned.",
        "uncordon" => "The node was uncordoned.",
        "drain" => "The drain has begun.",
        "remove" | "remove-lost" => "The node was removed.",
        _ => return None,
    })
}

impl Allocation {
    /// As options of a command have it.
    fn option(&self) -> String {
        match self {
            Self::Service { deployment, service } => format!("{deployment}/{service}"),
            Self::Node(node) => format!("--node {node}"),
        }
    }
}
