//! Forms of actions: from this node's pages only, done once, and answered by a page or by the way to one.

use std::sync::Arc;
use std::time::Duration;

use jaco_types::{ErrorCode, Rejection, RequestId};
use jaco_ui::action::Action;
use jaco_ui::link::ACTIONS;
use jaco_ui::{ActionPage, BASED_ON, Once, Outcome, REQUEST_ID, TYPED};
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::codegen::http::request::Parts;

use super::form::Form;
use super::read::{Render, cluster, in_words, problem, with_cluster};
use super::{Ui, answer, change, origin};
use crate::gateway::{self, Rpcs};
use crate::status::invalid;
use crate::unwanted;

/// Actions that are done at a time. Each may hold a stored deployment.
pub(super) const ACTIONS_MAX: usize = 4;

/// How long an action may take, elections included.
const ACTION_TIME_MAX: Duration = Duration::from_secs(15);

/// Does what a form asks for. Whoever sends it: a browser shows a certificate, or comes through a socket that is carried to
/// it, without being asked, as it shows a cookie.
pub(super) async fn act(ui: &Ui, head: &Parts, body: Body) -> Response<Body> {
    if !origin::is_own(head) {
        unwanted::discard(body).await;
        return answer::of_another_site();
    }
    let acted = async { acted(ui, head, &Form::read(body).await?).await };
    acted.await.unwrap_or_else(|rejection| answer::plain(&rejection))
}

async fn acted(ui: &Ui, head: &Parts, form: &Form) -> Result<Response<Body>, Rejection> {
    let (member, frame) = ui.frame(head)?;
    let rpcs = ui.rpcs(head);
    let name = head.uri.path().strip_prefix(ACTIONS).unwrap_or_default();
    let page: Render = match Action::read(name, &|field| form.field(field)) {
        Err(message) => {
            let refused = invalid(message);
            Box::new(move |frame| problem("No action".to_owned(), &refused, None, frame))
        }
        Ok(action) => match done(ui, &rpcs, &action, form).await {
            Ok(()) => return Ok(answer::lead_to(&action.result())),
            Err(not_done) => not_done.page(&rpcs, action).await,
        },
    };
    let (status, html) = member.gate.turn().await?.run(move || page(&frame)).await?;
    Ok(answer::page(status, html))
}

/// Why an action was not done, what is known of it, and the form if it may be sent again.
struct NotDone {
    why: Rejection,
    outcome: Outcome,
    once: Option<Once>,
}

impl NotDone {
    /// Nothing was done, and nothing will be by this form.
    fn at_all(why: Rejection) -> Self {
        Self { why, outcome: Outcome::Nothing, once: None }
    }

    async fn page(self, rpcs: &Rpcs, action: Action) -> Render {
        let Self { why, outcome, once } = self;
        with_cluster(action.title(), cluster(rpcs).await, move |cluster, frame| {
            let refused = Some((in_words(&why), outcome));
            let page = ActionPage { cluster, action: &action, plan: None, refused, once };
            (gateway::status(&why), page.html(frame))
        })
    }
}

async fn done(ui: &Ui, rpcs: &Rpcs, action: &Action, form: &Form) -> Result<(), NotDone> {
    let once = once(form).map_err(NotDone::at_all)?;
    if action.typed().is_some_and(|name| form.field(TYPED).as_deref() != Some(name)) {
        let message = "what was typed is not the name: it has to be typed to confirm this";
        let (why, outcome) = (invalid(message), Outcome::Nothing);
        return Err(NotDone { why, outcome, once: Some(once) });
    }
    let _place = Arc::clone(&ui.actions).try_acquire_owned().map_err(|_| {
        let message =
            format!("this node does {ACTIONS_MAX} actions at a time: send it again in a second");
        let (why, once) = (Rejection::new(ErrorCode::Overloaded, message), Some(once.clone()));
        NotDone { why, outcome: Outcome::Nothing, once }
    })?;
    let performed = tokio::time::timeout(ACTION_TIME_MAX, change::perform(rpcs, action, &once));
    let performed = performed.await.unwrap_or_else(|_| {
        let message = format!("no answer came within {} s", ACTION_TIME_MAX.as_secs());
        Err(Rejection::new(ErrorCode::TimedOut, message))
    });
    performed.map_err(|why| match change::is_unknown(&why) {
        true => NotDone { why, outcome: Outcome::Unknown, once: Some(once) },
        false => NotDone::at_all(why),
    })
}

/// What makes the form one request.
///
/// # Errors
/// `invalid_request` if it has no id: sent twice, it would be done twice.
fn once(form: &Form) -> Result<Once, Rejection> {
    let missing = || invalid("the form has no request id: load its page again");
    let request_id = form.field(REQUEST_ID).ok_or_else(missing)?;
    RequestId::new(&request_id).map_err(invalid)?;
    let based_on = form.field(BASED_ON).map_or(Ok(0), |text| text.parse());
    let based_on = based_on.map_err(|_| invalid(format!("{BASED_ON} is a number")))?;
    Ok(Once { request_id, based_on })
}
