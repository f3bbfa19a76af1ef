//! What the services share: the member behind them, authentication, and the way to the leader.

use std::sync::Arc;

use jaco_proto::rpc::LeaderRpc;
use jaco_types::{Author, ErrorCode, Identity, Rejection, Timestamp, TokenId};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::upgraded;
use crate::auth;
use crate::auth::connection::Caller;
use crate::auth::uses;
use crate::forward::{self, LeaderRead, Write};
use crate::member::{Member, Stage};
use crate::status::to_status;
use crate::traced;

/// What every service is made of.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    stage: Stage,
}

impl Context {
    /// A context over this node.
    #[must_use]
    pub(crate) fn new(stage: Stage) -> Self {
        Self { stage }
    }

    /// This node as a member.
    ///
    /// # Errors
    /// `cluster_uninitialized` before it is a member.
    pub(crate) fn member(&self) -> Result<Arc<Member>, Rejection> {
        self.stage.load_full().ok_or_else(|| {
            let message = "this node is in no cluster yet: run `jaco cluster init` to create one, or \
                           `jaco cluster join` with a token of an existing one";
            Rejection::new(ErrorCode::ClusterUninitialized, message)
        })
    }

    /// This node as a member, and the authenticated sender of this request. A refusal is audited.
    ///
    /// # Errors
    /// When there is no cluster yet, or the sender has no valid credential.
    pub(crate) fn identify<T>(
        &self,
        request: &Request<T>,
    ) -> Result<(Arc<Member>, Author), Status> {
        let caller = auth::caller(request)?;
        let identified = self.identify_sender(caller, request.metadata());
        identified.map_err(|rejection| to_status(&rejection))
    }

    /// As [`Context::identify`], of what a connection and the headers of a request prove.
    pub(crate) fn identify_sender(
        &self,
        caller: &Caller,
        headers: &MetadataMap,
    ) -> Result<(Arc<Member>, Author), Rejection> {
        let member = self.member()?;
        let now = member.clock.now();
        match member.store.read(|state| auth::identify(state, caller, headers, now)) {
            Ok(by) => {
                if let Identity::Operator { token } = &by {
                    note_use(&member, token, now);
                }
                let origin = Some(auth::asked_from(caller, member.id));
                Ok((member, Author { by, origin }))
            }
            // Its token may be in what this node has not applied yet.
            Err(rejection)
                if rejection.code == ErrorCode::TokenInvalid
                    && member.freshness().knows_nothing() =>
            {
                Err(member.not_caught_up())
            }
            Err(rejection) => {
                member.refusals.note(&auth::address(caller), &Identity::Anonymous, &rejection);
                Err(rejection)
            }
        }
    }

    /// Authenticates the sender of a write and executes it on the leader.
    pub(super) async fn write<W: Write>(
        &self,
        request: Request<W>,
    ) -> Result<Response<W::Response>, Status> {
        let (member, by) = self.identify(&request)?;
        let (headers, _, mut request) = request.into_parts();
        let received = traced::received(member.tracer.as_ref(), &headers, &mut request);
        let answer = forward::write(&member, by, request).await;
        if let Some(received) = received {
            received.answered(&answer);
        }
        answer.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    /// Authenticates the sender of a question and answers it on the leader.
    pub(super) async fn leader_read<R: LeaderRead>(
        &self,
        request: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        let (member, by) = self.identify(&request)?;
        let answer = forward::leader_read(&member, by, request.into_inner()).await;
        answer.map(Response::new).map_err(|rejection| to_status(&rejection))
    }
}

/// Notes the use of a token for the list of tokens.
fn note_use(member: &Member, token: &TokenId, now: Timestamp) {
    let is_due = member.store.read(|state| {
        let known = state.operator_tokens.get(token);
        known.is_some_and(|known| uses::is_due(known.last_used_at, now))
            && upgraded::uses_may_begin(state)
    });
    if is_due {
        member.uses.note(token, now);
    }
}

/// What a method returns for a request that the leader executes.
pub(super) type Answer<R> = Result<Response<<R as LeaderRpc>::Response>, Status>;

/// The methods of a service for the rpcs that the leader executes, as `async_trait` would write them:
/// `jaco_proto::leader_methods!(Cluster, on_leader)`.
macro_rules! on_leader {
    ($($kind:ident $method:ident($request:ident);)*) => {$(
        fn $method<'s, 'f>(
            &'s self,
            request: tonic::Request<jaco_proto::v1::$request>,
        ) -> futures::future::BoxFuture<'f, $crate::service::context::Answer<jaco_proto::v1::$request>>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(self.context.$kind(request))
        }
    )*};
}
pub(super) use on_leader;
