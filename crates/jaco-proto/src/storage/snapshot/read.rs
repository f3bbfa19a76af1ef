//! The rows of a snapshot, back into the state. What is read may be damaged or hostile: every
//! length is checked first, and nothing is believed that the state's users depend on.

use std::io::{BufRead, BufReader, Read};

use jaco_state::token::{JoinToken, OperatorToken};
use jaco_state::{ClusterState, Deployment, Table};
use jaco_types::{Consumer, InstanceObserved, Node, Slot, StateIndex, TerminatingInstance};

use super::{MAX_ROW_BYTES, row};
use crate::storage::content;
use crate::storage::convert::{Wire, whole};
use crate::storage::disabled;
use crate::storage::envelope::known_format;
use crate::storage::registry;
use crate::storage::wire::{self, snapshot_row::Kind};
use crate::storage::{CodecError, FORMAT, Problem};

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
        Kind::Meta(meta) => match state.meta.replace(Wire::from_wire(meta)?) {
            None => Ok(()),
            Some(_) => Err(Problem::Unordered("clusters")),
        },
        Kind::Constraints(constraints) => {
            let pairs = Wire::from_wire(constraints.pairs)?;
            match std::mem::replace(&mut state.constraints, pairs).is_empty() {
                true => Ok(()),
                false => Err(Problem::Unordered("constraints")),
            }
        }
        Kind::Node(node) => {
            let node = Node::from_wire(node)?;
            append(&mut state.nodes, "nodes", node.id, node)
        }
        Kind::Deployment(deployment) => {
            let deployment = row::to_deployment(deployment)?;
            append(&mut state.deployments, "deployments", deployment.name.clone(), deployment)
        }
        Kind::Revision(revision) => add_revision(state, revision),
        Kind::Scheduling(record) => {
            let (service, record) = row::to_scheduling(record)?;
            append(&mut state.scheduling, "records of scheduling", service, record)
        }
        Kind::Slot(slot) => {
            let slot = Slot::from_wire(slot)?;
            append(&mut state.slots, "slots", slot.id.clone(), slot)
        }
        Kind::Observed(observed) => {
            let observed = InstanceObserved::from_wire(observed)?;
            append(&mut state.observed, "observations", observed.id.clone(), observed)
        }
        Kind::TerminatingInstance(terminating) => {
            let terminating = TerminatingInstance::from_wire(terminating)?;
            append(
                &mut state.terminating,
                "terminating instances",
                terminating.id.clone(),
                terminating,
            )
        }
        Kind::Consumer(consumer) => {
            let consumer = Consumer::from_wire(consumer)?;
            append(&mut state.consumers, "consumers", consumer.name.clone(), consumer)
        }
        Kind::OperatorToken(token) => {
            let token = OperatorToken::from_wire(token)?;
            append(&mut state.operator_tokens, "operator tokens", token.id.clone(), token)
        }
        Kind::JoinToken(token) => {
            let token = JoinToken::from_wire(token)?;
            append(&mut state.join_tokens, "join tokens", token.id.clone(), token)
        }
        Kind::Request(request) => add_request(state, request),
        Kind::Audit(event) => {
            let (key, event) = row::to_event(event)?;
            append(&mut state.audit.events, "events", key, event)
        }
        Kind::AuditChain(chain) => match state.audit.head.replace(row::to_head(chain)?) {
            None => Ok(()),
            Some(_) => Err(Problem::Unordered("chains of events")),
        },
        Kind::Content(content) => {
            let (id, content) = content::to_content(content)?;
            append(&mut state.contents, "contents", id, content)
        }
        Kind::NamedContent(named) => {
            let (key, named) = content::to_named(named)?;
            append(&mut state.named, "named contents", key, named)
        }
        Kind::RegistryLogin(login) => {
            let (name, login) = registry::to_login(login)?;
            append(&mut state.registries, "registries", name, login)
        }
        Kind::DisabledHead(head) => {
            match std::mem::replace(&mut state.disabled.modified, StateIndex(head.modified)) {
                StateIndex(0) if state.disabled.scopes.is_empty() => Ok(()),
                StateIndex(_) => Err(Problem::Unordered("heads of what is disabled")),
            }
        }
        Kind::DisabledScope(scope) => {
            let (scope, disablement) = disabled::to_disablement(scope)?;
            append(&mut state.disabled.scopes, "disabled allocations", scope, disablement)
        }
        Kind::AuditRetained(retained) => {
            match state.audit.retention.replace(row::to_retention(retained)) {
                None => Ok(()),
                Some(_) => Err(Problem::Unordered("retentions of events")),
            }
        }
        Kind::RefusalCount(count) => {
            let (by, count) = row::to_refusals(count)?;
            append(&mut state.audit.refusals, "counts of refusals", by, count)
        }
        Kind::Trailer(_) => Err(Problem::Unordered("rows")),
    }
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
