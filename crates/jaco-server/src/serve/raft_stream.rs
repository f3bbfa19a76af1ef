//! The server side of a raft stream.

use jaco_pki::TlsConnection;
use jaco_raft::{HandleError, framed};
use jaco_types::{NodeId, Rejection};
use tracing::{debug, warn};

use crate::auth;
use crate::auth::address;
use crate::auth::connection::Caller;
use crate::member::{Member, Stage};

/// Serves raft frames over a connection with a member's certificate until either side closes it. Each frame
/// must be from that member, and it must still be a member.
pub(crate) async fn serve(connection: TlsConnection, stage: Stage) {
    let caller = Caller::on(&connection);
    let Some(member) = stage.load_full() else {
        debug!(from = %address(&caller), "raft stream closed: this node has no cluster yet");
        return;
    };
    if let Err(rejection) = identify(&member, &caller) {
        member.refusals.note(&address(&caller), &rejection);
        return;
    }
    let admit = |claimed| match identify(&member, &caller) {
        Ok(sender) if sender == NodeId(claimed) => Ok(()),
        Ok(sender) => {
            Err(format!("node {sender} sent a raft message in the name of node {claimed}"))
        }
        Err(rejection) => Err(rejection.message),
    };
    match member.store.raft().serve(framed(connection), admit).await {
        Ok(()) => {}
        Err(error @ HandleError::Stopped { .. }) => debug!(%error, "raft stream closed"),
        Err(error) => warn!(%error, from = %address(&caller), "raft stream closed"),
    }
}

fn identify(member: &Member, caller: &Caller) -> Result<NodeId, Rejection> {
    member.store.read(|state| auth::identify_node(state, caller))
}
