//! Signing in and out.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use jaco_types::{ErrorCode, Identity, Rejection, TokenId};
use jaco_ui::link::Link;
use jaco_ui::{Login, SignedOut};
use tonic::body::Body;
use tonic::codegen::http::header::{AUTHORIZATION, HeaderValue};
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{HeaderMap, Response, StatusCode};
use tonic::metadata::MetadataMap;

use super::sessions::Sessions;
use super::{answer, cookie, origin};
use crate::auth::connection::Caller;
use crate::gateway;
use crate::service::Context;
use crate::status::invalid;
use crate::unwanted;

/// Bytes of a form. A token has less than a hundred.
const FORM_BYTES_MAX: usize = 4 << 10;

/// How long a form may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);

/// What every page needs.
const LEAST: &str = "/jaco.v1.Query/Overview";

/// What was filled in.
#[derive(Debug, Default)]
struct Form {
    token: String,
    next: Option<Link>,
}

/// Begins a session for who shows a token that counts. One that does not is refused, audited and answered as with every
/// other request.
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
    let form = match form(body).await {
        Ok(form) => form,
        Err(rejection) => return answer::plain(&rejection),
    };
    let signed_in = accepted(context, &head, &form.token)
        .and_then(|(bearer, token, from)| sessions.begin(bearer, token, from));
    match signed_in {
        Ok(secret) => {
            if let Some(former) = cookie::named(&head.headers) {
                sessions.end_named(former);
            }
            let next = form.next.unwrap_or_else(Link::overview);
            let mut response = answer::lead_to(&next);
            cookie::remember(&secret, response.headers_mut());
            response
        }
        Err(rejection) => {
            let status = gateway::status(&rejection);
            let login = Login { problem: Some(rejection.message), next: form.next };
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

async fn form(body: Body) -> Result<Form, Rejection> {
    let read = tokio::time::timeout(PATIENCE, Limited::new(body, FORM_BYTES_MAX).collect()).await;
    let late = || Rejection::new(ErrorCode::TimedOut, "the form took too long to arrive");
    let bytes = read
        .map_err(|_| late())?
        .map_err(|_| invalid(format!("the form has at most {FORM_BYTES_MAX} bytes")))?
        .to_bytes();
    let mut form = Form::default();
    for (name, value) in form_urlencoded::parse(&bytes) {
        match name.as_ref() {
            "token" => value.trim().clone_into(&mut form.token),
            "next" => form.next = Link::wanted(&value),
            _ => {}
        }
    }
    Ok(form)
}

/// The token as clients show it, its name, and where it came from.
fn accepted(
    context: &Context,
    head: &Parts,
    token: &str,
) -> Result<(HeaderValue, TokenId, IpAddr), Rejection> {
    let Some(caller @ Caller::Tls { source, standing, .. }) = head.extensions.get::<Caller>()
    else {
        return Err(invalid(
            "over the socket there is nothing to sign in for: open /ui".to_owned(),
        ));
    };
    let malformed = || {
        let message = "what was filled in is no operator token: it begins with jo1.";
        Rejection::new(ErrorCode::TokenInvalid, message)
    };
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| malformed())?;
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, bearer.clone());
    let (member, author) = context.identify_sender(caller, &MetadataMap::from_headers(headers))?;
    member.admit_rpc(&author, LEAST)?;
    let Identity::Operator { token } = author.by else { return Err(malformed()) };
    standing.prove();
    Ok((bearer, token, source.ip()))
}
