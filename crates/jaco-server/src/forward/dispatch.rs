//! From the name of a forwarded method to the code that executes it.

use bytes::Bytes;
use jaco_proto::rpc::LeaderRpc;
use jaco_proto::{storage, v1};
use jaco_types::Rejection;

use super::{LeaderRead, Write, here};
use crate::member::Member;
use crate::status::invalid;

macro_rules! dispatch {
    ($($kind:ident $request:ident;)*) => {
        /// Executes a request that another member forwarded.
        ///
        /// # Errors
        /// The refusal of the request, `no_leader` if this node does not lead, or `invalid_request` for a
        /// method that is not forwarded.
        pub(crate) async fn execute_forwarded(
            member: &Member,
            message: v1::ForwardRequest,
        ) -> Result<Bytes, Rejection> {
            let by = storage::decode_author(&message.identity).map_err(invalid)?;
            let body = &message.body;
            match message.method.as_str() {
                $(v1::$request::METHOD => {
                    here::<v1::$request>(member, by, body, execute!($kind)).await
                })*
                unknown => Err(invalid(format!(
                    "method {unknown:?} cannot be forwarded: the node that sent it runs another version; \
                     upgrade all nodes to the same one"
                ))),
            }
        }
    };
}

macro_rules! execute {
    (write) => {
        |request, member, by| Write::execute(request, member, by)
    };
    (leader_read) => {
        |request, member, _| LeaderRead::answer(request, member)
    };
}

jaco_proto::leader_rpcs!(dispatch);
