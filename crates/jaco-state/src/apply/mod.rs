//! The only way the replicated state changes (ST-1).
//!
//! ```text
//! backup       schedules of backups, and their runs
//! cluster      members, tokens, constraints, disabled allocations
//! content      contents of files, named configs and secrets, registry credentials
//! deployment   deployments, their revisions and image digests
//! edge         routes and certificates
//! job          records of jobs
//! images       images that users push
//! kek          the phases in which the key-encryption key is replaced
//! network      networks, addresses of instances and nodes
//! notify       targets of notifications, and how far they are
//! notify_pause their pauses
//! planner      changes of the planner and the rebalancer, observed state, endpoint consumers
//! policy       what deployments may reach of the nodes
//! retention    the age of audit events
//! rotation     the phases in which the authority is replaced
//! runs         beginnings of runs of jobs
//! ```

mod audit;
mod backup;
mod cluster;
mod content;
pub mod deployment;
mod edge;
mod images;
mod job;
mod kek;
mod network;
mod notify;
mod notify_pause;
mod planner;
mod policy;
mod retention;
mod rotation;
mod runs;

use self::audit::Audit;
use self::cluster::{constraints, data_move, disabled, drain, tokens};
use self::content::{named, registries};
use self::deployment::revision;
use self::edge::{acme, certificate};
use self::network::operator;
use self::planner::{batch, observe, rebalance, routing};
use crate::audit::{AuditKind, Evicted};
use crate::command::{AuditNote, Batch, Command, EdgeBegin, Entry, Outcome};
use crate::state::ClusterState;

/// Executes one entry.
///
/// An entry whose request id was seen before changes nothing and has the outcome of the first one. A
/// refused entry leaves only its audit event.
pub fn apply(state: &mut ClusterState, entry: &Entry) -> Outcome {
    apply_evicting(state, entry, &mut Evicted::new())
}

/// Executes one entry, and returns the audit events that it evicted from the state: a node writes them
/// to its archive before it uses the new state.
pub fn apply_evicting(state: &mut ClusterState, entry: &Entry, evicted: &mut Evicted) -> Outcome {
    state.index = entry.index;
    if let Some(known) = entry.request.as_ref().and_then(|request| state.requests.outcome(request))
    {
        return known.clone();
    }
    let evicted_before = evicted.len();
    let outcome = execute(state, entry, evicted);
    state.audit.expire(entry.at, evicted);
    notify::count_pruned(state, &evicted[evicted_before..]);
    if let Some(request) = &entry.request {
        state.requests.record(entry.index, request.clone(), outcome.clone());
    }
    outcome
}

fn execute(state: &mut ClusterState, entry: &Entry, evicted: &mut Evicted) -> Outcome {
    let mut audit = Audit::new(entry);
    let outcome = match kek::check_brought(state, &entry.command) {
        Ok(()) => carry_out(state, entry, &mut audit),
        Err(rejection) => Outcome::Rejected(rejection),
    };
    if let Outcome::Rejected(rejection) = &outcome {
        audit.refuse(&entry.command, rejection);
    }
    audit.write(state, evicted);
    outcome
}

fn carry_out(state: &mut ClusterState, entry: &Entry, audit: &mut Audit<'_>) -> Outcome {
    match &entry.command {
        Command::ClusterInit(command) => cluster::init(state, entry, command, audit),
        Command::NodeAdmit(command) => cluster::admit(state, entry, command, audit),
        Command::NodeReport(command) => cluster::report(state, entry, command),
        Command::NodeSetAvailability(command) => {
            cluster::set_availability(state, entry, command, audit)
        }
        Command::NodeDrain(command) => drain::begin(state, entry, command, audit),
        Command::NodeSetLabels(command) => cluster::set_labels(state, entry, command, audit),
        Command::NodeRemove(command) => cluster::remove(state, entry, command, audit),
        Command::ConstraintsSet(command) => constraints::set(state, command, audit),
        Command::DisabledSet(command) => disabled::set(state, entry, command, audit),
        Command::DataMove(command) => data_move::carry_out(state, entry, command, audit),
        Command::DeploymentApply(command) => deployment::apply_spec(state, entry, command, audit),
        Command::DeploymentDelete(command) => deployment::delete(state, entry, command, audit),
        Command::DeploymentRollback(command) => revision::rollback(state, entry, command, audit),
        Command::RevisionPin(command) => revision::pin(state, command, audit),
        Command::ContentPut(command) => content::put(state, entry.at, &command.pieces),
        Command::NamedContentPut(command) => named::put(state, entry, command, audit),
        Command::NamedContentRemove(command) => named::remove(state, entry, command, audit),
        Command::RegistryStore(command) => registries::store(state, entry, command, audit),
        Command::RegistryRemove(command) => registries::remove(state, command, audit),
        Command::Batch(Batch { based_on, changes }) => {
            batch::apply_batch(state, entry, *based_on, changes, audit)
        }
        Command::Rebalance(command) => rebalance::apply_moves(state, entry, command, audit),
        Command::RebalanceRevert(command) => rebalance::revert(state, entry, command, audit),
        Command::Observe(command) => observe::record(state, entry, command),
        Command::OperatorTokenIssue(command) => tokens::issue(state, command, audit),
        Command::OperatorTokenRevoke(command) => tokens::revoke(state, entry, command, audit),
        Command::OperatorTokenRotate(command) => tokens::rotate(state, entry, command, audit),
        Command::TokensUsed(command) => tokens::used(state, entry, command),
        Command::JoinTokenIssue(command) => tokens::issue_join(state, command, audit),
        Command::JoinTokenRevoke(command) => tokens::revoke_join(state, entry, command, audit),
        Command::ConsumerAttach(command) => routing::attach(state, entry, command, audit),
        Command::ConsumerDetach(command) => routing::detach(state, command, audit),
        Command::AuditBegin => {
            if state.audit.head.is_none() {
                state.audit.begin_chain();
                let kept = state.audit.events.len().to_string();
                audit.event(AuditKind::AuditChainBegun, [("events", kept)]);
            }
            Outcome::Done
        }
        Command::NetworkBegin(command) => operator::begin(state, command, audit),
        Command::NetworkCreate(command) => operator::create(state, command, audit),
        Command::NetworkRemove(command) => operator::remove(state, entry, command, audit),
        Command::NetworkResize(command) => operator::resize(state, entry, command, audit),
        Command::EdgeBegin(EdgeBegin) => edge::begin(state, entry),
        Command::CertificateStore(command) => certificate::store(state, entry, command, audit),
        Command::CertificateRemove(command) => certificate::remove(state, command, audit),
        Command::AcmeNote(note) => acme::record(state, entry, note, audit),
        Command::PolicySet(command) => policy::set(state, command, audit),
        Command::PolicyAllow(command) => policy::allow(state, command, audit),
        Command::PolicyRevoke(command) => policy::revoke(state, command, audit),
        Command::AuthorityRotate(command) => rotation::begin(state, entry, command, audit),
        Command::AuthorityReport(command) => rotation::report(state, entry, command),
        Command::AuthorityContinue(command) => rotation::go_on(state, entry, command, audit),
        Command::AuthoritySettle(command) => rotation::settle(state, entry, command, audit),
        Command::AuthorityAbandon(command) => rotation::abandon(state, entry, command, audit),
        Command::KekRotate(command) => kek::begin(state, entry, command, audit),
        Command::KekReport(command) => kek::report(state, entry, command),
        Command::KekAdvance(command) => kek::advance(state, entry, command, audit),
        Command::KekReseal(command) => kek::reseal(state, command),
        Command::KekAbandon(command) => kek::abandon(state, entry, command, audit),
        Command::JobDue(command) => runs::due(state, entry, command, audit),
        Command::JobRewind(command) => runs::rewind(state, entry, command, audit),
        Command::JobStart(command) => runs::start(state, entry, command, audit),
        Command::ImagePush(command) => images::push(state, entry, command, audit),
        Command::ImageTagSet(command) => images::tag(state, entry, command, audit),
        Command::ImageRemove(command) => images::remove(state, entry, command, audit),
        Command::ImagesHeld(command) => images::held(state, command),
        Command::NotifyStore(command) => notify::store(state, entry, command, audit),
        Command::NotifyRemove(command) => notify::remove(state, command, audit),
        Command::NotifyPause(command) => notify_pause::change(state, entry, command, audit),
        Command::NotifyProgress(command) => notify::progress(state, entry, command, audit),
        Command::UndeliveredSettle(command) => notify::settle(state, entry, command, audit),
        Command::BackupScheduleStore(command) => backup::store(state, entry, command, audit),
        Command::BackupScheduleRemove(command) => backup::remove(state, command, audit),
        Command::BackupBegin(command) => backup::begin(state, entry, command, audit),
        Command::BackupReport(command) => backup::report(state, entry, command, audit),
        Command::AuditRetention(command) => retention::set(state, entry, command, audit),
        Command::AuditNote(AuditNote { kind, payload }) => {
            audit.note(*kind, payload.clone());
            Outcome::Done
        }
    }
}
