//! Commands that others overtake between what was read and what was changed.

use std::time::Duration;

use jaco_client::ClientError;
use jaco_types::ErrorCode;

use crate::error::CliError;
use crate::session::Session;

/// Attempts until a change that others keep overtaking is given up.
const ATTEMPTS_MAX: u32 = 10;

/// The pause between attempts: a follower may not have the newest state yet.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Makes a change, and makes it again from what is there then if another one came in between. Each attempt needs a request
/// id of its own: a refusal is remembered like any outcome.
///
/// # Errors
/// Those of `attempt`; `stale_plan` only if others kept overtaking it.
pub(crate) async fn unless_overtaken<T>(
    session: &mut Session,
    attempt: impl AsyncFn(&mut Session) -> Result<T, CliError>,
) -> Result<T, CliError> {
    for _ in 1..ATTEMPTS_MAX {
        match attempt(session).await {
            Err(CliError::Client(ClientError::Refused(refusal)))
                if refusal.code == ErrorCode::StalePlan =>
            {
                session.ui.note(&format!("{}; trying again", refusal.message));
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            done => return done,
        }
    }
    attempt(session).await
}
