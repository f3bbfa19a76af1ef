//! What a member has to do next for the rotation of the authority. It follows from the state and from what the member has
//! in use, so that a member that was killed anywhere goes on where it was.

use std::collections::BTreeSet;

use jaco_types::NodeId;

use crate::rotation::{AuthorityFingerprint, RotationPhase, RotationStep};
use crate::state::ClusterState;

/// What a member has in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTrust {
    /// The authorities that it trusts.
    pub trusted: BTreeSet<AuthorityFingerprint>,
    /// The one that signed its certificate; none if that is not among those that it trusts.
    pub signed_by: Option<AuthorityFingerprint>,
    /// Its connections to other members.
    pub connections: HeldConnections,
}

/// The certificates with which the connections that a member opened to others were opened, on both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldConnections {
    /// All are of the authority that signs.
    Current,
    /// Some are of another one, or are not known yet.
    Outdated,
}

/// What a member has to do next. Whatever it did before is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationDuty {
    /// Trust what the state says, and nothing else.
    Trust,
    /// Get a certificate of the authority that signs.
    Renew,
    /// Open connections to the other members anew.
    Reconnect,
    /// Report what is done.
    Report(RotationStep),
}

/// What `node` has to do next; nothing if it is done, or others have to act before it.
#[must_use]
pub fn rotation_duty(state: &ClusterState, node: NodeId, held: &HeldTrust) -> Option<RotationDuty> {
    let rotation = state.rotation.as_ref()?;
    if !state.nodes.contains(&node) {
        return None;
    }
    let trusted: BTreeSet<_> = rotation.trusted().iter().map(|one| one.fingerprint).collect();
    if held.trusted != trusted {
        // The own certificate must stay one that the own trust vouches for.
        return match held.signed_by {
            Some(signer) if trusted.contains(&signer) => Some(RotationDuty::Trust),
            Some(_) | None => Some(RotationDuty::Renew),
        };
    }
    let is_due = |step| rotation.reports.get(&node) < Some(&step);
    let report = |step| is_due(step).then_some(RotationDuty::Report(step));
    match rotation.phase {
        RotationPhase::Trusting => report(RotationStep::Trusts),
        RotationPhase::Renewing if held.signed_by != Some(rotation.new.fingerprint) => {
            Some(RotationDuty::Renew)
        }
        RotationPhase::Renewing if is_due(RotationStep::Renewed) => report(RotationStep::Renewed),
        // Before that a new connection may be one of the old authority as well.
        RotationPhase::Renewing if !rotation.all_have(RotationStep::Renewed, &state.nodes) => None,
        RotationPhase::Renewing if !is_due(RotationStep::Reconnected) => None,
        RotationPhase::Renewing => match held.connections {
            HeldConnections::Outdated => Some(RotationDuty::Reconnect),
            HeldConnections::Current => report(RotationStep::Reconnected),
        },
        RotationPhase::Settled | RotationPhase::Abandoned => report(RotationStep::Dropped),
    }
}
