//! `jaco cluster rotate-kek`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{GetKekRotationRequest, RotateKekRequest};

use crate::session::{CommandResult, Session};
use crate::view::kek_rotation::KekRotation;

/// Replace the key that seals secrets and private keys, in phases
///
/// The key-encryption key seals secrets, passwords of registries, private keys of certificates and of the authority. Each
/// node has it in a file of its own; it is never replicated. It is replaced in phases, each of which ends by itself once
/// every member has reported; a node that is off holds the phase, and is named.
///
/// In `handing_out` every member gets the new key from one that has it. In `resealing` the new key seals, and everything
/// that the old one has sealed is sealed anew. In `settled` nothing needs the old key, and each member deletes it, and
/// snapshots and log entries of before.
///
/// Nothing is restarted, and no request fails. After a theft this comes after the removal of the stolen node and before
/// `jaco cluster rotate-ca`; what was sealed has to be changed at its source as well.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco cluster rotate-kek                 begin; the rest goes by itself
  jaco cluster rotate-kek --status        which phase it is in, and who is waited for
  jaco cluster rotate-kek --abandon       go back to the old key; possible in handing_out")]
pub(super) struct Args {
    /// Show how far the last rotation is
    #[arg(long, group = "action")]
    status: bool,
    /// Drop the new key; possible as long as nothing is sealed with it
    #[arg(long, group = "action")]
    abandon: bool,
}

pub(super) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    let rotation = match (args.status, args.abandon) {
        (true, _) => client.get_kek_rotation(GetKekRotationRequest {}).await?.rotation,
        (_, abandon) => {
            let action = if abandon { "abandon" } else { "begin" }.to_owned();
            let request = RotateKekRequest { action, request_id: fresh_request_id() };
            client.rotate_kek(request).await?.rotation
        }
    };
    session.done(&KekRotation { info: rotation.as_ref() })
}
