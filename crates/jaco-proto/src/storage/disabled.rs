//! Disabled allocations.

use std::collections::BTreeSet;

use jaco_state::command::Disabling;
use jaco_types::{AllocationScope, Disablement, NodeId, Timestamp};

use super::convert::{Wire, required, wire_enum};
use super::error::Problem;
use super::wire::{self, allocation_scope::Kind};

wire_enum!(Disabling, "change of what is disabled", [Disable, Enable, Replace]);

impl Wire for AllocationScope {
    type Message = wire::AllocationScope;

    fn to_wire(&self) -> wire::AllocationScope {
        let kind = match self {
            Self::Node(node) => Kind::Node(node.0),
            Self::Service(service) => Kind::Service(service.to_wire()),
            Self::Pair { service, node } => Kind::Pair(wire::allocation_scope::Pair {
                service: Some(service.to_wire()),
                node: node.0,
            }),
            Self::Replica { service, id } => Kind::Replica(wire::allocation_scope::Replica {
                service: Some(service.to_wire()),
                id: id.to_wire(),
            }),
        };
        wire::AllocationScope { kind: Some(kind) }
    }

    fn from_wire(message: wire::AllocationScope) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of allocation"))? {
            Kind::Node(node) => Self::Node(NodeId(node)),
            Kind::Service(service) => Self::Service(Wire::from_wire(service)?),
            Kind::Pair(pair) => {
                Self::Pair { service: required("service", pair.service)?, node: NodeId(pair.node) }
            }
            Kind::Replica(replica) => Self::Replica {
                service: required("service", replica.service)?,
                id: Wire::from_wire(replica.id)?,
            },
        })
    }
}

/// Reads scopes that must be in their order, each once.
pub(super) fn scopes(
    messages: Vec<wire::AllocationScope>,
) -> Result<BTreeSet<AllocationScope>, Problem> {
    let mut scopes = BTreeSet::new();
    for message in messages {
        let scope = Wire::from_wire(message)?;
        if scopes.last().is_some_and(|last| *last >= scope) {
            return Err(Problem::Unordered("allocations"));
        }
        scopes.insert(scope);
    }
    Ok(scopes)
}

pub(super) fn from_disablement(
    scope: &AllocationScope,
    disablement: &Disablement,
) -> wire::DisabledScope {
    wire::DisabledScope {
        scope: Some(scope.to_wire()),
        by: Some(disablement.by.to_wire()),
        at_ms: disablement.at.0,
    }
}

pub(super) fn to_disablement(
    message: wire::DisabledScope,
) -> Result<(AllocationScope, Disablement), Problem> {
    let disablement =
        Disablement { by: required("author", message.by)?, at: Timestamp(message.at_ms) };
    Ok((required("allocation", message.scope)?, disablement))
}
