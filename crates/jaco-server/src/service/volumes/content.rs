//! Reads and writes of volumes: here, or on the node that has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, stream};
use jaco_agent::engine::{EngineError, ExistingVolume, HeldVolume, VolumeAccess, VolumeTarget};
use jaco_agent::transfer::ArchiveInput;
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

/// How often it is told how far a copy from another node is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

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

/// Makes a volume of the archive that follows, or of the same volume on another node.
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
    let source = Source::of(member, &start, &place).await.map_err(status)?;
    if let Some(source) = &source {
        source
            .place
            .audit(member, by.clone(), AuditKind::VolumeRead, None)
            .await
            .map_err(status)?;
    }
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
    let archive = match source {
        Some(source) => source.archive(member).await?,
        None => archive::received(inputs, part),
    };
    let (archive, copied) = counted(archive);
    let member = Arc::clone(member);
    let written = async move {
        member.agent.write_volume(&target, archive).await.map_err(|error| refused(&error))?;
        // Whatever has mounted it meanwhile saw a part of it.
        let held = place.held(&member).await.map_err(status)?;
        let mounts = held.map(|held| held.mounts).unwrap_or_default();
        require_none(&mounts, "written").map_err(status)?;
        Ok(end())
    };
    let tells = if start.from.is_empty() { None } else { Some(copied) };
    Ok(Box::pin(stream::iter([Ok(first)]).chain(told(written.boxed(), tells))))
}

/// The volume on another node that is copied.
struct Source {
    place: Place,
}

impl Source {
    /// That of a request, if it names one.
    async fn of(
        member: &Member,
        start: &v1::WriteVolumeStart,
        target: &Place,
    ) -> Result<Option<Self>, Rejection> {
        if start.from.is_empty() {
            return Ok(None);
        }
        let asked = (&*start.deployment, &*start.volume, &*start.from);
        let place = Place::find(member, asked).await?;
        if place.node() == target.node() {
            return Err(target.stays(&start.from));
        }
        Ok(Some(Self { place }))
    }

    /// What is in it, from its node. Refused while a container may write to it.
    async fn archive(&self, member: &Member) -> Result<ArchiveInput, Status> {
        let request = self.place.read_request(member);
        let (node, address) = self.place.address(member)?;
        let unreachable = |status: Status| self.place.unreachable(member, &status);
        let mut client = member.peers.volume_reads(node, &address);
        let answer = client.read_volume(Request::new(request)).await.map_err(unreachable)?;
        let mut outputs = answer.into_inner();
        match outputs.message().await.map_err(unreachable)?.and_then(|first| first.output) {
            Some(Output::Started(_)) => Ok(archive::received(outputs, part_of_output)),
            _ => Err(Status::unavailable("the node has ended the archive before its beginning")),
        }
    }
}

/// The archive, and how many of its bytes were taken so far.
fn counted(archive: ArchiveInput) -> (ArchiveInput, Arc<AtomicU64>) {
    let copied = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&copied);
    let counted = archive.inspect(move |piece| {
        let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        counter.fetch_add(bytes, Ordering::Relaxed);
    });
    (counted.boxed(), copied)
}

/// How the write ended, and before that again and again how far it is, if that is to be told.
fn told(
    written: BoxFuture<'static, Result<v1::VolumeOutput, Status>>,
    copied: Option<Arc<AtomicU64>>,
) -> impl Stream<Item = Result<v1::VolumeOutput, Status>> + Send {
    stream::unfold(Some((written, copied)), |state| async move {
        let (mut written, copied) = state?;
        let Some(counter) = &copied else { return Some((written.await, None)) };
        tokio::select! {
            ended = &mut written => Some((ended, None)),
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                let copied_so_far = v1::VolumeCopied { bytes: counter.load(Ordering::Relaxed) };
                let output = v1::VolumeOutput { output: Some(Output::Copied(copied_so_far)) };
                Some((Ok(output), Some((written, copied))))
            }
        }
    })
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
    // It keeps its class.
    Ok(VolumeTarget { deployment, name, class: None, existing })
}

fn part(input: v1::VolumeInput) -> Part {
    match input.input {
        Some(Input::Archive(piece)) => Part::Piece(piece),
        Some(Input::End(v1::VolumeEnd {})) => Part::End,
        _ => Part::Other,
    }
}

fn part_of_output(output: v1::VolumeOutput) -> Part {
    match output.output {
        Some(Output::Archive(piece)) => Part::Piece(piece),
        Some(Output::End(v1::VolumeEnd {})) => Part::End,
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
