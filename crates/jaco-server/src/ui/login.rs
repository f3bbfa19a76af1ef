//! Signing in, by a token or by a link, and out.

use jaco_types::{ErrorCode, Rejection};
use jaco_ui::link::Link;
use jaco_ui::{Login, Offer, SignedOut};
use tonic::body::Body;
use tonic::codegen::http::header::HeaderValue;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{HeaderMap, Response, StatusCode};
use tonic::metadata::MetadataMap;

use super::form::Form;
use super::sessions::Sessions;
use super::{answer, cookie, origin};
use crate::auth::connection::Caller;
use crate::auth::credential::Credential;
use crate::auth::sign_in_links::LINK_LIFE;
use crate::gateway;
use crate::service::Context;
use crate::status::invalid;
use crate::unwanted;

/// What every page needs.
const LEAST: &str = "/jaco.v1.Query/Overview";

/// What was filled in.
#[derive(Debug)]
enum Shown {
    Token(String),
    /// What is secret of a link.
    Link(String),
}

/// The page to sign in on; with a link that is good, it asks for nothing but to confirm.
pub(super) fn document(context: &Context, next: Option<Link>, once: Option<String>) -> Login {
    let Some(once) = once else { return Login { next, ..Login::default() } };
    let member = context.member().ok();
    let offered = member.as_ref().and_then(|member| {
        let by = member.sign_in_links.look(&once)?;
        Some((by.to_string(), member.hostname.to_string()))
    });
    match offered {
        Some((by, node)) => {
            Login { problem: None, next, offer: Some(Offer { by, node, secret: once }) }
        }
        None => Login { problem: Some(link_is_over().message), next, offer: None },
    }
}

/// Begins a session for who shows a token or a link that counts. What does not is refused, audited and answered as with
/// every other request.
pub(super) async fn sign_in(
    context: &Context,
    sessions: &Sessions,
    head: Parts,
    body: Body,
) -> Response<Body> {
    if !origin::is_own(&head) {
        unwanted::discard(body).await;
        return answer::of_another_site();
    }
    let form = match Form::read(body).await {
        Ok(form) => form,
        Err(rejection) => return answer::plain(&rejection),
    };
    let next = form.field("next").and_then(|next| Link::wanted(&next));
    let signed_in = credential(context, shown(&form))
        .and_then(|credential| begin(context, sessions, &head, credential));
    match signed_in {
        Ok(secret) => {
            if let Some(former) = cookie::named(&head.headers) {
                sessions.end_named(former);
            }
            let next = next.unwrap_or_else(Link::overview);
            let mut response = answer::lead_to(&next);
            cookie::remember(&secret, response.headers_mut());
            response
        }
        Err(rejection) => {
            let status = gateway::status(&rejection);
            let login = Login { problem: Some(rejection.message), next, offer: None };
            answer::page(status, login.html())
        }
    }
}

/// Ends the session that the browser names.
pub(super) async fn sign_out(sessions: &Sessions, head: &Parts, body: Body) -> Response<Body> {
    unwanted::discard(body).await;
    if !origin::is_own(head) {
        return answer::of_another_site();
    }
    if let Some(name) = cookie::named(&head.headers) {
        sessions.end_named(name);
    }
    let mut response = answer::page(StatusCode::OK, SignedOut.html());
    cookie::forget(response.headers_mut());
    response
}

fn shown(form: &Form) -> Shown {
    match form.field("once") {
        Some(secret) => Shown::Link(secret),
        None => Shown::Token(form.field("token").unwrap_or_default()),
    }
}

/// The credential that was filled in, or that a link stands for, which is used up by this.
fn credential(context: &Context, shown: Shown) -> Result<Credential, Rejection> {
    match shown {
        Shown::Link(secret) => {
            let offer = context.member()?.sign_in_links.take(&secret).ok_or_else(link_is_over)?;
            Ok(offer.credential)
        }
        Shown::Token(token) => {
            let bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                let message = "what was filled in is no operator token: it begins with jo1.";
                Rejection::new(ErrorCode::TokenInvalid, message)
            })?;
            Ok(Credential::Token(bearer))
        }
    }
}

/// Begins a session if a credential counts for every page, and returns its name.
fn begin(
    context: &Context,
    sessions: &Sessions,
    head: &Parts,
    mut credential: Credential,
) -> Result<String, Rejection> {
    let over_the_socket =
        || invalid("over the socket there is nothing to sign in for: open /ui".to_owned());
    let connection = head.extensions.get::<Caller>().ok_or_else(over_the_socket)?;
    let (source, standing) = connection.on_network().ok_or_else(over_the_socket)?;
    if let Credential::Token(token) = &mut credential {
        token.set_sensitive(true);
    }
    let (mut caller, mut headers) = (connection.clone(), HeaderMap::new());
    credential.show(&mut caller, &mut headers);
    let (member, author) = context.identify_sender(&caller, &MetadataMap::from_headers(headers))?;
    member.admit_rpc(&author, LEAST)?;
    standing.prove();
    sessions.begin(credential, author.by, source.ip())
}

fn link_is_over() -> Rejection {
    let message = format!(
        "the link was used already, is older than {} minutes, or is of another node: `jaco ui` makes a new one",
        LINK_LIFE.as_secs() / 60
    );
    Rejection::new(ErrorCode::Unauthenticated, message)
}
