//! Links to the page of this node that sign in once.

use jaco_proto::v1;
use jaco_types::{ErrorCode, Identity, Rejection};
use jaco_ui::link::Link;
use tonic::metadata::MetadataMap;

use crate::auth::connection::Caller;
use crate::auth::credential::Credential;
use crate::auth::sign_in_links::LINK_LIFE;
use crate::member::Member;

/// Makes a link that signs a browser in with the credential of a request, which was found to count.
///
/// # Errors
/// `permission_denied` for members, which have no use for one; `internal` without random numbers.
pub(super) fn link(
    member: &Member,
    by: Identity,
    caller: &Caller,
    headers: &MetadataMap,
) -> Result<v1::IssueSignInLinkResponse, Rejection> {
    let credential = Credential::of_request(caller, headers.as_ref()).ok_or_else(|| {
        let message = "links to the page are for users: ask with an operator token, an operator's certificate, or over \
                       the unix socket of a node";
        Rejection::new(ErrorCode::PermissionDenied, message)
    })?;
    let name = member.sign_in_links.issue(credential, by)?;
    let (address, cluster) = member.store.read(|state| {
        let address = state.nodes.get(&member.id).map(|node| node.address.to_string());
        (address.unwrap_or_default(), state.meta.as_ref().map(|meta| meta.id.to_string()))
    });
    Ok(v1::IssueSignInLinkResponse {
        node: member.hostname.to_string(),
        address,
        server_name: format!("{}.internal", cluster.unwrap_or_default()),
        path: Link::login().with("once", &name).to_string(),
        valid_secs: LINK_LIFE.as_secs(),
    })
}
