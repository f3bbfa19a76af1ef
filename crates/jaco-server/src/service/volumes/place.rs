//! The node that a request about a volume is for, and the volume there.

use std::collections::BTreeSet;

use jaco_agent::engine::{ExistingVolume, HeldVolume, VolumeAccess, VolumeMount, VolumeTarget};
use jaco_proto::v1;
use jaco_state::audit::AuditKind;
use jaco_types::{Author, DeploymentName, ErrorCode, Identity, NodeId, Rejection};
use tonic::Status;

use super::demand::demand;
use super::list::list;
use crate::auth::permission::Concern;
use crate::member::Member;
use crate::service::audit_action::audit;
use crate::service::cluster::find_node;
use crate::service::upgraded;
use crate::status::{from_status, invalid, to_status};
use crate::view::hostname;

/// A volume of a deployment on a node.
#[derive(Debug)]
pub(super) struct Place {
    deployment: DeploymentName,
    /// As the request names it.
    volume: String,
    node: NodeId,
}

impl Place {
    /// Finds the node of a volume whose deployment the sender may change: the one that is named, or the only one that has it.
    ///
    /// # Errors
    /// If there is no such node, several have it, none has, or the sender may not.
    pub(super) async fn of(
        member: &Member,
        by: &Author,
        asked: (&str, &str, &str),
    ) -> Result<Self, Rejection> {
        member.caught_up().await?;
        let deployment = DeploymentName::new(asked.0).map_err(invalid)?;
        member.admit(by, [Concern::Deployment(&deployment)])?;
        member.store.read(upgraded::volumes_may_be_audited)?;
        let found = Self::find(member, asked).await?;
        if matches!(by.by, Identity::Node { .. }) && found.node != member.id {
            return Err(invalid("this node does not have the volume"));
        }
        Ok(found)
    }

    /// Finds the node of a volume: the one that is named, or the only one that has it.
    ///
    /// # Errors
    /// If there is no such node, several have it, or none has.
    pub(super) async fn find(
        member: &Member,
        (deployment, volume, node): (&str, &str, &str),
    ) -> Result<Self, Rejection> {
        member.caught_up().await?;
        let deployment = DeploymentName::new(deployment).map_err(invalid)?;
        if volume.is_empty() {
            return Err(invalid("no volume is named"));
        }
        let node = match node {
            "" => only_one(member, &deployment, volume).await?,
            name => member.store.read(|state| find_node(state, name))?,
        };
        Ok(Self { deployment, volume: volume.to_owned(), node })
    }

    /// The deployment that it is of.
    pub(super) fn deployment(&self) -> &DeploymentName {
        &self.deployment
    }

    /// The node that it is on.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// The request to its node for what is in it; refused while a container may write to it.
    pub(super) fn read_request(&self, member: &Member) -> v1::ReadVolumeRequest {
        v1::ReadVolumeRequest {
            deployment: self.deployment.to_string(),
            volume: self.volume.clone(),
            node: self.hostname(member),
            in_use: String::new(),
        }
    }

    /// The refusal to move it to where it is.
    pub(super) fn stays(&self, node: &str) -> Rejection {
        invalid(format!("{}/{} is on {node} already", self.deployment, self.volume))
    }

    /// Writes what is about to happen into the audit log, in the name of the sender, with what it allows beyond the usual. What
    /// another member sent has been written by that one.
    ///
    /// # Errors
    /// If it cannot be written: then it does not happen.
    pub(super) async fn audit(
        &self,
        member: &Member,
        by: Author,
        kind: AuditKind,
        allowed: Option<(&'static str, &str)>,
    ) -> Result<(), Rejection> {
        if matches!(by.by, Identity::Node { .. }) {
            return Ok(());
        }
        let facts = [
            ("deployment", self.deployment.to_string()),
            ("node", self.hostname(member)),
            ("volume", self.volume.clone()),
        ];
        let facts = facts.into_iter().chain(allowed.map(|(name, fact)| (name, fact.to_owned())));
        let payload = facts.map(|(name, fact)| (name.to_owned(), fact));
        audit(member, by, kind, payload.collect()).await
    }

    /// Whether it is this node.
    pub(super) fn is_here(&self, member: &Member) -> bool {
        self.node == member.id
    }

    /// The name of the node.
    pub(super) fn hostname(&self, member: &Member) -> String {
        member.store.read(|state| hostname(state, self.node))
    }

    /// The volume on this node; `None` if it has none of this name.
    ///
    /// # Errors
    /// If the engine is unreachable.
    pub(super) async fn held(&self, member: &Member) -> Result<Option<HeldVolume>, Rejection> {
        let held = member.agent.volumes().await;
        let held =
            held.map_err(|error| Rejection::new(ErrorCode::EngineError, error.to_string()))?;
        let mut own = held.into_iter().filter(|one| one.deployment == self.deployment);
        Ok(own.find(|one| one.key == self.volume || one.name == self.volume))
    }

    /// The volume that this node does not have yet, by the deployment's manifest.
    ///
    /// # Errors
    /// If no service of the deployment has a volume of this name.
    pub(super) fn declared(&self, member: &Member) -> Result<VolumeTarget, Rejection> {
        let services: Vec<_> = member.store.read(|state| {
            let deployment = state.deployments.get(&self.deployment);
            let services = deployment.map(|deployment| &deployment.spec().services);
            services.into_iter().flat_map(|services| services.values()).cloned().collect()
        });
        let name = services.iter().find_map(|service| {
            member.agent.volume_of(&self.deployment, &self.volume, &service.container)
        });
        let name = name.ok_or_else(|| self.absent("no service of the deployment mounts one"))?;
        let demands = services.iter().flat_map(|service| &service.volumes);
        let demand = demand(demands, &self.deployment, (&self.volume, &name));
        let class = demand.map(|demand| demand.class.clone());
        // One of this name is another deployment's, or nobody's.
        let existing = ExistingVolume::Refuse;
        Ok(VolumeTarget { deployment: self.deployment.clone(), name, class, existing })
    }

    /// The refusal for want of the volume.
    pub(super) fn absent(&self, why: &str) -> Rejection {
        absent(&self.deployment, &self.volume, why)
    }

    /// The node and where it listens, for a client of it.
    ///
    /// # Errors
    /// If the node is no member any more.
    pub(super) fn address(&self, member: &Member) -> Result<(NodeId, String), Status> {
        let address = member.store.read(|state| {
            let node = state.nodes.get(&self.node)?;
            Some(node.address.clone())
        });
        let gone = || to_status(&self.absent("its node is no member any more"));
        address.map(|address| (self.node, address)).ok_or_else(gone)
    }

    /// What the node refused, or that it cannot be reached.
    pub(super) fn unreachable(&self, member: &Member, status: &Status) -> Status {
        let mut refusal = from_status(status);
        if refusal.code == ErrorCode::Unavailable {
            let (name, why) = (self.hostname(member), refusal.message);
            refusal.message =
                format!("node {name}, which has the volume, cannot be reached: {why}");
        }
        to_status(&refusal)
    }
}

/// The one node that has the volume; without any, the only node of the cluster.
async fn only_one(
    member: &Member,
    deployment: &DeploymentName,
    volume: &str,
) -> Result<NodeId, Rejection> {
    let request = v1::ListVolumesRequest { deployment: deployment.to_string(), local_only: false };
    let found = list(member, &request).await?;
    let is_meant = |one: &&v1::VolumeInfo| one.volume == volume || one.engine_name == volume;
    let nodes: BTreeSet<&str> =
        found.volumes.iter().filter(is_meant).map(|one| one.node.as_str()).collect();
    let mut candidates = nodes.iter();
    match (candidates.next(), candidates.next()) {
        (Some(node), None) => member.store.read(|state| find_node(state, node)),
        (Some(_), Some(_)) => {
            let nodes = Vec::from_iter(nodes).join(", ");
            Err(invalid(format!(
                "{deployment}/{volume} is on {nodes}: name one of them, with --from for a move and --node otherwise"
            )))
        }
        (None, _) if member.store.read(|state| state.nodes.len() == 1) => Ok(member.id),
        (None, _) => {
            let mut silent: Vec<String> = found.unreachable.into_keys().collect();
            silent.sort_unstable();
            let why = match silent.is_empty() {
                true => "no node has it: name the node that it is for".to_owned(),
                false => format!("{} did not answer, and no other node has it", silent.join(", ")),
            };
            Err(absent(deployment, volume, &why))
        }
    }
}

fn absent(deployment: &DeploymentName, volume: &str, why: &str) -> Rejection {
    let message = format!("there is no volume {deployment}/{volume}: {why}");
    Rejection::new(ErrorCode::VolumeNotFound, message)
}

/// Refuses for the containers that mount the volume; `what` cannot be done meanwhile.
///
/// # Errors
/// `volume_in_use` if there is one.
pub(super) fn require_none<'m>(
    mounts: impl IntoIterator<Item = &'m VolumeMount>,
    what: &str,
) -> Result<(), Rejection> {
    let names = mounts.into_iter().map(|mount| match (&mount.instance, mount.access) {
        (Some(instance), VolumeAccess::Stopped) => {
            format!("replica {} has a stopped container with it", instance.replica)
        }
        (Some(instance), VolumeAccess::Reads) => format!("replica {} reads it", instance.replica),
        (Some(instance), VolumeAccess::Writes) => format!("replica {} writes it", instance.replica),
        (None, _) => "a container that is not of the cluster mounts it".to_owned(),
    });
    let names: BTreeSet<String> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    let names = Vec::from_iter(names).join(", ");
    let message = format!("the volume cannot be {what} while it is in use: {names}");
    Err(Rejection::new(ErrorCode::VolumeInUse, message))
}
