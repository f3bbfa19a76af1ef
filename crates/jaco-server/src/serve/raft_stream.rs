//! The server side of a raft stream.

use jaco_pki::TlsConnection;
use jaco_raft::{HandleError, framed};
use jaco_types::{Identity, NodeId, Rejection};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::auth;
use crate::auth::address;
use crate::auth::connection::Caller;
use crate::member::{Member, Stage};

/// Serves raft frames over a connection with a member's certificate until either side closes it. Each frame
/// must be from that member, and it must still be a member.
pub(crate) async fn serve(mut connection: TlsConnection, stage: Stage) {
    let caller = Caller::on(&connection);
    let Some(member) = stage.load_full() else {
        debug!(from = %address(&caller), "raft stream closed: this node has no cluster yet");
        return;
    };
    if let Err(rejection) = identify(&member, &caller) {
        member.refusals.note(&address(&caller), &Identity::Anonymous, &rejection);
        return;
    }
    let from = address(&caller);
    let raft = member.store.raft().clone();
    let admit = move |claimed| match identify(&member, &caller) {
        Ok(sender) if sender == NodeId(claimed) => Ok(()),
        Ok(sender) => {
            Err(format!("node {sender} sent a raft message in the name of node {claimed}"))
        }
        Err(rejection) => Err(rejection.message),
    };
    // On the threads of raft, so that no request delays the answer to a heartbeat.
    let runtime = raft.runtime().clone();
    let serving = async move {
        let here = connection.move_to_this_runtime();
        here.map_err(|error| HandleError::Unavailable(error.to_string()))?;
        raft.serve(framed(connection), admit).await
    };
    match AbortOnDropHandle::new(runtime.spawn(serving)).await {
        Ok(Ok(())) => {}
        Ok(Err(error @ HandleError::Stopped { .. })) => debug!(%error, "raft stream closed"),
        Ok(Err(error)) => warn!(%error, %from, "raft stream closed"),
        Err(error) => warn!(%error, %from, "raft stream failed"),
    }
}

fn identify(member: &Member, caller: &Caller) -> Result<NodeId, Rejection> {
    member.store.read(|state| auth::identify_node(state, caller))
}
