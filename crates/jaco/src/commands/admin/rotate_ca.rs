//! `jaco cluster rotate-ca`

use jaco_client::{Client, fresh_request_id};
use jaco_proto::v1::{
    GetAuthorityRequest, ListTokensRequest, RotateAuthorityRequest, RotationInfo, TokenInfo,
};

use crate::session::{CommandResult, Session};
use crate::view::rotation::Rotation;

/// Replace the authority that signs certificates, in phases
///
/// The authority (CA) signs the certificates of nodes and operators. It is replaced in phases, each of which ends once
/// every member has reported; a node that is off holds the phase, and is named.
///
/// In `trusting` both authorities are trusted. The old one signs for nodes, the new one, as soon as all members trust
/// it, for operators: who has a client certificate renews it now (`jaco token renew`), or is refused at the end, and
/// an admin renews it. Contexts of operators learn the new one with their next command; who names a CA certificate by
/// a flag or a variable needs the new one, which is in `node/ca.crt` of each node's `data_dir`. With `--continue` the phase `renewing` begins: the new one signs, all
/// members renew their certificates and open their connections anew. Then the old one is dropped (`settled`).
///
/// The new authority's key is sealed by the key-encryption key. After a theft that one is replaced first
/// (`jaco cluster rotate-kek`), or the thief could open the new key as well; so this is refused where it was not, unless
/// `--with-present-kek` says that nothing was stolen.
///
/// Nothing is restarted, and no request fails.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco cluster rotate-ca                  begin: trust a new authority beside the present one
  jaco cluster rotate-ca --with-present-kek  the same, where nothing was stolen
  jaco cluster rotate-ca --status         who has done what, and who has not been seen since
  jaco cluster rotate-ca --continue       sign with the new one, and drop the old one
  jaco cluster rotate-ca --abandon        drop the new one instead")]
pub(super) struct Args {
    /// Have the new authority sign, once all members trust it
    #[arg(long = "continue", group = "action")]
    go_on: bool,
    /// Show how far the last rotation is
    #[arg(long, group = "action")]
    status: bool,
    /// Drop the new authority; possible before `--continue`
    #[arg(long, group = "action")]
    abandon: bool,
    /// Revoke join tokens that name the old authority instead of waiting for them
    #[arg(long, requires = "go_on")]
    revoke_join_tokens: bool,
    /// Seal the new authority's key with a key-encryption key that was not replaced since the present one was made
    #[arg(long, conflicts_with = "action")]
    with_present_kek: bool,
}

pub(super) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    if args.status {
        return status(session, &client).await;
    }
    let action = match (args.go_on, args.abandon) {
        (true, _) => "continue",
        (_, true) => "abandon",
        (_, _) => "begin",
    };
    let request = RotateAuthorityRequest {
        action: action.to_owned(),
        revoke_join_tokens: args.revoke_join_tokens,
        kek: if args.with_present_kek { "present" } else { "rotated" }.to_owned(),
        request_id: fresh_request_id(),
    };
    let rotation = client.rotate_authority(request).await?.rotation;
    session.done(&Rotation { info: rotation.as_ref(), unseen: None })
}

async fn status(session: &mut Session, client: &Client) -> CommandResult {
    let rotation = client.get_authority(GetAuthorityRequest {}).await?.rotation;
    // Tokens are an admin's to list; the phase is everyone's to see.
    let tokens = client.list_tokens(ListTokensRequest {}).await.ok().map(|answer| answer.tokens);
    let unseen = rotation.as_ref().zip(tokens.as_ref());
    let unseen = unseen.map(|(rotation, tokens)| unseen_since(rotation, tokens));
    session.done(&Rotation { info: rotation.as_ref(), unseen })
}

/// Operators' tokens and certificates that could be used and were not, since the rotation began.
fn unseen_since<'t>(rotation: &RotationInfo, tokens: &'t [TokenInfo]) -> Vec<&'t TokenInfo> {
    let is_usable = |token: &&TokenInfo| {
        token.role != "join"
            && token.revoked_at_ms == 0
            && (token.expires_at_ms == 0 || token.expires_at_ms > rotation.begun_at_ms)
    };
    let usable = tokens.iter().filter(is_usable);
    usable.filter(|token| token.last_used_at_ms < rotation.begun_at_ms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: who may still need the new certificate is listed: not who was seen, nor what can be used no more.
    #[test]
    fn unseen_operators_are_those_that_can_still_come() {
        let rotation = RotationInfo { begun_at_ms: 1000, ..RotationInfo::default() };
        let token =
            |id: &str, role: &str, last_used_at_ms, revoked_at_ms, expires_at_ms| TokenInfo {
                id: id.to_owned(),
                role: role.to_owned(),
                last_used_at_ms,
                revoked_at_ms,
                expires_at_ms,
                ..TokenInfo::default()
            };
        let tokens = [
            token("seen", "admin", 1000, 0, 0),
            token("never", "viewer", 0, 0, 0),
            token("before", "admin", 999, 0, 2000),
            token("revoked", "admin", 0, 5, 0),
            token("expired", "admin", 0, 0, 900),
            token("j", "join", 0, 0, 2000),
        ];
        let unseen: Vec<_> =
            unseen_since(&rotation, &tokens).into_iter().map(|one| one.id.as_str()).collect();
        assert_eq!(unseen, ["never", "before"]);
    }
}
