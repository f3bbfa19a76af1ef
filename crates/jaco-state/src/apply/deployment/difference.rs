//! What an apply changes, in words for the audit log: names of fields, and values only of those that
//! cannot hold a secret. The environment of a container never appears.

use std::fmt::Display;

use jaco_types::spec::{DeploymentSpec, ServiceSpec};

/// The services that come, go and change: `-db; web: image web:1 -> web:2, limit; +cache`.
pub(in crate::apply) fn difference(before: &DeploymentSpec, after: &DeploymentSpec) -> String {
    let mut parts = Vec::new();
    match (is_attached(before), is_attached(after)) {
        (false, true) => parts.push("networks of each node -> of the cluster".to_owned()),
        (true, false) => parts.push("networks of the cluster -> of each node".to_owned()),
        (false, false) | (true, true) => {}
    }
    for name in before.services.keys().filter(|name| !after.services.contains_key(*name)) {
        parts.push(format!("-{name}"));
    }
    for (name, service) in &after.services {
        match before.services.get(name) {
            None => parts.push(format!("+{name}")),
            Some(was) if was != service => {
                parts.push(format!("{name}: {}", fields(was, service).join(", ")));
            }
            Some(_) => {}
        }
    }
    if before.routes != after.routes {
        parts.push("routes".to_owned());
    }
    parts.join("; ")
}

/// Whether a service is attached to networks of the cluster.
fn is_attached(spec: &DeploymentSpec) -> bool {
    spec.services.values().any(|service| !service.networks.is_empty())
}

/// The fields that differ. A field that is added to services does not compile before it is named here.
fn fields(before: &ServiceSpec, after: &ServiceSpec) -> Vec<String> {
    let ServiceSpec {
        name: _,
        image,
        pull,
        placement,
        replicas,
        host_ports,
        ingress_ports,
        restart,
        mode,
        schedule,
        depends_on,
        reservation,
        limit,
        gpus,
        volumes,
        storage,
        healthcheck,
        update,
        scheduling,
        on_node_loss,
        networks,
        resolvers,
        drain,
        container,
        // Follows from the container.
        hash: _,
    } = before;
    let mut fields = Vec::new();
    if *image != after.image {
        fields.push(step("image", image, &after.image));
    }
    if *replicas != after.replicas {
        fields.push(step("replicas", replicas, &after.replicas));
    }
    let named = [
        ("pull", *pull != after.pull),
        ("placement", *placement != after.placement),
        ("host_ports", *host_ports != after.host_ports),
        ("ingress_ports", *ingress_ports != after.ingress_ports),
        ("restart", *restart != after.restart),
        ("mode", *mode != after.mode),
        ("schedule", *schedule != after.schedule),
        ("depends_on", *depends_on != after.depends_on),
        ("reservation", *reservation != after.reservation),
        ("limit", *limit != after.limit),
        ("gpus", *gpus != after.gpus),
        ("volumes", *volumes != after.volumes),
        ("storage", *storage != after.storage),
        ("healthcheck", *healthcheck != after.healthcheck),
        ("update", *update != after.update),
        ("scheduling", *scheduling != after.scheduling),
        ("on_node_loss", *on_node_loss != after.on_node_loss),
        ("networks", *networks != after.networks),
        ("resolvers", *resolvers != after.resolvers),
        ("drain", *drain != after.drain),
        ("container", *container != after.container),
    ];
    fields.extend(named.iter().filter(|(_, differs)| *differs).map(|(name, _)| (*name).to_owned()));
    fields
}

fn step<T: Display>(name: &str, before: &T, after: &T) -> String {
    format!("{name} {before} -> {after}")
}
