//! Reads and writes of volumes: here, or on the node that has them.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use jaco_agent::engine::{EngineError, ExistingVolume, HeldVolume, VolumeAccess, VolumeTarget};
use jaco_proto::v1;
use jaco_proto::v1::volume_input::Input;
use jaco_proto::v1::volume_output::Output;
use jaco_state::audit::AuditKind;
use jaco_types::{Author, ErrorCode, Rejection};
use tonic::{Request, Status, Streaming};

use super::Answers;
use super::place::{Place, require_none};
use crate::member::Member;
use crate::service::archive::{self, Part};
use crate::service::exec::joined;
use crate::status::{invalid, to_status};

/// Sends what is in a volume.
pub(super) async fn read(
    member: &Arc<Member>,
    by: Author,
    request: v1::ReadVolumeRequest,
) -> Result<Answers, Status> {
    let status = |rejection: Rejection| to_status(&rejection);
    let live = Live::parse(&request.in_use).map_err(status)?;
    let asked = (&*request.deployment, &*request.volume, &*request.node);
    let place = Place::of(member, &by, asked).await.map_err(status)?;
    if !place.is_here(member) {
        place.audit(member, by, AuditKind::VolumeRead, live.allowed()).await.map_err(status)?;
        let request = v1::ReadVolumeRequest { node: place.hostname(member), ..request };
        let (node, address) = place.address(member)?;
        let mut client = member.peers.volume_reads(node, &address);
        let answer = client.read_volume(Request::new(request)).await;
        let answer = answer.map_err(|status| place.unreachable(member, &status))?;
        return Ok(Box::pin(answer.into_inner()));
    }
    let held = place.held(member).await.map_err(status)?;
    let held = held.ok_or_else(|| status(place.absent("the node does not have it")))?;
    let writers = held.mounts.iter().filter(|mount| mount.access == VolumeAccess::Writes);
    match live {
        Live::Refuse => require_none(writers, "read").map_err(status)?,
        Live::Allow => {}
    }
    place.audit(member, by, AuditKind::VolumeRead, live.allowed()).await.map_err(status)?;
    let archive = member.agent.read_volume(&held.name).await.map_err(|error| refused(&error))?;
    let pieces = archive::messages(archive, archived, refused);
    let first = started(member, &held.key, &held.name);
    let whole = stream::iter([Ok(first)]).chain(pieces);
    Ok(Box::pin(whole.chain(stream::iter([Ok(end())]))))
}

/// Makes a volume of the archive that follows.
pub(super) async fn write(
    member: &Arc<Member>,
    by: Author,
    start: v1::WriteVolumeStart,
    inputs: Streaming<v1::VolumeInput>,
) -> Result<Answers, Status> {
    let status = |rejection: Rejection| to_status(&rejection);
    let existing = existing(&start.existing).map_err(status)?;
    let allowed = (existing == ExistingVolume::Replace).then_some(("existing", "replace"));
    let asked = (&*start.deployment, &*start.volume, &*start.node);
    let place = Place::of(member, &by, asked).await.map_err(status)?;
    if !place.is_here(member) {
        place.audit(member, by, AuditKind::VolumeWrite, allowed).await.map_err(status)?;
        let start = v1::WriteVolumeStart { node: place.hostname(member), ..start };
        let first = v1::VolumeInput { input: Some(Input::Start(start)) };
        let (node, address) = place.address(member)?;
        let mut client = member.peers.volume_writes(node, &address);
        let answer = client.write_volume(Request::new(joined(first, inputs))).await;
        let answer = answer.map_err(|status| place.unreachable(member, &status))?;
        return Ok(Box::pin(answer.into_inner()));
    }
    let held = place.held(member).await.map_err(status)?;
    let target = match &held {
        Some(held) => replacing(held, existing).map_err(status)?,
        None => place.declared(member).map_err(status)?,
    };
    place.audit(member, by, AuditKind::VolumeWrite, allowed).await.map_err(status)?;
    let first = started(member, &start.volume, &target.name);
    let member = Arc::clone(member);
    let written = async move {
        let written = member.agent.write_volume(&target, archive::received(inputs, part)).await;
        written.map_err(|error| refused(&error))?;
        // Whatever has mounted it meanwhile saw a part of it.
        let held = place.held(&member).await.map_err(status)?;
        let mounts = held.map(|held| held.mounts).unwrap_or_default();
        require_none(&mounts, "written").map_err(status)?;
        Ok(end())
    };
    Ok(Box::pin(stream::iter([Ok(first)]).chain(stream::once(written))))
}

/// What becomes of a read while a container may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Live {
    Refuse,
    Allow,
}

impl Live {
    fn parse(word: &str) -> Result<Self, Rejection> {
        match word {
            "" | "refuse" => Ok(Self::Refuse),
            "allow" => Ok(Self::Allow),
            other => Err(invalid(format!("{other:?} is neither refuse nor allow"))),
        }
    }

    /// For the audit log.
    fn allowed(self) -> Option<(&'static str, &'static str)> {
        (self == Self::Allow).then_some(("in_use", "allow"))
    }
}

/// What becomes of a volume that the node has, by the word of a request.
fn existing(word: &str) -> Result<ExistingVolume, Rejection> {
    match word {
        "" | "refuse" => Ok(ExistingVolume::Refuse),
        "replace" => Ok(ExistingVolume::Replace),
        other => Err(invalid(format!("{other:?} is neither refuse nor replace"))),
    }
}

/// A volume that the node has, as one to be written.
fn replacing(held: &HeldVolume, existing: ExistingVolume) -> Result<VolumeTarget, Rejection> {
    if existing == ExistingVolume::Refuse {
        let message = format!("the node has a volume {}/{} already", held.deployment, held.key);
        return Err(Rejection::new(ErrorCode::VolumeExists, message));
    }
    require_none(&held.mounts, "written")?;
    let (deployment, name) = (held.deployment.clone(), held.name.clone());
    Ok(VolumeTarget { deployment, name, existing })
}

fn part(input: v1::VolumeInput) -> Part {
    match input.input {
        Some(Input::Archive(piece)) => Part::Piece(piece),
        Some(Input::End(v1::VolumeEnd {})) => Part::End,
        _ => Part::Other,
    }
}

fn started(member: &Member, volume: &str, engine_name: &str) -> v1::VolumeOutput {
    let started = v1::VolumeStarted {
        node: member.hostname.to_string(),
        volume: volume.to_owned(),
        engine_name: engine_name.to_owned(),
    };
    v1::VolumeOutput { output: Some(Output::Started(started)) }
}

fn archived(piece: Bytes) -> v1::VolumeOutput {
    v1::VolumeOutput { output: Some(Output::Archive(piece)) }
}

fn end() -> v1::VolumeOutput {
    v1::VolumeOutput { output: Some(Output::End(v1::VolumeEnd {})) }
}

fn refused(error: &EngineError) -> Status {
    let message = format!("the volume could not be copied: {error}");
    to_status(&Rejection::new(ErrorCode::EngineError, message))
}
