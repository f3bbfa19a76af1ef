//! The rows of a snapshot, back into the state. What is read may be damaged or hostile: every
//! length is checked first, and nothing is believed that the state's users depend on.

use std::io::{BufRead, BufReader, Read};

use jaco_state::policy::PolicyMode;
use jaco_state::{ClusterState, Deployment, Table};
use jaco_types::StateIndex;

use super::{MAX_ROW_BYTES, row};
use crate::storage::acme;
use crate::storage::content;
use crate::storage::convert::{Wire, whole};
use crate::storage::disabled;
use crate::storage::edge;
use crate::storage::envelope::known_format;
use crate::storage::event::to_event;
use crate::storage::images;
use crate::storage::job;
use crate::storage::network;
use crate::storage::port;
use crate::storage::registry;
use crate::storage::spec;
use crate::storage::wire::{self, snapshot_row::Kind};
use crate::storage::{CodecError, FORMAT, Problem};
use crate::storage::{backup, notify};

/// How many bytes are asked for at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Reads the state that [`super::write_snapshot`] wrote. The stream must end where the state does.
///
/// # Errors
/// If the reader fails or ends early, or if any row is not understood.
pub fn read_snapshot(input: &mut dyn Read) -> Result<ClusterState, CodecError> {
    let mut frames = Frames { input: BufReader::with_capacity(CHUNK_BYTES, input), frame: vec![] };
    let header = frames.next()?;
    let format = known_format("snapshot", header)?;
    let understood = |problem| CodecError::NotUnderstood { what: "snapshot", format, problem };
    let header: wire::SnapshotHeader = whole(header).map_err(understood)?;
    let mut state = ClusterState { index: StateIndex(header.index), ..ClusterState::default() };
    let mut found = 0;
    let expected = loop {
        let row: wire::SnapshotRow = whole(frames.next()?).map_err(understood)?;
        let kind = row.kind.ok_or(Problem::Missing("kind of row")).map_err(understood)?;
        if let Kind::Trailer(trailer) = kind {
            break trailer.rows;
        }
        add(&mut state, kind).map_err(understood)?;
        found += 1;
    };
    if found != expected {
        return Err(understood(Problem::RowCount { expected, found }));
    }
    frames.end()?;
    check(&state).map_err(understood)?;
    Ok(state)
}

/// Puts one row into its table.
fn add(state: &mut ClusterState, kind: Kind) -> Result<(), Problem> {
    match kind {
        Kind::Meta(meta) => set_once(&mut state.meta, "clusters", Wire::from_wire(meta)?),
        Kind::Constraints(constraints) => add_constraints(state, constraints),
        Kind::Node(node) => append_row(&mut state.nodes, "nodes", |node| node.id, node),
        Kind::Deployment(deployment) => {
            let deployment = row::to_deployment(deployment)?;
            append(&mut state.deployments, "deployments", deployment.name.clone(), deployment)
        }
        Kind::Revision(revision) => add_revision(state, revision),
        Kind::Scheduling(record) => {
            append_pair(&mut state.scheduling, "records of scheduling", row::to_scheduling(record)?)
        }
        Kind::Slot(slot) => append_row(&mut state.slots, "slots", |slot| slot.id.clone(), slot),
        Kind::Observed(observed) => append_row(
            &mut state.observed,
            "observations",
            |observed| observed.id.clone(),
            observed,
        ),
        Kind::TerminatingInstance(terminating) => append_row(
            &mut state.terminating,
            "terminating instances",
            |terminating| terminating.id.clone(),
            terminating,
        ),
        Kind::Consumer(consumer) => append_row(
            &mut state.consumers,
            "consumers",
            |consumer| consumer.name.clone(),
            consumer,
        ),
        Kind::OperatorToken(token) => append_row(
            &mut state.operator_tokens,
            "operator tokens",
            |token| token.id.clone(),
            token,
        ),
        Kind::JoinToken(token) => {
            append_row(&mut state.join_tokens, "join tokens", |token| token.id.clone(), token)
        }
        Kind::Request(request) => add_request(state, request),
        Kind::Audit(event) => append_pair(&mut state.audit.events, "events", to_event(event)?),
        Kind::AuditChain(chain) => {
            set_once(&mut state.audit.head, "chains of events", row::to_head(chain)?)
        }
        Kind::AuditRetained(retained) => {
            let retention = row::to_retention(retained);
            set_once(&mut state.audit.retention, "retentions of events", retention)
        }
        Kind::RefusalCount(count) => {
            append_pair(&mut state.audit.refusals, "counts of refusals", row::to_refusals(count)?)
        }
        Kind::Content(content) => {
            append_pair(&mut state.contents, "contents", content::to_content(content)?)
        }
        Kind::NamedContent(named) => {
            append_pair(&mut state.named, "named contents", content::to_named(named)?)
        }
        Kind::RegistryLogin(login) => {
            append_pair(&mut state.registries, "registries", registry::to_login(login)?)
        }
        Kind::DisabledHead(head) => add_disabled_head(state, &head),
        Kind::DisabledScope(scope) => {
            let scope = disabled::to_disablement(scope)?;
            append_pair(&mut state.disabled.scopes, "disabled allocations", scope)
        }
        Kind::NetworkPool(pool) => {
            set_once(&mut state.networks.pool, "network pools", Wire::from_wire(pool)?)
        }
        Kind::Network(network) => {
            append_row(&mut state.networks.rows, "networks", |network| network.id, network)
        }
        Kind::AddressQuarantine(row) => {
            let row = network::to_quarantine(row)?;
            append_pair(&mut state.networks.quarantine, "addresses in quarantine", row)
        }
        Kind::EdgeBegun(begun) => {
            set_once(&mut state.edges.begun, "beginnings of routes", StateIndex(begun.index))
        }
        Kind::RouteClaim(claim) => {
            append_pair(&mut state.edges.claims, "routes", edge::to_claim(claim)?)
        }
        Kind::Certificate(row) => {
            let row = edge::to_certificate(row)?;
            append_pair(&mut state.edges.certificates, "certificates", row)
        }
        Kind::PortClaim(claim) => {
            append_pair(&mut state.edges.ports, "published ports", port::to_claim(claim)?)
        }
        Kind::AcmeAccount(account) => {
            let account = Wire::from_wire(account)?;
            set_once(&mut state.edges.acme.account, "accounts at an authority", account)
        }
        Kind::IssuedCertificate(row) => {
            let row = acme::to_issued(row)?;
            append_pair(&mut state.edges.acme.issued, "issued certificates", row)
        }
        Kind::AcmeChallenge(row) => {
            append_pair(&mut state.edges.acme.challenges, "challenges", acme::to_challenge(row)?)
        }
        Kind::IssueAttempt(row) => {
            append_pair(&mut state.edges.acme.attempts, "failed orders", acme::to_attempt(row)?)
        }
        Kind::ClusterPolicy(policy) => {
            let mode = Wire::from_wire(policy.mode)?;
            match std::mem::replace(&mut state.policy.mode, mode) {
                PolicyMode::Warn => Ok(()),
                PolicyMode::Refuse => Err(Problem::Unordered("policies")),
            }
        }
        Kind::DeploymentGrants(row) => {
            append_pair(&mut state.policy.grants, "grants", spec::grants_from_wire(row)?)
        }
        Kind::AuthorityRotation(rotation) => {
            set_once(&mut state.rotation, "rotations of the authority", Wire::from_wire(rotation)?)
        }
        Kind::NamingKey(row) => {
            let key = Wire::from_wire(row.sealed_key)?;
            set_once(&mut state.sealing.naming_key, "keys that name secrets", key)
        }
        Kind::KekRotation(rotation) => {
            let rotation = Wire::from_wire(rotation)?;
            set_once(&mut state.sealing.rotation, "rotations of the key-encryption key", rotation)
        }
        Kind::Job(row) => append_pair(&mut state.jobs, "runs of jobs", job::to_record(row)?),
        Kind::WaitingJob(row) => {
            append_pair(&mut state.disabled.waiting, "jobs that wait", job::to_waiting(row)?)
        }
        Kind::PushedImage(image) => {
            append_pair(&mut state.images.rows, "pushed images", images::to_image(image)?)
        }
        Kind::ImageName(name) => {
            append_pair(&mut state.images.names, "names of images", images::to_name(name)?)
        }
        Kind::HeldImages(held) => {
            append_pair(&mut state.images.held, "nodes with images", images::to_held(held)?)
        }
        Kind::BackupSchedule(schedule) => {
            let row = backup::to_schedule(schedule)?;
            append_pair(&mut state.backups, "backup schedules", row)
        }
        Kind::NotifyTarget(target) => {
            let row = notify::to_target(target)?;
            append_pair(&mut state.notify.targets, "notification targets", row)
        }
        Kind::UndeliveredNotification(row) => {
            let row = notify::to_undelivered(row)?;
            append_pair(&mut state.notify.undelivered, "undelivered notifications", row)
        }
        Kind::Trailer(_) => Err(Problem::Unordered("rows")),
    }
}

fn add_constraints(state: &mut ClusterState, row: wire::ClusterConstraints) -> Result<(), Problem> {
    let pairs = Wire::from_wire(row.pairs)?;
    match std::mem::replace(&mut state.constraints, pairs).is_empty() {
        true => Ok(()),
        false => Err(Problem::Unordered("constraints")),
    }
}

fn add_disabled_head(state: &mut ClusterState, head: &wire::DisabledHead) -> Result<(), Problem> {
    match std::mem::replace(&mut state.disabled.modified, StateIndex(head.modified)) {
        StateIndex(0) if state.disabled.scopes.is_empty() => Ok(()),
        StateIndex(_) => Err(Problem::Unordered("heads of what is disabled")),
    }
}

/// What a snapshot holds at most once.
fn set_once<T>(place: &mut Option<T>, what: &'static str, value: T) -> Result<(), Problem> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::Unordered(what)),
    }
}

/// As [`append`], of a row that has its key in it.
fn append_row<K: Ord + Clone, V: Wire + Clone>(
    table: &mut Table<K, V>,
    what: &'static str,
    key: impl FnOnce(&V) -> K,
    row: V::Message,
) -> Result<(), Problem> {
    let row = V::from_wire(row)?;
    append(table, what, key(&row), row)
}

/// As [`append`], of a row with its key beside it.
fn append_pair<K: Ord + Clone, V: Clone>(
    table: &mut Table<K, V>,
    what: &'static str,
    (key, row): (K, V),
) -> Result<(), Problem> {
    append(table, what, key, row)
}

/// Rows come in the order of their keys, so each goes to the end of its table.
fn append<K: Ord + Clone, V: Clone>(
    table: &mut Table<K, V>,
    what: &'static str,
    key: K,
    row: V,
) -> Result<(), Problem> {
    if table.keys().next_back().is_some_and(|last| *last >= key) {
        return Err(Problem::Unordered(what));
    }
    table.insert(key, row);
    Ok(())
}

fn add_revision(state: &mut ClusterState, row: wire::DeploymentRevision) -> Result<(), Problem> {
    let (name, revision, record) = row::to_revision(row)?;
    let deployment = state.deployments.get_mut(&name).ok_or(Problem::Orphan("deployment"))?;
    if deployment.revisions.last_key_value().is_some_and(|(last, _)| *last >= revision) {
        return Err(Problem::Unordered("revisions"));
    }
    deployment.revisions.insert(revision, record);
    Ok(())
}

fn add_request(state: &mut ClusterState, row: wire::RequestOutcome) -> Result<(), Problem> {
    let (index, request, outcome) = row::to_request(row)?;
    if state.requests.outcomes.insert(request.clone(), outcome).is_some() {
        return Err(Problem::Unordered("request ids"));
    }
    append(&mut state.requests.order, "requests", index, request)
}

/// What the state's own code relies on (invariant ST-5), and no single row shows.
fn check(state: &ClusterState) -> Result<(), Problem> {
    let kept = |deployment: &Deployment| deployment.revisions.contains_key(&deployment.revision);
    if !state.deployments.values().all(kept) {
        return Err(Problem::Missing("record of a wanted revision"));
    }
    Ok(())
}

/// Messages behind their lengths.
struct Frames<'a> {
    input: BufReader<&'a mut dyn Read>,
    frame: Vec<u8>,
}

impl Frames<'_> {
    fn next(&mut self) -> Result<&[u8], CodecError> {
        let mut length = [0; 4];
        self.input.read_exact(&mut length)?;
        let size = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if size > MAX_ROW_BYTES {
            let problem = Problem::RowTooLarge { size, limit: MAX_ROW_BYTES };
            return Err(CodecError::NotUnderstood { what: "snapshot", format: FORMAT, problem });
        }
        // The buffer grows with what arrives, not with what is announced.
        self.frame.clear();
        let limit = u64::from(u32::from_le_bytes(length));
        if (&mut self.input).take(limit).read_to_end(&mut self.frame)? < size {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Ok(&self.frame)
    }

    fn end(&mut self) -> Result<(), CodecError> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(());
        }
        let problem = Problem::AfterTheEnd;
        Err(CodecError::NotUnderstood { what: "snapshot", format: FORMAT, problem })
    }
}
