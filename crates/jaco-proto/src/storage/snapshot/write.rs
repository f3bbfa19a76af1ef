//! The state, row by row, in the order of its tables and keys.

use std::io::{self, Write};

use jaco_state::acme::Acme;
use jaco_state::edge::Edges;
use jaco_state::kek::Sealing;
use jaco_state::policy::PolicyMode;
use jaco_state::requests::RequestLog;
use jaco_state::{ClusterState, DisabledAllocations};
use prost::Message;

use super::{MAX_ROW_BYTES, row};
use crate::storage::acme;
use crate::storage::content;
use crate::storage::convert::Wire;
use crate::storage::disabled;
use crate::storage::edge;
use crate::storage::images;
use crate::storage::job;
use crate::storage::network;
use crate::storage::port;
use crate::storage::registry;
use crate::storage::spec;
use crate::storage::wire::{self, snapshot_row::Kind};
use crate::storage::{CodecError, FORMAT};
use crate::storage::{backup, notify};

/// How many bytes are collected before they are handed on: writers may be plain files.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes the whole state. Equal states write equal bytes.
///
/// # Errors
/// If the writer fails, or if the state breaks a promise of its own (see [`CodecError`]).
pub fn write_snapshot(state: &ClusterState, out: &mut dyn Write) -> Result<(), CodecError> {
    let mut rows = Rows { out, chunk: Vec::with_capacity(CHUNK_BYTES), count: 0 };
    rows.message(&wire::SnapshotHeader { format: FORMAT, index: state.index.0 })?;
    write_tables(state, &mut rows)?;
    rows.finish()
}

/// The order is that of the field numbers in `snapshot.proto`.
fn write_tables(state: &ClusterState, rows: &mut Rows<'_>) -> Result<(), CodecError> {
    if let Some(meta) = &state.meta {
        rows.push(Kind::Meta(meta.to_wire()))?;
    }
    if !state.constraints.is_empty() {
        let pairs = state.constraints.to_wire();
        rows.push(Kind::Constraints(wire::ClusterConstraints { pairs }))?;
    }
    for node in state.nodes.values() {
        rows.push(Kind::Node(node.to_wire()))?;
    }
    for deployment in state.deployments.values() {
        rows.push(row::from_deployment(deployment))?;
        for (revision, record) in &deployment.revisions {
            rows.push(row::from_revision(&deployment.name, *revision, record))?;
        }
    }
    for (service, record) in state.scheduling.iter() {
        rows.push(row::from_scheduling(service, record))?;
    }
    for slot in state.slots.values() {
        rows.push(Kind::Slot(slot.to_wire()))?;
    }
    for observed in state.observed.values() {
        rows.push(Kind::Observed(observed.to_wire()))?;
    }
    for terminating in state.terminating.values() {
        rows.push(Kind::TerminatingInstance(terminating.to_wire()))?;
    }
    for consumer in state.consumers.values() {
        rows.push(Kind::Consumer(consumer.to_wire()))?;
    }
    for token in state.operator_tokens.values() {
        rows.push(Kind::OperatorToken(token.to_wire()))?;
    }
    for token in state.join_tokens.values() {
        rows.push(Kind::JoinToken(token.to_wire()))?;
    }
    write_requests(&state.requests, rows)?;
    for (key, event) in state.audit.events.iter() {
        rows.push(row::from_event(*key, event))?;
    }
    for (id, content) in state.contents.iter() {
        rows.push(Kind::Content(content::from_content(*id, content)))?;
    }
    if let Some(head) = state.audit.head {
        rows.push(row::from_head(head))?;
    }
    for (key, named) in state.named.iter() {
        rows.push(Kind::NamedContent(content::from_named(key, named)))?;
    }
    for (name, login) in state.registries.iter() {
        rows.push(Kind::RegistryLogin(registry::from_login(name, login)))?;
    }
    if state.disabled != DisabledAllocations::default() {
        let modified = state.disabled.modified.0;
        rows.push(Kind::DisabledHead(wire::DisabledHead { modified }))?;
    }
    for (scope, disablement) in state.disabled.scopes.iter() {
        rows.push(Kind::DisabledScope(disabled::from_disablement(scope, disablement)))?;
    }
    if let Some(retention) = state.audit.retention {
        rows.push(row::from_retention(retention))?;
    }
    for (by, count) in state.audit.refusals.iter() {
        rows.push(row::from_refusals(by, count))?;
    }
    if let Some(pool) = &state.networks.pool {
        rows.push(Kind::NetworkPool(pool.to_wire()))?;
    }
    for network in state.networks.rows.values() {
        rows.push(Kind::Network(network.to_wire()))?;
    }
    for (id, quarantine) in state.networks.quarantine.iter() {
        rows.push(Kind::AddressQuarantine(network::from_quarantine(id, quarantine)))?;
    }
    write_edges(&state.edges, rows)?;
    if state.policy.mode != PolicyMode::default() {
        let mode = state.policy.mode.to_wire();
        rows.push(Kind::ClusterPolicy(wire::ClusterPolicy { mode }))?;
    }
    for (deployment, reaches) in state.policy.grants.iter() {
        rows.push(Kind::DeploymentGrants(spec::grants_to_wire(deployment, reaches)))?;
    }
    if let Some(rotation) = &state.rotation {
        rows.push(Kind::AuthorityRotation(rotation.to_wire()))?;
    }
    let Sealing { naming_key, rotation } = &state.sealing;
    if let Some(key) = naming_key {
        rows.push(Kind::NamingKey(wire::NamingKey { sealed_key: key.to_wire() }))?;
    }
    if let Some(rotation) = rotation {
        rows.push(Kind::KekRotation(rotation.to_wire()))?;
    }
    for (name, target) in state.notify.targets.iter() {
        rows.push(Kind::NotifyTarget(notify::from_target(name, target)))?;
    }
    for (key, undelivered) in state.notify.undelivered.iter() {
        let row = notify::from_undelivered(key, undelivered);
        rows.push(Kind::UndeliveredNotification(row))?;
    }
    for (service, record) in state.jobs.iter() {
        rows.push(Kind::Job(job::from_record(service, record)))?;
    }
    for (service, since) in state.disabled.waiting.iter() {
        rows.push(Kind::WaitingJob(job::from_waiting(service, since)))?;
    }
    for (id, image) in state.images.rows.iter() {
        rows.push(Kind::PushedImage(images::from_image(*id, image)))?;
    }
    for (name, named) in state.images.names.iter() {
        rows.push(Kind::ImageName(images::from_name(name, named)))?;
    }
    for (node, held) in state.images.held.iter() {
        rows.push(Kind::HeldImages(images::from_held(*node, held)))?;
    }
    for (name, schedule) in state.backups.iter() {
        rows.push(Kind::BackupSchedule(backup::from_schedule(name, schedule)))?;
    }
    Ok(())
}

fn write_edges(edges: &Edges, rows: &mut Rows<'_>) -> Result<(), CodecError> {
    if let Some(begun) = edges.begun {
        rows.push(Kind::EdgeBegun(edge::from_begun(begun)))?;
    }
    for (key, claim) in edges.claims.iter() {
        rows.push(Kind::RouteClaim(edge::from_claim(key, claim)))?;
    }
    for (name, certificate) in edges.certificates.iter() {
        rows.push(Kind::Certificate(edge::from_certificate(name, certificate)))?;
    }
    for (key, claim) in edges.ports.iter() {
        rows.push(Kind::PortClaim(port::from_claim(*key, claim)))?;
    }
    write_orders(&edges.acme, rows)
}

fn write_orders(orders: &Acme, rows: &mut Rows<'_>) -> Result<(), CodecError> {
    if let Some(account) = &orders.account {
        rows.push(Kind::AcmeAccount(account.to_wire()))?;
    }
    for (domain, issued) in orders.issued.iter() {
        rows.push(Kind::IssuedCertificate(acme::from_issued(domain, issued)))?;
    }
    for (token, challenge) in orders.challenges.iter() {
        rows.push(Kind::AcmeChallenge(acme::from_challenge(token, challenge)))?;
    }
    for (domain, attempt) in orders.attempts.iter() {
        rows.push(Kind::IssueAttempt(acme::from_attempt(domain, attempt)))?;
    }
    Ok(())
}

/// The log of requests holds each twice, by age and by id; a row stands for both.
fn write_requests(requests: &RequestLog, rows: &mut Rows<'_>) -> Result<(), CodecError> {
    let broken = "each request is known by its age and by its id";
    if requests.order.len() != requests.outcomes.len() {
        return Err(CodecError::Inconsistent { broken });
    }
    for (index, request) in requests.order.iter() {
        let outcome = requests.outcome(request).ok_or(CodecError::Inconsistent { broken })?;
        rows.push(row::from_request(*index, request, outcome))?;
    }
    Ok(())
}

/// Frames messages, counts rows, and hands them on in chunks.
struct Rows<'a> {
    out: &'a mut dyn Write,
    chunk: Vec<u8>,
    count: u64,
}

impl Rows<'_> {
    fn push(&mut self, kind: Kind) -> Result<(), CodecError> {
        self.message(&wire::SnapshotRow { kind: Some(kind) })?;
        self.count += 1;
        Ok(())
    }

    fn message(&mut self, message: &impl Message) -> Result<(), CodecError> {
        let size = message.encoded_len();
        let length = u32::try_from(size).ok().filter(|_| size <= MAX_ROW_BYTES);
        let broken = "no row is larger than a row may be";
        let length = length.ok_or(CodecError::Inconsistent { broken })?;
        self.chunk.extend_from_slice(&length.to_le_bytes());
        message.encode(&mut self.chunk).expect("a vector grows");
        if self.chunk.len() >= CHUNK_BYTES {
            self.hand_on()?;
        }
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), CodecError> {
        let trailer = Kind::Trailer(wire::SnapshotTrailer { rows: self.count });
        self.message(&wire::SnapshotRow { kind: Some(trailer) })?;
        self.hand_on()?;
        Ok(self.out.flush()?)
    }
}
