//! What an apply would do, and what its sender requires of that.

use jaco_controller::leader_loop::Options;
use jaco_proto::v1;
use jaco_scheduler::{PlanInput, forecast};
use jaco_state::command::SpecChange;
use jaco_state::{ClusterState, Command, Entry, Outcome, apply};
use jaco_types::{Author, ErrorCode, Rejection, Revision, StateIndex};

use crate::member::Member;
use crate::preview::{Kind, preview, survives};
use crate::status::invalid;

/// Forecasts an apply with the functions that carry it out, on a copy of the state. On a blocking thread,
/// because it may take a second.
pub(super) async fn forecast_apply(
    member: &Member,
    by: Author,
    command: Command,
) -> Result<(Revision, SpecChange, v1::Preview), Rejection> {
    let turn = member.gate.turn().await?;
    let before = member.store.read(ClusterState::for_decisions);
    let (signals, now) = (member.signals.snapshot(), member.clock.now());
    let voters = member.store.raft().status().voters;
    let Author { by, origin } = by;
    let work = move || {
        let mut state = before.clone();
        // An apply that needs it was found to be understood by all members, and begins it.
        state.edges.begun.get_or_insert(state.index);
        let index = StateIndex(state.index.0 + 1);
        let outcome =
            apply(&mut state, &Entry { index, at: now, by, origin, request: None, command });
        let (revision, change) = match outcome {
            Outcome::Deployed { revision, change } => (revision, change),
            Outcome::Rejected(rejection) => return Err(rejection),
            Outcome::Done | Outcome::NodeAdmitted { .. } => {
                return Err(invalid("the request is no apply"));
            }
        };
        let config = Options::default().planner;
        let input = PlanInput { state: &state, signals: &signals, now, config: &config };
        Ok((revision, change, preview(&before, &forecast(&input), &config, &voters)))
    };
    turn.run(work).await?
}

/// Checks the sender's requirements against the preview.
pub(super) fn check_preview(
    request: &v1::ApplyRequest,
    preview: &v1::Preview,
) -> Result<(), Rejection> {
    let v1::ApplyRequest { expected_digest, require_survive, .. } = request;
    if !expected_digest.is_empty() && *expected_digest != preview.digest {
        let message = "the cluster has changed since the plan was made, so that the apply would have another \
                       effect: make and review a new plan";
        return Err(Rejection::new(ErrorCode::StalePlan, message));
    }
    match required(require_survive)? {
        Some(kind) => survives(preview, kind),
        None => Ok(()),
    }
}

/// The required survival, if there is one.
pub(super) fn required(text: &str) -> Result<Option<Kind>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    let kind = Kind::parse(text).ok_or_else(|| {
        invalid(format!("require_survive is {text:?}: write \"node\" or \"zone\""))
    })?;
    Ok(Some(kind))
}
