//! Gives up every state of before an entry: for what must not come back, not to save room.

use std::io;

use super::Raft;
use crate::error::MembershipError;
use crate::machine::StateMachine;

impl<M: StateMachine> Raft<M> {
    /// The oldest state that a restart could bring back from this node's snapshots and log, by its last entry; 0 for the
    /// empty state.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn oldest(&self) -> io::Result<u64> {
        let snapshots = self.inner.server.snapshots.covered()?;
        let purged = self.inner.log.purged().map_or(0, |id| id.index);
        // A snapshot that ends before the log begins cannot be used, but is there to be read.
        Ok(snapshots.first().map_or(0, |first| purged.min(*first)))
    }

    /// Goes on to make a snapshot of `index` or later, and to delete the log up to it and all snapshots before it. Returns
    /// before that is done: call it again until [`Raft::oldest`] says so. A follower that lacks some of it gets the
    /// snapshot.
    ///
    /// # Errors
    /// `Stopped`; and what the disk refuses, as that.
    pub async fn forget_before(&self, index: u64) -> Result<(), MembershipError> {
        let status = self.status();
        let Some(snapshot) = status.snapshot.filter(|snapshot| *snapshot >= index) else {
            return match status.applied >= Some(index) {
                true => self.trigger_snapshot().await,
                false => Ok(()),
            };
        };
        if status.purged < Some(index) {
            let purged = self.inner.raft.trigger().purge_log(snapshot).await;
            return purged.map_err(|fatal| MembershipError::Stopped { reason: fatal.to_string() });
        }
        let forgotten = self.inner.server.snapshots.forget_before(index);
        forgotten.map_err(|error| MembershipError::Stopped { reason: error.to_string() })
    }
}
