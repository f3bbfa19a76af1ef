//! The gRPC services, one file each.

mod backup;
pub mod cluster;
mod collect;
mod constraints;
pub mod contents;
pub mod deploy;
mod disabled;
mod events;
mod examine;
pub mod exec;
mod facts;
pub mod logs;
mod named;
mod noted;
pub mod peer;
pub mod planner;
mod pressure;
pub mod query;
mod registries;
mod retention;
pub mod revision;
pub mod routing;
mod shipped;

use std::net::SocketAddr;
use std::sync::Arc;

use jaco_types::{Author, ErrorCode, NodeId, Origin, Rejection};
use tonic::{Request, Status};

use crate::auth;
use crate::connection::Caller;
use crate::member::{Member, Stage};
use crate::status::to_status;

/// What every service needs to answer anything.
#[derive(Debug, Clone)]
pub struct Context {
    stage: Stage,
}

impl Context {
    /// A context over this stage of life.
    #[must_use]
    pub fn new(stage: Stage) -> Self {
        Self { stage }
    }

    /// The member that this node is.
    ///
    /// # Errors
    /// `cluster_uninitialized` before it is one.
    pub fn member(&self) -> Result<Arc<Member>, Rejection> {
        self.stage.load_full().ok_or_else(|| {
            let message = "this daemon has no cluster yet: run `jaco cluster init`, or \
                           `jaco cluster join` with a token of an existing one";
            Rejection::new(ErrorCode::ClusterUninitialized, message)
        })
    }

    /// The member that this node is, and who sends it this request. A refusal is noted for the
    /// audit log.
    ///
    /// # Errors
    /// When there is no cluster yet, or the sender proves nothing that lets it in.
    pub fn identify<T>(&self, request: &Request<T>) -> Result<(Arc<Member>, Author), Status> {
        let member = self.member().map_err(|rejection| to_status(&rejection))?;
        let caller = caller(request)?;
        let now = member.clock.now();
        let who = member.store.read(|state| auth::identify(state, caller, request.metadata(), now));
        match who {
            Ok(by) => {
                let origin = Some(asked_from(caller, member.id));
                Ok((member, Author { by, origin }))
            }
            Err(rejection) => {
                member.refusals.note(&origin(caller), &rejection);
                Err(to_status(&rejection))
            }
        }
    }
}

/// What the connection of a request proves.
///
/// # Errors
/// `internal` if the listener did not say; it always does.
pub fn caller<T>(request: &Request<T>) -> Result<&Caller, Status> {
    let missing = || Status::internal("the listener did not say where the request came from");
    request.extensions().get::<Caller>().ok_or_else(missing)
}

/// Where a request came from, for the audit log of the member that took it.
pub(crate) fn asked_from(caller: &Caller, node: NodeId) -> Origin {
    match caller {
        Caller::Unix { uid } => Origin::Socket { uid: *uid, node },
        // Without what only this machine understands, as the scope of an address.
        Caller::Tls { source, .. } => {
            Origin::Address { address: SocketAddr::new(source.ip(), source.port()), node }
        }
    }
}

/// Where a request came from, for people.
#[must_use]
pub fn origin(caller: &Caller) -> String {
    match caller {
        Caller::Unix { uid } => format!("unix socket, uid {uid}"),
        Caller::Tls { source, .. } => source.ip().to_string(),
    }
}
