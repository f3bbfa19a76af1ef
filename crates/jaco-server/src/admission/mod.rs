//! Whether an apply may become a command. Pure: what the client has resolved is checked again, without files and
//! without an environment.

mod colocation;
mod disks;
mod files;
mod foreign_volumes;
mod gpu;
mod members;
mod networks;
mod notes;
mod out_of_reach;
mod policy;
mod ports;
mod routes;
mod spec;

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::{
    Environment, Images, JacoYaml, Options, Problems, Project, environment, from_model, resolve,
    restart,
};
use jaco_proto::v1;
use jaco_state::apply::deployment::bound::{Asked, CLUSTER_REPLICAS_MAX, Growth};
use jaco_state::contents::NamedContent;
use jaco_state::{Content, Deployment, Table};
use jaco_types::spec::{DeploymentSpec, Reach};
use jaco_types::{
    ContentId, DeploymentName, ErrorCode, NamedKey, Node, NodeId, Rejection, Revision, Scheduling,
    ServiceKey, ServiceName, Timestamp,
};
use serde_json::Value;

use crate::status::invalid;

use self::spec::Cluster;

pub(crate) use files::id as content_id;
pub(crate) use foreign_volumes::volumes_of_others;
pub(crate) use routes::certificate_warnings;

/// Maximum size of a manifest: it must fit into a log entry.
const MODEL_BYTES_MAX: usize = 2 << 20;

/// An apply that may be proposed.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    /// The deployment's name.
    pub name: DeploymentName,
    /// The desired spec.
    pub spec: DeploymentSpec,
    /// What its services reach of their nodes.
    pub reaches: BTreeMap<ServiceName, BTreeSet<Reach>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The parts of the state that a manifest is checked against.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    /// The content chunks.
    pub contents: Table<ContentId, Content>,
    /// The named configs and secrets.
    pub named: Table<NamedKey, NamedContent>,
    /// The members.
    pub nodes: Table<NodeId, Node>,
    /// Those of them that vote.
    pub voters: BTreeSet<NodeId>,
    /// The present deployments.
    pub deployments: Table<DeploymentName, Deployment>,
    /// The rollouts of their services.
    pub scheduling: Table<ServiceKey, Scheduling>,
    /// The networks of the cluster.
    pub networks: jaco_state::network::Networks,
    /// The routes that deployments have, and the certificates.
    pub edges: jaco_state::edge::Edges,
    /// The time, for certificates that expire.
    pub now: Timestamp,
}

/// Checks an apply.
///
/// # Errors
/// `invalid_manifest` with every problem, `disk_full`, `too_large` of the model or of the cluster's replicas, `content_missing`, `content_not_found` with every external
/// config and secret that does not exist, `route_conflict` with every route and `port_conflict` with every port that another deployment has, or
/// `certificate_not_found`.
pub(crate) fn admit(request: &v1::ApplyRequest, stored: &Stored) -> Result<Admitted, Rejection> {
    let texts = [&request.compose_json, &request.overlay_yaml, &request.environment_toml];
    let size: usize = texts.iter().map(|text| text.len()).sum();
    if size > MODEL_BYTES_MAX {
        let message = format!(
            "the manifest has {size} bytes, more than the maximum of {MODEL_BYTES_MAX}: put large \
                               values into config files"
        );
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    let mut project = from_model(request.compose_json.as_bytes()).map_err(|all| refuse(&all))?;
    let overlay = match request.overlay_yaml.as_str() {
        "" => None,
        text => Some(JacoYaml::parse("jaco.yaml", text.as_bytes()).map_err(|all| refuse(&all))?),
    };
    let name = deployment_name(request, overlay.as_ref(), &project)?;
    let with_counts = with_restarts(request, stored.deployments.get(&name));
    let request = with_counts.as_ref().unwrap_or(request);
    if with_counts.is_some() {
        project = from_model(request.compose_json.as_bytes()).map_err(|all| refuse(&all))?;
    }
    let environment =
        Environment::parse(&environment::file_name(None), request.environment_toml.as_bytes());
    let environment = environment.map_err(|all| refuse(&all))?;
    environment.check(&project).map_err(|all| refuse(&all))?;
    // The client has already checked images that are only built locally.
    let named = files::named(&project, request, &stored.named)?;
    let request = &named.request;
    let contents = files::versions(&project, request)?;
    let options = Options {
        images: Images::AllowLocal,
        overrides: environment.overrides(),
        contents,
        networks: networks::of_state(&stored.networks),
    };
    let resolved = resolve(&project, overlay.as_ref(), &options).map_err(|all| refuse(&all))?;
    let warnings = resolved.warnings.list.iter().map(|problem| problem.message.clone());
    let mut warnings: Vec<String> = warnings.collect();
    let cluster = Cluster { nodes: &stored.nodes, networks: &options.networks };
    let mut spec = spec::deployment_spec(request, &resolved, cluster, &mut warnings)?;
    let Stored { deployments, scheduling, nodes, .. } = stored;
    let asked = Asked { deployments, scheduling, nodes: nodes.len() };
    let growth = asked.check(&name, &spec, CLUSTER_REPLICAS_MAX)?;
    if growth != Growth::Fewer {
        disks::check(&stored.voters, &stored.nodes)?;
    }
    warnings.extend(networks::migration(stored.deployments.get(&name), &spec));
    ports::check_owners(&name, &spec, &stored.edges)?;
    spec.routes = routes::routes(&resolved, &options.networks, (&name, stored), &mut warnings)?;
    spec.named = named.keys;
    // For a dry run nothing was uploaded.
    if !request.dry_run {
        spec.contents = files::pieces(request, &stored.contents)?;
    }
    let reaches = spec::reaches(&resolved)?;
    warnings.extend(spec::reach_warnings(&reaches, stored.deployments.get(&name)));
    Ok(Admitted { name, spec, reaches, warnings })
}

/// The request with the restart counts of the revision that it was made from, else of the desired one, if that has any.
fn with_restarts(
    request: &v1::ApplyRequest,
    stored: Option<&Deployment>,
) -> Option<v1::ApplyRequest> {
    let deployment = stored?;
    let made_from = deployment.revisions.get(&Revision(request.made_from));
    let spec = made_from.map_or_else(|| deployment.spec(), |record| &record.spec);
    let counted: Value = serde_json::from_str(&spec.compose).ok()?;
    let mut model: Value = serde_json::from_str(&request.compose_json).ok()?;
    let kept = restart::keep(&mut model, &counted);
    kept.then(|| v1::ApplyRequest { compose_json: model.to_string(), ..request.clone() })
}

/// All problems in one refusal: the first in the message, all in the details.
fn refuse(problems: &Problems) -> Rejection {
    let count = problems.errors().count() + problems.omitted;
    let first = problems.errors().next().map(|problem| problem.message.clone());
    let message = match (first, count) {
        (Some(first), 1) => first,
        (Some(first), count) => format!("{first} (and {} more problems)", count - 1),
        (None, _) => "the manifest is invalid".to_owned(),
    };
    Rejection::new(ErrorCode::InvalidManifest, message)
        .with("problems", problems.to_json().to_string())
}

fn deployment_name(
    request: &v1::ApplyRequest,
    overlay: Option<&JacoYaml>,
    project: &Project,
) -> Result<DeploymentName, Rejection> {
    let written = overlay.and_then(|overlay| overlay.deployment.as_deref());
    let name = match (written, request.deployment.as_str()) {
        (Some(written), _) => written,
        (None, "") => project.name(),
        (None, given) => given,
    };
    DeploymentName::new(name).map_err(invalid)
}

#[cfg(test)]
mod tests;
