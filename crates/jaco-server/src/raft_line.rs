//! The answering end of a peer's line for frames of the consensus protocol.

use jaco_pki::TlsConnection;
use jaco_raft::{HandleError, framed};
use jaco_types::{NodeId, Rejection};
use tracing::{debug, warn};

use crate::auth;
use crate::connection::Caller;
use crate::member::{Member, Stage};
use crate::service::origin;

/// Answers what comes over the connection, if a member's certificate was shown, until either side
/// hangs up. Each frame has to be from that member, and it has to be one still.
pub(crate) async fn serve(connection: TlsConnection, stage: Stage) {
    let caller = Caller::Tls { peer: connection.peer().clone(), source: connection.source() };
    let Some(member) = stage.load_full() else {
        debug!(from = %origin(&caller), "this node has no cluster yet, the line is closed");
        return;
    };
    if let Err(rejection) = identify(&member, &caller) {
        member.refusals.note(&origin(&caller), &rejection);
        return;
    }
    let admit = |claimed| match identify(&member, &caller) {
        Ok(sender) if sender == NodeId(claimed) => Ok(()),
        Ok(sender) => Err(format!("node {sender} sent a message as node {claimed}")),
        Err(rejection) => Err(rejection.message),
    };
    match member.store.raft().serve(framed(connection), admit).await {
        Ok(()) => {}
        Err(error @ HandleError::Stopped { .. }) => debug!(%error, "a peer's line is closed"),
        Err(error) => warn!(%error, from = %origin(&caller), "a peer's line is closed"),
    }
}

fn identify(member: &Member, caller: &Caller) -> Result<NodeId, Rejection> {
    member.store.read(|state| auth::identify_node(state, caller))
}
