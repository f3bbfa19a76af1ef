//! Copies of files: what is at a path of a container, and archives out of it and into it.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use jaco_agent::engine::EngineError;
use jaco_agent::transfer::PathStat;
use jaco_proto::v1;
use jaco_proto::v1::copy_input::Input;
use jaco_proto::v1::copy_output::Output;
use jaco_state::audit::AuditKind;
use jaco_types::{Author, ErrorCode, Rejection};
use tonic::{Request, Status, Streaming};

use super::target::{Place, moved};
use super::{Answers, joined, status};
use crate::member::Member;
use crate::service::archive::{self, Part};
use crate::service::upgraded;
use crate::status::invalid;

/// Maximum size of a path, that of Linux.
const PATH_BYTES_MAX: usize = 4096;

/// Where the files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
}

/// A copy that is about to be started.
pub(super) struct Copy {
    start: v1::CopyStart,
    direction: Direction,
    place: Place,
}

impl Copy {
    /// Validates the request, finds the instance, and audits the copy.
    pub(super) async fn begin(
        member: &Member,
        by: Author,
        start: v1::CopyStart,
    ) -> Result<Self, Rejection> {
        let direction = match start.direction.as_str() {
            "out" => Direction::Out,
            "in" => Direction::In,
            other => return Err(invalid(format!("{other:?} is no direction of a copy"))),
        };
        check_path(&start.path)?;
        let place = Place::of(member, &by, &start.replica).await?;
        member.store.read(upgraded::copies_may_be_audited)?;
        let facts = [("direction", start.direction.as_str()), ("path", &start.path)];
        place.audit(member, by, AuditKind::CopyStarted, &facts).await?;
        Ok(Self { start, direction, place })
    }

    pub(super) async fn carry(
        self,
        member: &Arc<Member>,
        inputs: Streaming<v1::CopyInput>,
    ) -> Result<Answers<v1::CopyOutput>, Status> {
        if !self.place.is_here(member) {
            return self.there(member, inputs).await;
        }
        let found = member.agent.stat(&self.place.instance, &self.start.path).await;
        let found = self.held(found)?;
        let first = self.started(member, found.as_ref());
        match (self.direction, found) {
            (Direction::Out, Some(found)) => self.read(member, first, &found).await,
            (Direction::Out, None) => {
                let v1::CopyStart { path, replica, .. } = &self.start;
                let message = format!("there is no {path} in replica {replica}");
                Err(status(Rejection::new(ErrorCode::PathNotFound, message)))
            }
            (Direction::In, _) => Ok(self.write(member, first, inputs)),
        }
    }

    fn started(&self, member: &Member, found: Option<&PathStat>) -> v1::CopyOutput {
        let found = found.map(|found| v1::PathInfo {
            kind: found.kind.as_str().to_owned(),
            path: found.path.clone(),
            bytes: found.bytes,
        });
        let (replica, node) = (self.start.replica.clone(), member.hostname.to_string());
        v1::CopyOutput { output: Some(Output::Started(v1::CopyStarted { replica, node, found })) }
    }

    /// Sends what was found as an archive.
    async fn read(
        &self,
        member: &Member,
        first: v1::CopyOutput,
        found: &PathStat,
    ) -> Result<Answers<v1::CopyOutput>, Status> {
        // The root of the archive has the name that was found, or that of the folder whose contents are asked for.
        let archive = member.agent.read_archive(&self.place.instance, &found.path).await;
        let archive = self.held(archive)?;
        let replica = self.start.replica.clone();
        let pieces = archive::messages(archive, archived, move |error| refused(&replica, error));
        let whole = stream::iter([Ok(first)]).chain(pieces);
        Ok(Box::pin(whole.chain(stream::iter([Ok(end())]))))
    }

    /// Unpacks the archive that follows.
    fn write(
        self,
        member: &Arc<Member>,
        first: v1::CopyOutput,
        mut inputs: Streaming<v1::CopyInput>,
    ) -> Answers<v1::CopyOutput> {
        let member = Arc::clone(member);
        let unpacked = async move {
            let Some(v1::CopyInput { input: Some(Input::Folder(folder)) }) =
                inputs.message().await?
            else {
                return Err(status(invalid("no folder was named")));
            };
            check_path(&folder).map_err(status)?;
            let archive = archive::received(inputs, part);
            let written = member.agent.write_archive(&self.place.instance, &folder, archive).await;
            self.held(written)?;
            Ok(end())
        };
        Box::pin(stream::iter([Ok(first)]).chain(stream::once(unpacked)))
    }

    /// What the engine says of a container that this node has.
    fn held<T>(&self, answer: Result<Option<T>, EngineError>) -> Result<T, Status> {
        let answer = answer.map_err(|error| refused(&self.start.replica, &error))?;
        answer.ok_or_else(|| status(moved(&self.start.replica)))
    }

    /// Has the node do it that has the container.
    async fn there(
        self,
        member: &Member,
        inputs: Streaming<v1::CopyInput>,
    ) -> Result<Answers<v1::CopyOutput>, Status> {
        let mut client = self.place.exec_client(member)?;
        let first = v1::CopyInput { input: Some(Input::Start(self.start)) };
        let answer = client.copy(Request::new(joined(first, inputs))).await;
        let answer = answer.map_err(|status| self.place.unreachable(member, &status))?;
        Ok(Box::pin(answer.into_inner()))
    }
}

fn check_path(path: &str) -> Result<(), Rejection> {
    if !path.starts_with('/') {
        return Err(invalid(format!("{path:?} is not absolute")));
    }
    if path.len() > PATH_BYTES_MAX || path.contains('\0') {
        return Err(invalid(format!("a path has at most {PATH_BYTES_MAX} bytes and no NUL")));
    }
    Ok(())
}

fn part(input: v1::CopyInput) -> Part {
    match input.input {
        Some(Input::Archive(piece)) => Part::Piece(piece),
        Some(Input::End(v1::CopyEnd {})) => Part::End,
        _ => Part::Other,
    }
}

fn archived(piece: Bytes) -> v1::CopyOutput {
    v1::CopyOutput { output: Some(Output::Archive(piece)) }
}

fn end() -> v1::CopyOutput {
    v1::CopyOutput { output: Some(Output::End(v1::CopyEnd {})) }
}

fn refused(replica: &str, error: &EngineError) -> Status {
    let message = format!("the files of replica {replica} could not be copied: {error}");
    status(Rejection::new(ErrorCode::EngineError, message))
}
