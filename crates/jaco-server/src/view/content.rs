//! Which services use the named configs and secrets, and which versions of them their replicas have.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jaco_compose::model::ContainerSpec;
use jaco_proto::v1;
use jaco_state::{ClusterState, Deployment, view};
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    ContentId, ContentName, DesiredState, NamedKey, NamedKind, Revision, ServiceKey, Slot,
};

use super::is_up;

/// The uses of all contents of a kind, by their names.
pub(crate) fn uses(
    state: &ClusterState,
    kind: NamedKind,
) -> BTreeMap<NamedKey, Vec<v1::ContentUse>> {
    let mut found = Found { state, kind, versions: BTreeMap::new() };
    let users = state.deployments.values().filter(|deployment| found.concerns(deployment));
    let users: BTreeMap<_, _> = users.map(|deployment| (&deployment.name, deployment)).collect();
    let mut replicas: BTreeMap<(&ServiceKey, Revision), u32> = BTreeMap::new();
    for slot in state.slots.values().filter(|slot| slot.desired_state == DesiredState::Active) {
        if users.contains_key(&slot.service.deployment) {
            *replicas.entry((&slot.service, revision(state, slot))).or_default() += 1;
        }
    }
    // One without a replica uses it as well.
    for deployment in users.values() {
        for service in deployment.spec().services.keys() {
            let (deployment_name, service) = (deployment.name.clone(), service.clone());
            let key = ServiceKey { deployment: deployment_name, service };
            found.add(&key, deployment.revision, 0);
        }
    }
    for ((service, revision), count) in replicas {
        found.add(service, revision, count);
    }
    found.into_uses()
}

/// The revision of the instance of a replica that serves, or of its newest one.
fn revision(state: &ClusterState, slot: &Slot) -> Revision {
    let mut instances = slot.instances();
    let serving =
        instances.find(|(id, instance)| is_up(state, instance.node) && view::is_running(state, id));
    serving.map_or(slot.current.revision, |(_, instance)| instance.revision)
}

/// How many replicas of each service have which version of each content.
struct Found<'s> {
    state: &'s ClusterState,
    kind: NamedKind,
    versions: BTreeMap<NamedKey, BTreeMap<ServiceKey, BTreeMap<Reverse<u64>, u32>>>,
}

impl Found<'_> {
    /// Whether a kept revision uses a content of the kind: of most none does, and their specs need not be read.
    fn concerns(&self, deployment: &Deployment) -> bool {
        let mut records = deployment.revisions.values();
        records.any(|record| record.spec.named.iter().any(|key| key.kind == self.kind))
    }

    fn add(&mut self, service: &ServiceKey, revision: Revision, replicas: u32) {
        let Some(spec) = self.state.service_spec(service, revision) else { return };
        for (key, tree) in contents(spec, self.kind) {
            let Some(named) = self.state.named.get(&key) else { continue };
            let version = named.version_of(tree).unwrap_or_default();
            let of_service = self.versions.entry(key).or_default();
            let versions = of_service.entry(service.clone()).or_default();
            if replicas > 0 {
                *versions.entry(Reverse(version)).or_default() += replicas;
            }
        }
    }

    fn into_uses(self) -> BTreeMap<NamedKey, Vec<v1::ContentUse>> {
        let version = |(Reverse(version), replicas)| v1::ContentUseVersion { version, replicas };
        let of_service = |(key, versions): (ServiceKey, BTreeMap<_, _>)| v1::ContentUse {
            deployment: key.deployment.to_string(),
            service: key.service.to_string(),
            versions: versions.into_iter().map(version).collect(),
        };
        let uses = self.versions.into_iter();
        uses.map(|(key, services)| (key, services.into_iter().map(of_service).collect())).collect()
    }
}

/// The named contents of a kind that the containers of a service mount, with their lists of files.
fn contents(spec: &ServiceSpec, kind: NamedKind) -> Vec<(NamedKey, ContentId)> {
    // What was admitted can be read.
    let Ok(container) = ContainerSpec::parse(&spec.container) else { return Vec::new() };
    let declared = match kind {
        NamedKind::Config => container.configs,
        NamedKind::Secret => container.secrets,
    };
    let external = declared.into_iter().filter(|(_, content)| content.external);
    let named = external.filter_map(|(key, content)| {
        let name = if content.name.is_empty() { key } else { content.name };
        let name = ContentName::new(&name).ok()?;
        Some((NamedKey { kind, name }, ContentId::from_hex(&content.version?)?))
    });
    named.collect()
}
