//! The rpcs of `jaco.v1` as their options declare them (`proto/jaco/v1/options.proto`), generated from
//! the descriptor.

use prost::Message;

use crate::v1;
use crate::v1::{Access, Handling};

/// Header of responses that may not be current: how long the node has had no contact with a quorum, in
/// milliseconds.
pub const STALE_MS: &str = "jaco-stale-ms";

/// Header of responses that may not be current: the host name of the node that answered.
pub const STALE_NODE: &str = "jaco-stale-node";

/// Header of responses to operators: which authorities the node trusts, as `TrustBundle::digest` names them.
pub const AUTHORITIES: &str = "jaco-authorities";

/// What an rpc declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    /// The full name, for example `/jaco.v1.Deploy/Apply`.
    pub method: &'static str,
    /// Which node executes it.
    pub handling: Handling,
    /// Which credential it needs.
    pub access: Access,
    /// Whether it takes a stream of requests.
    pub client_streaming: bool,
    /// Whether it gives a stream of responses.
    pub server_streaming: bool,
}

/// A request that the leader executes, whichever node receives it.
pub trait LeaderRpc: Message + Default + Clone + Send + Sync + 'static {
    /// The full name of the rpc, under which the request is forwarded.
    const METHOD: &'static str;

    /// What the caller gets.
    type Response: Message + Default;

    /// The id under which a repeated request is executed once; `None` for requests that have none,
    /// because repeating them is harmless or must not be answered with the first outcome.
    fn request_id_mut(&mut self) -> Option<&mut String>;

    /// The place of the request in a trace, as the header `traceparent` of W3C Trace Context; `None` for requests that are
    /// not traced.
    fn traceparent_mut(&mut self) -> Option<&mut String>;
}

include!(concat!(env!("OUT_DIR"), "/rpc.rs"));
