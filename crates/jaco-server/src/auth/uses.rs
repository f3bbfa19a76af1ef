//! When operator tokens were last used, for the list of tokens. An entry of the log for each use would be a way to make the
//! cluster write by reading, so a token's use is written at most once in an hour, and what is known is that coarse.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jaco_state::ClusterState;
use jaco_state::command::TokensUsed;
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, Millis, NodeId, Timestamp, TokenId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// How old a recorded use is before another one is written.
const PERIOD: Millis = Millis::from_secs(3600);

/// Minimum pause between two writes of this node: the uses of many tokens are written together.
const PAUSE: Duration = Duration::from_secs(10);

/// The most tokens whose uses wait to be written; more are written when they are used again.
const WAITING_MAX: usize = 1000;

/// Takes notes of uses. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TokenUses {
    shared: Arc<Shared>,
}

/// Writes the recorded uses to the log.
#[derive(Debug)]
pub struct TokenUseWriter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<BTreeMap<TokenId, Timestamp>>,
    added: Notify,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<TokenId, Timestamp>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notes of uses and their writer.
#[must_use]
pub fn channel() -> (TokenUses, TokenUseWriter) {
    let shared = Arc::new(Shared::default());
    (TokenUses { shared: Arc::clone(&shared) }, TokenUseWriter { shared })
}

impl TokenUses {
    /// Notes that a token was accepted at `now`. Only what is due is to be recorded, and only once all members can read what is
    /// written of it.
    pub(crate) fn note(&self, token: &TokenId, now: Timestamp) {
        let mut waiting = self.shared.waiting();
        if waiting.len() < WAITING_MAX || waiting.contains_key(token) {
            waiting.insert(token.clone(), now);
            drop(waiting);
            self.shared.added.notify_one();
        }
    }
}

/// Whether a use at `now` is to be recorded: nothing is recorded of the token, or something old.
pub(crate) fn is_due(recorded: Option<Timestamp>, now: Timestamp) -> bool {
    recorded.is_none_or(|at| now >= at.after(PERIOD))
}

impl TokenUseWriter {
    /// Writes the recorded uses until `shutdown`, in the name of `node`.
    pub async fn run(self, store: Arc<dyn Store>, node: NodeId, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.shared.added.notified() => {}
            }
            let seen = std::mem::take(&mut *self.shared.waiting());
            if let Some(command) = due(&store.snapshot(), seen) {
                let proposal = Proposal {
                    by: Identity::Node { id: node },
                    request: None,
                    command: command.into(),
                };
                if let Err(error) = store.propose(proposal).await {
                    // The next use is recorded again.
                    debug!(%error, "could not record uses of tokens");
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}

/// What is still to be written of these uses: another node may have been faster.
fn due(state: &ClusterState, seen: BTreeMap<TokenId, Timestamp>) -> Option<TokensUsed> {
    let mut uses = seen;
    uses.retain(|id, at| {
        let token = state.operator_tokens.get(id);
        token.is_some_and(|token| is_due(token.last_used_at, *at))
    });
    (!uses.is_empty()).then(|| TokensUsed::new(uses))
}

#[cfg(test)]
mod tests {
    use jaco_state::token::OperatorToken;

    use super::*;

    fn id(name: &str) -> TokenId {
        TokenId::new(name).unwrap()
    }

    fn state(last_used_at: Option<Timestamp>) -> ClusterState {
        let mut state = ClusterState::default();
        let token = OperatorToken {
            id: id("ann"),
            proof: jaco_state::token::Proof::Secret([0; 32]),
            issued_at: Timestamp(0),
            issued_by: Identity::Scheduler,
            revoked_at: None,
            expires_at: None,
            rights: None,
            last_used_at,
        };
        state.operator_tokens.insert(id("ann"), token);
        state
    }

    /// R-CLI-6: a token's use is written at most once in an hour by all nodes together, and never of a token that is not
    /// there.
    #[test]
    fn a_use_is_written_once_in_an_hour() {
        let hour = Timestamp(0).after(PERIOD);
        let seen = || BTreeMap::from([(id("ann"), hour), (id("gone"), hour)]);
        let written = Some(TokensUsed::new([(id("ann"), hour)].into()));
        assert_eq!(due(&state(None), seen()), written);
        assert_eq!(due(&state(Some(Timestamp(0))), seen()), written);
        assert_eq!(due(&state(Some(Timestamp(1))), seen()), None, "another node was faster");
        assert!(!is_due(Some(hour), Timestamp(5)), "a clock that was set back writes nothing");
    }
}
