//! The page of this node (ADR 0148): what a browser shows of the cluster, below `/ui`.
//!
//! A browser signs in with an operator token, or by a link that a user asked for, and gets the name of a session of this
//! node. With it each request is authorized as one with the user's own credential would be, and every page is made of rpcs
//! that are asked in the name of who asks. Must never show what its reader could not ask for over gRPC, nor change anything
//! but by the forms of actions (ADR 0154), in [`act`].

mod act;
mod answer;
mod change;
mod closer;
mod cookie;
mod earlier;
mod events;
mod form;
mod lines;
mod login;
mod origin;
mod read;
mod sessions;
mod suppose;
mod views;

use std::sync::Arc;
use std::time::Duration;

use jaco_types::{ErrorCode, Rejection};
use jaco_ui::link::{self, ACTIONS, LINES, LOGIN, LOGOUT, Link};
use jaco_ui::{Frame, Login, SignedIn, action, assets};
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Method, Request, Response, StatusCode};
use tonic::metadata::MetadataMap;
use tonic::service::Routes;

use crate::auth::connection::Caller;
use crate::gateway::{self, Rpcs};
use crate::member::Member;
use crate::service::Context;
use crate::view;

pub(crate) use self::sessions::{Session, Sessions};

/// Pages that are put together at a time. Each holds messages of up to 8 MiB.
const PAGES_MAX: usize = 4;

/// How long a request waits for one of these places.
const PATIENCE: Duration = Duration::from_millis(1500);

/// How long putting a page together may take.
const PAGE_TIME_MAX: Duration = Duration::from_secs(15);

/// What a request below `/ui` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: a stranger may see where to sign in, and with what it is shown; and who signs out may have nothing any more.
    Anyone,
    /// A credential in its body.
    Credential,
    /// What the rpcs take that a page asks.
    Identified,
}

impl Access {
    /// What a request takes.
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let (path, is_post) = (request.uri().path(), request.method() == Method::POST);
        match path {
            LOGIN if is_post => Self::Credential,
            LOGIN | LOGOUT => Self::Anyone,
            path if assets::at(path).is_some() => Self::Anyone,
            _ => Self::Identified,
        }
    }
}

/// Answers requests for the page.
#[derive(Debug, Clone)]
pub(crate) struct Ui {
    context: Context,
    services: Routes,
    sessions: Sessions,
    places: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    actions: Arc<Semaphore>,
}

impl Ui {
    /// A page of what these services say.
    pub(crate) fn new(context: Context, services: Routes, sessions: Sessions) -> Self {
        Self {
            context,
            services,
            sessions,
            places: Arc::new(Semaphore::new(PAGES_MAX)),
            listeners: Arc::new(Semaphore::new(events::LISTENERS_MAX)),
            actions: Arc::new(Semaphore::new(act::ACTIONS_MAX)),
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if head.method == Method::POST {
            return match head.uri.path() {
                LOGIN => login::sign_in(&self.context, &self.sessions, head, body).await,
                LOGOUT => login::sign_out(&self.sessions, &head, body).await,
                path if path.starts_with(ACTIONS) => act::act(self, &head, body).await,
                _ => answer::not_allowed("GET, HEAD", body).await,
            };
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return answer::not_allowed("GET, HEAD", body).await;
        }
        drop(body);
        let found = self.found(&head).await;
        if head.method == Method::HEAD { gateway::without_content(found) } else { found }
    }

    async fn found(&self, head: &Parts) -> Response<Body> {
        let path = head.uri.path();
        if let Some(asset) = assets::at(path) {
            return answer::asset(asset);
        }
        match path {
            LOGIN => {
                let next = origin::parameter(head, "next").and_then(|next| Link::wanted(&next));
                let once = origin::parameter(head, "once");
                answer::page(StatusCode::OK, login::document(&self.context, next, once).html())
            }
            // Where a browser is led that goes back to what it has sent.
            LOGOUT => answer::lead_to(&Link::login()),
            path if link::is_stream(path) => match self.stream(head).await {
                Ok(response) => response,
                Err(rejection) => answer::plain(&rejection),
            },
            _ => match self.page(head).await {
                Ok((status, html)) => answer::page(status, html),
                Err(rejection) => answer::plain(&rejection),
            },
        }
    }

    fn rpcs(&self, head: &Parts) -> Rpcs {
        Rpcs::of_sender(self.services.clone(), self.context.clone(), head)
    }

    /// What an open page is kept up to date by.
    async fn stream(&self, head: &Parts) -> Result<Response<Body>, Rejection> {
        self.context.member()?;
        let place = events::place(&self.listeners)?;
        let rpcs = self.rpcs(head);
        match head.uri.path() {
            LINES => lines::follow(&rpcs, head, place).await,
            _ => events::listen(&rpcs, head, place).await,
        }
    }

    /// A page, and what its status is.
    async fn page(&self, head: &Parts) -> Result<(StatusCode, String), Rejection> {
        let (member, frame) = self.frame(head)?;
        let places = Arc::clone(&self.places).acquire_owned();
        let place = tokio::time::timeout(PATIENCE, places).await.ok().and_then(Result::ok);
        let _place = place.ok_or_else(|| {
            let message = format!(
                "this node puts together {PAGES_MAX} pages at a time: load it again in a second, or ask another node"
            );
            Rejection::new(ErrorCode::Overloaded, message)
        })?;
        let rpcs = self.rpcs(head);
        let made = tokio::time::timeout(PAGE_TIME_MAX, views::read(&rpcs, head)).await;
        let render = made.map_err(|_| {
            let message = format!(
                "the page was not put together within {} s: this node is busy; load it again, or ask another node",
                PAGE_TIME_MAX.as_secs()
            );
            Rejection::new(ErrorCode::TimedOut, message)
        })?;
        member.gate.turn().await?.run(move || render(&frame)).await
    }

    /// What all pages of a request have in common.
    fn frame(&self, head: &Parts) -> Result<(Arc<Member>, Frame), Rejection> {
        let unknown = || {
            let message = "the listener did not say where the request came from";
            Rejection::new(ErrorCode::Internal, message)
        };
        let caller = head.extensions.get::<Caller>().ok_or_else(unknown)?;
        let headers = MetadataMap::from_headers(head.headers.clone());
        let (member, author) = self.context.identify_sender(caller, &headers)?;
        let rights = member.rights(&author)?;
        let signed_in = match head.extensions.get::<Session>() {
            Some(_) => SignedIn::Session,
            None => SignedIn::EachRequest,
        };
        let now_ms = view::millis(member.clock.now());
        let by = format!("{}, {rights}", author.by);
        let done = origin::parameter(head, "did").and_then(|name| action::done(&name));
        Ok((member, Frame { now_ms, by, rights, signed_in, done }))
    }
}

/// Whether a path belongs to the page, whether or not anything is there.
pub(crate) fn is_below(path: &str) -> bool {
    link::is_below(path)
}

/// The answer to who has no credential: where to sign in, and where that leads to. A script is told by the status.
pub(crate) fn to_login<B>(request: &Request<B>) -> Response<Body> {
    if link::is_stream(request.uri().path())
        || !matches!(*request.method(), Method::GET | Method::HEAD)
    {
        let message = "sign in at /ui/login first";
        return answer::plain(&Rejection::new(ErrorCode::Unauthenticated, message));
    }
    let wanted = request.uri().path_and_query().map_or("", |wanted| wanted.as_str());
    let next = Link::wanted(wanted).map(|next| next.to_string()).unwrap_or_default();
    answer::lead_to(&Link::login().with("next", &next))
}

/// The answer to who has shown a credential that does not count, or who cannot be answered.
pub(crate) fn refusal<B>(rejection: &Rejection, request: &Request<B>) -> Response<Body> {
    let status = gateway::status(rejection);
    if status != StatusCode::UNAUTHORIZED || link::is_stream(request.uri().path()) {
        return answer::plain(rejection);
    }
    let wanted = match *request.method() {
        Method::GET | Method::HEAD => request.uri().path_and_query().map(|wanted| wanted.as_str()),
        // A form is not sent again by signing in.
        _ => None,
    };
    let next = wanted.and_then(Link::wanted);
    let login = Login { problem: Some(rejection.message.clone()), next, offer: None };
    let mut response = answer::page(status, login.html());
    if request.extensions().get::<Session>().is_some() {
        cookie::forget(response.headers_mut());
    }
    response
}

/// Puts the credential of the session that a browser names into the place where other clients put theirs. One that shows a
/// token of its own is asked for nothing else.
pub(crate) fn resume<B>(sessions: &Sessions, request: &mut Request<B>) -> Option<Session> {
    if Access::of(request) != Access::Identified || request.headers().contains_key(AUTHORIZATION) {
        return None;
    }
    let mut caller = request.extensions().get::<Caller>()?.clone();
    let (source, _) = caller.on_network()?;
    let session = sessions.find(cookie::named(request.headers())?, source.ip())?;
    session.credential().show(&mut caller, request.headers_mut());
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(session.clone());
    Some(session)
}
