//! Carries the bytes of one connection.

use std::future::pending;

use jaco_client::{Forward, ForwardInputs, Taken};
use jaco_proto::v1::forward_output::Output;
use jaco_types::ErrorCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use crate::error::CliError;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 32 << 10;

/// Carries bytes both ways until both have ended. What is not taken on one side is not read from the other.
///
/// # Errors
/// If a connection is lost before that.
pub(super) async fn carry(stream: &mut TcpStream, forward: Forward) -> Result<(), CliError> {
    let inputs = forward.inputs();
    let (reading, writing) = stream.split();
    tokio::select! {
        received = receive(forward, writing) => received,
        failed = send(reading, inputs) => failed,
    }
}

/// What the container sends. The daemon ends the stream once both ways have ended.
async fn receive(mut forward: Forward, mut writing: WriteHalf<'_>) -> Result<(), CliError> {
    let mut has_ended = false;
    loop {
        match forward.next().await {
            Ok(Some(output)) => match output.output {
                Some(Output::Data(data)) => writing.write_all(&data).await.map_err(local)?,
                Some(Output::End(_)) => {
                    has_ended = true;
                    writing.shutdown().await.map_err(local)?;
                }
                Some(Output::Started(_)) | None => {}
            },
            Ok(None) if has_ended => return Ok(()),
            // The container has said all, and takes nothing more: that is how many servers end.
            Err(error) if has_ended && error.code() == ErrorCode::EngineError => return Ok(()),
            Ok(None) => return Err(broken_off()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What this machine sends. Returns with an error only: after the end the other way may go on.
async fn send(mut reading: ReadHalf<'_>, inputs: ForwardInputs) -> Result<(), CliError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = reading.read(&mut piece).await.map_err(local)?;
        let taken = match length {
            0 => inputs.end().await,
            length => inputs.send(piece[..length].to_vec()).await,
        };
        // The other way says why nothing more is taken.
        if length == 0 || taken == Taken::No {
            // Without this the queue would end, which is the end of the user.
            let _open = inputs;
            return pending().await;
        }
    }
}

fn local(error: std::io::Error) -> CliError {
    CliError::local("the connection on this machine was lost", error)
}

fn broken_off() -> CliError {
    CliError::Refused {
        code: ErrorCode::Unavailable,
        message: "the daemon ended the connection".to_owned(),
        help: None,
    }
}
