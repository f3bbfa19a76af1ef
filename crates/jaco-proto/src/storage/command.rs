//! What a log entry asks for.

use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_state::command::{RebalanceMove, RebalanceRevert};
use jaco_state::state::Pin;
use jaco_types::{Millis, NodeId, Revision, StateIndex};

use super::convert::{Wire, list, required, to_list};
use super::disabled;
use super::error::Problem;
use super::wire::{self, command::Kind};

impl Wire for Command {
    type Message = wire::Command;

    fn to_wire(&self) -> wire::Command {
        let kind = match self {
            Self::ClusterInit { meta, node, token } => Kind::ClusterInit(wire::ClusterInit {
                meta: Some(meta.to_wire()),
                node: Some(node.to_wire()),
                token: Some(token.to_wire()),
            }),
            Self::NodeAdmit { node, token } => Kind::NodeAdmit(wire::NodeAdmit {
                node: Some(node.to_wire()),
                token: token.to_wire(),
            }),
            Self::NodeReport { node, address, facts } => Kind::NodeReport(wire::NodeReport {
                node: node.0,
                address: address.clone(),
                facts: Some(facts.to_wire()),
            }),
            Self::NodeSetAvailability { node, availability } => {
                let availability = availability.to_wire();
                Kind::NodeSetAvailability(wire::NodeSetAvailability { node: node.0, availability })
            }
            Self::NodeDrain { node, patience } => {
                Kind::NodeDrain(wire::NodeDrain { node: node.0, patience_ms: patience.0 })
            }
            Self::NodeSetLabels { node, set, unset } => Kind::NodeSetLabels(wire::NodeSetLabels {
                node: node.0,
                set: set.to_wire(),
                unset: unset.iter().cloned().collect(),
            }),
            Self::NodeRemove { node } => Kind::NodeRemove(wire::NodeRemove { node: node.0 }),
            Self::ConstraintsSet { pairs } => {
                Kind::ConstraintsSet(wire::ConstraintsSet { pairs: pairs.to_wire() })
            }
            Self::DisabledSet { change, scopes } => Kind::DisabledSet(wire::DisabledSet {
                change: change.to_wire(),
                scopes: scopes.iter().map(Wire::to_wire).collect(),
            }),
            Self::DeploymentApply { name, spec, based_on } => {
                Kind::DeploymentApply(wire::DeploymentApply {
                    name: name.to_wire(),
                    spec: Some(spec.to_wire()),
                    based_on: based_on.map(|revision| revision.0),
                })
            }
            Self::DeploymentRollback { name, to } => {
                Kind::DeploymentRollback(wire::DeploymentRollback {
                    name: name.to_wire(),
                    to: to.map(|revision| revision.0),
                })
            }
            Self::RevisionPin { name, revision, pin } => Kind::RevisionPin(wire::RevisionPin {
                name: name.to_wire(),
                revision: revision.0,
                pinned: pin.to_wire(),
            }),
            Self::DeploymentDelete { name } => {
                Kind::DeploymentDelete(wire::DeploymentDelete { name: name.to_wire() })
            }
            Self::ContentPut { pieces } => {
                Kind::ContentPut(wire::ContentPut { pieces: to_list(pieces) })
            }
            Self::NamedContentPut { key, tree, pieces, size } => {
                Kind::NamedContentPut(wire::NamedContentPut {
                    key: Some(key.to_wire()),
                    tree: tree.to_wire(),
                    pieces: to_list(pieces),
                    size: *size,
                })
            }
            Self::NamedContentRemove { key } => {
                Kind::NamedContentRemove(wire::NamedContentRemove { key: Some(key.to_wire()) })
            }
            Self::RegistryStore { registry, username, password } => {
                Kind::RegistryStore(wire::RegistryStore {
                    registry: registry.to_wire(),
                    username: username.to_wire(),
                    password: password.to_wire(),
                })
            }
            Self::RegistryRemove { registry } => {
                Kind::RegistryRemove(wire::RegistryRemove { registry: registry.to_wire() })
            }
            Self::Batch { based_on, changes } => {
                Kind::Batch(wire::Batch { based_on: based_on.0, changes: to_list(changes) })
            }
            Self::Observe { node, observed, gone } => Kind::Observe(wire::Observe {
                node: node.0,
                observed: to_list(observed),
                gone: to_list(gone),
            }),
            Self::OperatorTokenIssue { token } => {
                Kind::OperatorTokenIssue(wire::OperatorTokenIssue { token: Some(token.to_wire()) })
            }
            Self::OperatorTokenRevoke { id } => {
                Kind::OperatorTokenRevoke(wire::OperatorTokenRevoke { id: id.to_wire() })
            }
            Self::JoinTokenIssue { token } => {
                Kind::JoinTokenIssue(wire::JoinTokenIssue { token: Some(token.to_wire()) })
            }
            Self::ConsumerAttach { name, node, lease } => {
                Kind::ConsumerAttach(wire::ConsumerAttach {
                    name: name.to_wire(),
                    node: node.0,
                    lease_ms: lease.0,
                })
            }
            Self::ConsumerDetach { name, session } => Kind::ConsumerDetach(wire::ConsumerDetach {
                name: name.to_wire(),
                session: session.0,
            }),
            Self::Rebalance { based_on, moves, kept } => Kind::Rebalance(wire::Rebalance {
                based_on: based_on.0,
                moves: moves.iter().map(Wire::to_wire).collect(),
                kept: kept
                    .iter()
                    .map(|facts| wire::RebalanceKept { facts: facts.to_wire() })
                    .collect(),
            }),
            Self::AuditBegin => Kind::AuditBegin(wire::AuditBegin {}),
            Self::RebalanceRevert { based_on, reverts } => {
                let back = |one: &RebalanceRevert| wire::RebalanceBack {
                    id: one.id.to_wire(),
                    facts: one.facts.to_wire(),
                };
                let reverts = reverts.iter().map(back).collect();
                Kind::RebalanceRevert(wire::RebalanceRevert { based_on: based_on.0, reverts })
            }
            Self::AuditRetention { age } => {
                Kind::AuditRetention(wire::AuditRetention { age_ms: age.0 })
            }
            Self::AuditNote { kind, payload } => Kind::AuditNote(wire::AuditNote {
                kind: kind.to_wire(),
                payload: payload.to_wire(),
            }),
        };
        wire::Command { kind: Some(kind) }
    }

    fn from_wire(message: wire::Command) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of command"))? {
            Kind::ClusterInit(init) => Self::ClusterInit {
                meta: required("cluster", init.meta)?,
                node: required("node", init.node)?,
                token: required("token", init.token)?,
            },
            Kind::NodeAdmit(admit) => Self::NodeAdmit {
                node: required("node", admit.node)?,
                token: Wire::from_wire(admit.token)?,
            },
            Kind::NodeReport(report) => Self::NodeReport {
                node: NodeId(report.node),
                address: report.address,
                facts: required("facts", report.facts)?,
            },
            Kind::NodeSetAvailability(set) => Self::NodeSetAvailability {
                node: NodeId(set.node),
                availability: Wire::from_wire(set.availability)?,
            },
            Kind::NodeDrain(drain) => {
                Self::NodeDrain { node: NodeId(drain.node), patience: Millis(drain.patience_ms) }
            }
            Kind::NodeSetLabels(labels) => Self::NodeSetLabels {
                node: NodeId(labels.node),
                set: Wire::from_wire(labels.set)?,
                unset: labels.unset.into_iter().collect(),
            },
            Kind::NodeRemove(remove) => Self::NodeRemove { node: NodeId(remove.node) },
            Kind::ConstraintsSet(set) => {
                Self::ConstraintsSet { pairs: Wire::from_wire(set.pairs)? }
            }
            Kind::DisabledSet(set) => Self::DisabledSet {
                change: Wire::from_wire(set.change)?,
                scopes: disabled::scopes(set.scopes)?,
            },
            Kind::DeploymentApply(apply) => Self::DeploymentApply {
                name: Wire::from_wire(apply.name)?,
                spec: required("spec", apply.spec)?,
                based_on: apply.based_on.map(Revision),
            },
            Kind::DeploymentRollback(rollback) => Self::DeploymentRollback {
                name: Wire::from_wire(rollback.name)?,
                to: rollback.to.map(Revision),
            },
            Kind::RevisionPin(pin) => Self::RevisionPin {
                name: Wire::from_wire(pin.name)?,
                revision: Revision(pin.revision),
                pin: Wire::from_wire(pin.pinned)?,
            },
            Kind::DeploymentDelete(delete) => {
                Self::DeploymentDelete { name: Wire::from_wire(delete.name)? }
            }
            Kind::ContentPut(put) => Self::ContentPut { pieces: list(put.pieces)? },
            Kind::NamedContentPut(put) => Self::NamedContentPut {
                key: required("key", put.key)?,
                tree: Wire::from_wire(put.tree)?,
                pieces: list(put.pieces)?,
                size: put.size,
            },
            Kind::NamedContentRemove(remove) => {
                Self::NamedContentRemove { key: required("key", remove.key)? }
            }
            Kind::RegistryStore(store) => Self::RegistryStore {
                registry: Wire::from_wire(store.registry)?,
                username: Wire::from_wire(store.username)?,
                password: Wire::from_wire(store.password)?,
            },
            Kind::RegistryRemove(remove) => {
                Self::RegistryRemove { registry: Wire::from_wire(remove.registry)? }
            }
            Kind::Batch(batch) => {
                Self::Batch { based_on: StateIndex(batch.based_on), changes: list(batch.changes)? }
            }
            Kind::Observe(observe) => Self::Observe {
                node: NodeId(observe.node),
                observed: list(observe.observed)?,
                gone: list(observe.gone)?,
            },
            Kind::OperatorTokenIssue(issue) => {
                Self::OperatorTokenIssue { token: required("token", issue.token)? }
            }
            Kind::OperatorTokenRevoke(revoke) => {
                Self::OperatorTokenRevoke { id: Wire::from_wire(revoke.id)? }
            }
            Kind::JoinTokenIssue(issue) => {
                Self::JoinTokenIssue { token: required("token", issue.token)? }
            }
            Kind::ConsumerAttach(attach) => Self::ConsumerAttach {
                name: Wire::from_wire(attach.name)?,
                node: NodeId(attach.node),
                lease: Millis(attach.lease_ms),
            },
            Kind::ConsumerDetach(detach) => Self::ConsumerDetach {
                name: Wire::from_wire(detach.name)?,
                session: StateIndex(detach.session),
            },
            Kind::Rebalance(rebalance) => Self::Rebalance {
                based_on: StateIndex(rebalance.based_on),
                moves: rebalance
                    .moves
                    .into_iter()
                    .map(Wire::from_wire)
                    .collect::<Result<_, _>>()?,
                kept: rebalance
                    .kept
                    .into_iter()
                    .map(|kept| Wire::from_wire(kept.facts))
                    .collect::<Result<_, _>>()?,
            },
            Kind::AuditBegin(wire::AuditBegin {}) => Self::AuditBegin,
            Kind::RebalanceRevert(back) => {
                let read = |one: wire::RebalanceBack| {
                    let (id, facts) = (Wire::from_wire(one.id)?, Wire::from_wire(one.facts)?);
                    Ok(RebalanceRevert { id, facts })
                };
                Self::RebalanceRevert {
                    based_on: StateIndex(back.based_on),
                    reverts: back.reverts.into_iter().map(read).collect::<Result<_, Problem>>()?,
                }
            }
            Kind::AuditRetention(set) => Self::AuditRetention { age: Millis(set.age_ms) },
            Kind::AuditNote(note) => Self::AuditNote {
                kind: Wire::from_wire(note.kind)?,
                payload: Wire::from_wire(note.payload)?,
            },
        })
    }
}

impl Wire for RebalanceMove {
    type Message = wire::RebalanceMove;

    fn to_wire(&self) -> wire::RebalanceMove {
        wire::RebalanceMove {
            id: self.id.to_wire(),
            instance: Some(self.instance.to_wire()),
            facts: self.facts.to_wire(),
        }
    }

    fn from_wire(message: wire::RebalanceMove) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            instance: required("instance", message.instance)?,
            facts: Wire::from_wire(message.facts)?,
        })
    }
}

/// Whether a revision is pinned.
impl Wire for Pin {
    type Message = bool;

    fn to_wire(&self) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
        }
    }

    fn from_wire(pinned: bool) -> Result<Self, Problem> {
        Ok(if pinned { Self::Yes } else { Self::No })
    }
}

/// The kinds carry their own numbers, which are part of the interface.
impl Wire for AuditKind {
    type Message = u32;

    fn to_wire(&self) -> u32 {
        self.number()
    }

    fn from_wire(number: u32) -> Result<Self, Problem> {
        let unknown = Problem::UnknownValue { what: "audit kind", number: number.into() };
        Self::from_number(number).ok_or(unknown)
    }
}
