//! Which slots a service needs: how many, and of which kind.

use std::collections::BTreeSet;

use jaco_types::Ordinal;
use jaco_types::spec::Placement;

use super::slot_facts::Need;
use super::victims;
use crate::draft::{Pass, Proven, ServiceDraft, SlotDraft};
use crate::eligibility::Colocation;
use crate::nodes::NodeIx;
use crate::placement::candidates;

/// Whether a slot is named the way this placement names its slots.
pub(crate) fn is_own_kind(slot: &SlotDraft<'_>, placement: &Placement) -> bool {
    match (&slot.ordinal, placement) {
        (Ordinal::Host(_), Placement::Global)
        | (Ordinal::Index(_), Placement::Spread | Placement::Pack | Placement::Hosts(_)) => true,
        (Ordinal::Host(_), Placement::Spread | Placement::Pack | Placement::Hosts(_))
        | (Ordinal::Index(_), Placement::Global) => false,
    }
}

/// The member that a global slot is named after, which may have left and joined again.
pub(crate) fn home(slot: &SlotDraft<'_>, pass: &Pass<'_>) -> Option<NodeIx> {
    match &slot.ordinal {
        Ordinal::Host(host) => {
            let is_home = |at: &NodeIx| pass.nodes.row(*at).node.hostname == *host;
            slot.current.at.filter(is_home).or_else(|| pass.nodes.find_host(host))
        }
        Ordinal::Index(_) => None,
    }
}

/// The slots that go because there are more of the placement's kind than replicas are wanted.
pub(super) fn surplus<'a>(service: &ServiceDraft<'a>, pass: &Pass<'a>) -> BTreeSet<Ordinal> {
    let goal = service.goal().spec;
    let wanted = match goal.placement {
        Placement::Global => return BTreeSet::new(),
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => goal.replicas,
    };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    if service.slots.len() <= wanted {
        return BTreeSet::new();
    }
    let own = || service.slots.iter().filter(|slot| is_own_kind(slot, &goal.placement));
    match own().count().saturating_sub(wanted) {
        0 => BTreeSet::new(),
        surplus => victims::choose(&pass.nodes, service, own(), surplus),
    }
}

/// After a change to or from `global`, the slots of the other kind serve until those of the new kind
/// do; where both would take the same port of a host they cannot, and go at once.
pub(super) fn other_kind<'a>(service: &ServiceDraft<'a>, pass: &Pass<'a>) -> Need {
    let goal = service.goal().spec;
    let placement = &goal.placement;
    if service.slots.iter().all(|slot| is_own_kind(slot, placement)) {
        return Need::Interim;
    }
    if !goal.host_ports.is_empty() {
        return Need::Superseded;
    }
    let wants_some = match placement {
        Placement::Global => !candidates(&pass.nodes, goal, service.colocation()).is_empty(),
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => goal.replicas > 0,
    };
    let own = service.slots.iter().filter(|slot| is_own_kind(slot, placement));
    // A slot without its partner is removed itself, so it is no successor.
    let own = own.filter(|slot| service.colocation_of(slot) != Colocation::Missing);
    let mut successors = own.peekable();
    let has_none = successors.peek().is_none();
    let (proof, now) = (service.proof(), pass.input.now);
    let is_proven = |slot: &SlotDraft<'_>| !slot.is_active() || proof.of(slot, now) == Proven::Yes;
    match successors.all(is_proven) && !(has_none && wants_some) {
        true => Need::Superseded,
        false => Need::Interim,
    }
}
