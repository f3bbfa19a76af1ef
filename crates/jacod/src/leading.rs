//! Work that only the leader does: begun anew with each leadership of this node, and dropped with it.

use std::time::Duration;

use jaco_server::Member;
use jaco_store::{Leadership, RaftRole, Store as _};
use tokio::time::sleep;
use tracing::debug;

/// How long after a quorum could not be asked it is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// Does `work` while this node leads and knows all that earlier leaders have written. Returns once the store has stopped.
pub(crate) async fn while_leading<F: Future<Output = ()>>(member: &Member, work: impl Fn() -> F) {
    let mut leadership = member.store.watch_leadership();
    loop {
        let leads = |now: &Leadership| now.role == RaftRole::Leader;
        let Ok(begun) = leadership.wait_for(leads).await.map(|now| *now) else { return };
        let has_ended = |now: &Leadership| *now != begun;
        let caught_up = async {
            while let Err(error) = member.store.catch_up().await {
                debug!(%error, "this leader does not know all entries of earlier ones yet");
                sleep(RETRY).await;
            }
            work().await;
        };
        tokio::select! {
            () = caught_up => {}
            ended = leadership.wait_for(has_ended) => if ended.is_err() { return },
        }
    }
}
