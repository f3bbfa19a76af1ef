//! Backups: the desired state in parts (ADR 0066). All parts are of one state, and only a few are in memory at a
//! time. Secrets leave the cluster in clear text, so each backup is audited before its first part.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_notify::Endpoint;
use jaco_pki::sealed::Purpose;
use jaco_proto::v1;
use jaco_proto::v1::backup_part::Kind;
use jaco_state::audit::AuditKind;
use jaco_state::contents::{ContentUsers, Form, NamedContent};
use jaco_state::network::Network;
use jaco_state::notify::NotifyTarget;
use jaco_state::policy::PolicyMode;
use jaco_state::registries::RegistryLogin;
use jaco_state::{ClusterMeta, ClusterState, Deployment};
use jaco_store::Store;
use jaco_types::spec::Reach;
use jaco_types::{
    Author, Availability, ContentId, DeploymentName, ErrorCode, NamedKey, NetworkName,
    NetworkReach, NetworkScope, Node, NotifyTargetName, RegistryName, Rejection, Timestamp,
};
use tokio::sync::mpsc;
use tonic::Status;

use super::uploads;
use crate::auth::cluster_key::ClusterKey;
use crate::member::Member;
use crate::notify::open_endpoint;
use crate::opened::{Opener, unreadable};
use crate::service::audit_action::audit;
use crate::service::cluster::disabled;
use crate::service::cluster::notify::filter_info;
use crate::service::upgraded::by_all;
use crate::status::{from_propose_error, to_status};
use crate::view;

/// The format of the parts.
const FORMAT: u32 = 1;

/// Capacity of the queue of parts, each of at most 1 MiB.
const QUEUED_PARTS: usize = 4;

/// Allocations per part, about 300 bytes each.
const DISABLED_PER_PART: usize = 1000;

type Parts = mpsc::Receiver<Result<v1::BackupPart, Status>>;

/// Starts a backup of everything that is committed by now, after an audit event about who takes it.
///
/// # Errors
/// When this node cannot catch up or the event cannot be written; `unavailable` while a member does not know the event,
/// which may not know the event.
pub(super) async fn take(member: Arc<Member>, by: Author) -> Result<Parts, Rejection> {
    member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
    let state = member.store.snapshot();
    let meta = state.meta.clone().ok_or_else(unknown)?;
    known_by_all(&state)?;
    let payload = [("raft_index".to_owned(), state.index.to_string())].into();
    audit(&member, by, AuditKind::BackupTaken, payload).await?;
    let (sender, receiver) = mpsc::channel(QUEUED_PARTS);
    tokio::spawn(async move {
        let (key, now) = (&member.cluster_key, member.clock.now());
        for part in made(Source { key, state: &state, meta: &meta, now }) {
            let failed = part.is_err();
            let sent = sender.send(part.map_err(|rejection| to_status(&rejection))).await;
            if failed || sent.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// The parts of a backup of a state that no daemon serves, opened with this key.
///
/// # Errors
/// `cluster_uninitialized` if the state is of no cluster. A part that cannot be read is an error.
pub fn parts<'s>(
    state: &'s ClusterState,
    key: &'s ClusterKey,
    now: Timestamp,
) -> Result<impl Iterator<Item = Result<v1::BackupPart, Rejection>> + 's, Rejection> {
    let meta = state.meta.as_ref().ok_or_else(unknown)?;
    Ok(made(Source { key, state, meta, now }))
}

fn unknown() -> Rejection {
    let message = "this node has not received the state of its cluster yet";
    Rejection::new(ErrorCode::ClusterUninitialized, message)
}

fn made(source: Source<'_>) -> impl Iterator<Item = Result<v1::BackupPart, Rejection>> {
    let made = move |item| Ok(v1::BackupPart { kind: Some(source.part(item)?) });
    order(source.state).into_iter().map(made)
}

/// Refuses while a member does not know the event: it would stop at it.
fn known_by_all(state: &ClusterState) -> Result<(), Rejection> {
    by_all(state, "backups can be made", ErrorCode::Unavailable)
}

/// What a part is made from. References only, so that the list of all is small.
#[derive(Debug)]
enum Item<'s> {
    Header,
    Retention(u64),
    Constraints,
    Node(&'s Node),
    Named(&'s NamedKey, &'s NamedContent),
    Registry(&'s RegistryName, &'s RegistryLogin),
    Network(&'s NetworkName, &'s Network),
    Policy(PolicyMode),
    Grants(&'s DeploymentName, &'s BTreeSet<Reach>),
    NotifyTarget(&'s NotifyTargetName, &'s NotifyTarget),
    Content(ContentId),
    Deployment(&'s Deployment),
    Disabled(Vec<v1::AllocationRef>),
    End(v1::BackupEnd),
}

/// All parts in order: each content once, before the first deployment that refers to it.
fn order(state: &ClusterState) -> Vec<Item<'_>> {
    let mut items = vec![Item::Header];
    items.extend(state.audit.retention.map(|retention| Item::Retention(retention.age.0)));
    if !state.constraints.is_empty() {
        items.push(Item::Constraints);
    }
    items.extend(state.nodes.values().filter(|node| has_settings(node)).map(Item::Node));
    items.extend(state.named.iter().map(|(key, named)| Item::Named(key, named)));
    let registries = state.registries.iter();
    items.extend(registries.map(|(name, login)| Item::Registry(name, login)));
    let networks = shared_networks(state);
    items.extend(networks.iter().map(|(name, network)| Item::Network(name, network)));
    // Where it was never set a backup is as it was before there were policies, and older programs restore it.
    if state.policy.has_begun() {
        items.push(Item::Policy(state.policy.mode));
    }
    items.extend(state.policy.grants.iter().map(|(name, reaches)| Item::Grants(name, reaches)));
    let targets = state.notify.targets.iter();
    items.extend(targets.map(|(name, target)| Item::NotifyTarget(name, target)));
    let mut contents = BTreeSet::new();
    for deployment in state.deployments.values() {
        let needed = deployment.spec().contents.iter().copied();
        items.extend(needed.filter(|id| contents.insert(*id)).map(Item::Content));
        items.push(Item::Deployment(deployment));
    }
    let disabled = disabled::references(state);
    items.extend(disabled.chunks(DISABLED_PER_PART).map(|some| Item::Disabled(some.to_vec())));
    items.push(Item::End(v1::BackupEnd {
        deployments: count(state.deployments.len()),
        named: count(state.named.len()),
        contents: count(contents.len()),
        registries: count(state.registries.len()),
        networks: count(networks.len()),
        grants: count(state.policy.grants.len()),
        notify_targets: count(state.notify.targets.len()),
    }));
    items
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The networks that operators made; those of deployments follow from these.
fn shared_networks(state: &ClusterState) -> Vec<(&NetworkName, &Network)> {
    let shared = state.networks.rows.values().filter_map(|network| match &network.scope {
        NetworkScope::Shared(name) => Some((name, network)),
        NetworkScope::Deployment { .. } => None,
    });
    shared.collect()
}

/// Whether a node has labels or another availability than active.
fn has_settings(node: &Node) -> bool {
    !node.labels.is_empty() || node.availability != Availability::Active
}

/// Where parts are read from.
#[derive(Clone, Copy)]
struct Source<'s> {
    key: &'s ClusterKey,
    state: &'s ClusterState,
    meta: &'s ClusterMeta,
    now: Timestamp,
}

impl Source<'_> {
    fn part(&self, item: Item<'_>) -> Result<Kind, Rejection> {
        Ok(match item {
            Item::Header => Kind::Header(self.header()),
            Item::Retention(age_ms) => Kind::Retention(v1::BackupRetention { age_ms }),
            Item::Constraints => {
                Kind::Constraints(v1::BackupConstraints { pairs: pairs(&self.state.constraints) })
            }
            Item::Node(node) => Kind::Node(v1::BackupNode {
                hostname: node.hostname.to_string(),
                labels: pairs(&node.labels),
                cordoned: node.availability != Availability::Active,
            }),
            Item::Named(key, named) => Kind::Named(self.named(key, named)?),
            Item::Registry(name, login) => Kind::Registry(self.registry(name, login)?),
            Item::Network(name, network) => Kind::Network(v1::BackupNetwork {
                name: name.to_string(),
                internal: network.reach == NetworkReach::Internal,
                prefix_length: network.subnet.prefix().length().into(),
            }),
            Item::Policy(mode) => Kind::Policy(v1::BackupPolicy { mode: mode.as_str().to_owned() }),
            Item::Grants(deployment, reaches) => Kind::Grants(v1::BackupGrants {
                deployment: deployment.to_string(),
                reaches: reaches.iter().map(ToString::to_string).collect(),
            }),
            Item::NotifyTarget(name, target) => {
                Kind::NotifyTarget(self.notify_target(name, target)?)
            }
            Item::Content(id) => self.content(id)?,
            Item::Deployment(deployment) => Kind::Deployment(desired(deployment)),
            Item::Disabled(allocations) => Kind::Disabled(v1::BackupDisabled { allocations }),
            Item::End(end) => Kind::End(end),
        })
    }

    fn header(&self) -> v1::BackupHeader {
        v1::BackupHeader {
            format: FORMAT,
            cluster_id: self.meta.id.to_string(),
            cluster_name: self.meta.name.clone(),
            raft_index: self.state.index.0,
            taken_at_ms: view::millis(self.now),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn named(&self, key: &NamedKey, named: &NamedContent) -> Result<v1::BackupNamed, Rejection> {
        Ok(v1::BackupNamed {
            kind: key.kind.as_str().to_owned(),
            name: key.name.to_string(),
            content: self.opener().named(key, named)?.into(),
            expires_at_ms: named.expires_at.map(view::millis).unwrap_or_default(),
            users: match &named.users {
                ContentUsers::All => None,
                ContentUsers::Listed(listed) => Some(v1::ContentUsers {
                    all: false,
                    deployments: listed.iter().map(ToString::to_string).collect(),
                }),
            },
        })
    }

    fn registry(
        &self,
        name: &RegistryName,
        login: &RegistryLogin,
    ) -> Result<v1::BackupRegistry, Rejection> {
        let (registry, username) = (name.to_string(), login.username.to_string());
        let purpose = Purpose::Registry { name: &registry, username: &username };
        self.key.of(self.state)?;
        let opened = self.key.ring().open(&self.meta.id, purpose, &login.password.0);
        let what = || format!("the password of {username} at {registry}");
        let opened = opened.map_err(|error| unreadable(&what(), error))?;
        let password = std::str::from_utf8(&opened).map_err(|error| unreadable(&what(), error))?;
        let password = password.to_owned();
        Ok(v1::BackupRegistry { registry, username, password })
    }

    fn notify_target(
        &self,
        name: &NotifyTargetName,
        target: &NotifyTarget,
    ) -> Result<v1::BackupNotifyTarget, Rejection> {
        self.key.of(self.state)?;
        let endpoint = open_endpoint(self.key.ring(), &self.meta.id, name, target);
        let what = || format!("the notification target {name}");
        let endpoint = endpoint.map_err(|error| unreadable(&what(), error))?;
        let (url, secret, mail_from, mail_to) = match &endpoint {
            Endpoint::Web(web) => {
                let secret = web.secret.as_ref().map(|secret| secret.to_string());
                (web.address.reveal().to_string(), secret, String::new(), Vec::new())
            }
            Endpoint::Mail(mail) => {
                let to = mail.to().iter().map(ToString::to_string).collect();
                let (url, password) = (mail.server().reveal(), mail.password());
                (url.to_owned(), Some(password.to_owned()), mail.from().to_string(), to)
            }
        };
        Ok(v1::BackupNotifyTarget {
            name: name.to_string(),
            form: target.form.as_str().to_owned(),
            url,
            secret: secret.unwrap_or_default(),
            filter: Some(filter_info(&target.filter)),
            mail_from,
            mail_to,
        })
    }

    fn content(&self, id: ContentId) -> Result<Kind, Rejection> {
        let (form, content) = self.opener().piece(id)?;
        Ok(match form {
            Form::Plain => Kind::Piece(v1::BackupPiece { content }),
            Form::Sealed => Kind::Secret(v1::BackupSecret { id: id.0.to_vec().into(), content }),
        })
    }

    fn opener(&self) -> Opener<'_> {
        Opener { key: self.key, state: self.state, meta: self.meta }
    }
}

/// The desired revision, as it was applied.
fn desired(deployment: &Deployment) -> v1::BackupDeployment {
    let spec = deployment.spec();
    let files = uploads::of_spec(spec);
    v1::BackupDeployment {
        name: deployment.name.to_string(),
        revision: deployment.revision.0,
        compose_json: spec.compose.to_string(),
        overlay_yaml: spec.overlay.to_string(),
        environment_toml: spec.environment.to_string(),
        binds: files.binds,
        configs: files.configs,
        secrets: files.secrets,
    }
}

fn pairs<'s>(of: impl IntoIterator<Item = (&'s String, &'s String)>) -> Vec<v1::BackupPair> {
    let pair = |(key, value): (&String, &String)| v1::BackupPair {
        key: key.clone(),
        value: value.clone(),
    };
    of.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jaco_state::command::{ContentPut, DeploymentApply};
    use jaco_state::contents::{Piece, PieceBytes};
    use jaco_state::{Command, Entry, apply};
    use jaco_types::spec::DeploymentSpec;
    use jaco_types::{Hostname, Identity, NodeFacts, NodeId, NodeStatus, StateIndex};

    use super::*;

    fn commit(state: &mut ClusterState, command: Command) {
        let index = StateIndex(state.index.0 + 1);
        let (at, by) = (Timestamp(index.0), Identity::Scheduler);
        let entry = Entry { index, at, by, origin: None, request: None, command };
        let outcome = apply(state, &entry);
        assert!(!matches!(outcome, jaco_state::Outcome::Rejected(_)), "{outcome:?}");
    }

    fn id(number: u8) -> ContentId {
        ContentId([number; 32])
    }

    fn node(version: &str) -> Node {
        Node {
            id: NodeId::FIRST,
            hostname: Hostname::new("n1").expect("a host name"),
            address: "n1:7000".to_owned(),
            mesh_address: None,
            key_fingerprint: [1; 32],
            status: NodeStatus::Ready,
            status_reason: String::new(),
            availability: Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts: NodeFacts { version: version.to_owned(), ..NodeFacts::default() },
            labels: BTreeMap::new(),
            joined_at: Timestamp(1),
            modified: StateIndex(1),
        }
    }

    /// R-CLI-6: a content is sent once, before the first deployment that refers to it; unreferenced contents and
    /// nodes without settings are left out.
    #[test]
    fn contents_come_before_their_deployments() {
        let mut state = ClusterState::default();
        let piece = |number| Piece {
            id: id(number),
            form: Form::Plain,
            bytes: PieceBytes([number].as_slice().into()),
        };
        commit(&mut state, ContentPut::new((1..=4).map(piece).collect()).into());
        for (name, contents) in [("b", [2, 3]), ("a", [1, 2])] {
            let contents = contents.map(id).into();
            let spec = DeploymentSpec { contents, ..DeploymentSpec::default() };
            let name = DeploymentName::new(name).expect("a name");
            commit(&mut state, DeploymentApply::new(name, spec).into());
        }
        state.nodes = [(NodeId::FIRST, node("1"))].into_iter().collect();
        let show = |item: &Item<'_>| match item {
            Item::Content(id) => id.0[0].to_string(),
            Item::Deployment(deployment) => deployment.name.to_string(),
            Item::End(end) => format!("{} of {}", end.contents, end.deployments),
            Item::Header
            | Item::Retention(_)
            | Item::Constraints
            | Item::Node(_)
            | Item::Named(..)
            | Item::Registry(..)
            | Item::Network(..)
            | Item::Policy(_)
            | Item::Grants(..)
            | Item::NotifyTarget(..)
            | Item::Disabled(_) => format!("{item:?}"),
        };
        let shown: Vec<String> = order(&state).iter().map(show).collect();
        assert_eq!(shown, ["Header", "1", "2", "a", "3", "b", "3 of 2"]);
    }

    /// R-CLI-6: no backup while a member would stop at the audit event; an upgrade does not keep one from being made.
    #[test]
    fn members_that_do_not_know_backups_refuse_one() {
        let of = |version: &str| ClusterState {
            nodes: [(NodeId::FIRST, node(version))].into_iter().collect(),
            ..ClusterState::default()
        };
        for known in [env!("CARGO_PKG_VERSION"), "0.1.0", "99.0.0"] {
            assert_eq!(known_by_all(&of(known)), Ok(()), "{known}");
        }
        let refused = known_by_all(&of("0.0.1")).expect_err("it does not know the event");
        assert_eq!(refused.code, ErrorCode::Unavailable);
        assert!(refused.message.contains("n1 runs version 0.0.1"), "{}", refused.message);
    }
}
