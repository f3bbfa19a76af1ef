//! `jaco cp`

mod download;
mod side;
mod stream;
mod upload;

use jaco_client::{Client, Copy};
use jaco_proto::v1::copy_output::Output;
use jaco_proto::v1::{CopyStart, CopyStarted};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use self::side::{Sides, Way};
use crate::error::CliError;
use crate::format::quantity;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::without_null;

/// Copy files into or out of a replica's container
///
/// One side is a path in the container of a replica, which may be on any node; of a service, a running
/// replica is chosen. The other side is a file or folder of this machine, or `-` for a tar archive on stdin
/// or stdout. The container engine reads and writes the files, so that nothing has to be in the image; it
/// does not see /proc, /sys, /dev and tmpfs.
///
/// As with `cp -r`: into a folder that exists, SRC is put in there; else it gets the name DST. With `/.` at
/// the end, a folder stands for what is in it. A link that is named is followed, others stay links. What
/// comes into a container belongs to root and is gone with the container, unless it is in a volume; what
/// comes out of one belongs to you. Nothing is written outside DST, whatever the container says: links that
/// lead out of it are left out, and so are devices.
///
/// It takes what `jaco exec` takes: the role, and a container that runs. The audit log records who copied
/// which path.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco cp shop/web:/etc/nginx/nginx.conf .
  jaco cp site/. shop/web/0:/srv/www              what is in the folder
  jaco cp shop-db-0:/var/lib/dump - | tar tv
  tar c site | jaco cp - shop/web:/srv")]
pub(crate) struct Args {
    /// What to copy: DEPLOYMENT/SERVICE[/N]:PATH, REPLICA:PATH, a path of this machine, or `-`
    #[arg(value_name = "SRC")]
    from: String,
    /// Where to
    #[arg(value_name = "DST")]
    to: String,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let Sides { named, path, way } = Sides::parse(&args.from, &args.to)?;
    let client = session.client()?;
    let replica = named.replica(&client).await?;
    let copied = match way {
        Way::Out(to) => download::run(session, &client, (replica, &path), &to).await?,
        Way::In(from) => upload::run(session, &client, (replica, &path), &from).await?,
    };
    match copied {
        Some(copied) => session.done(&copied),
        // The result is the archive.
        None => Ok(jaco_types::code::ExitCode::Converged),
    }
}

/// Starts a copy, and hears what is at the path.
async fn start(client: &Client, start: CopyStart) -> Result<(Copy, CopyStarted), CliError> {
    let mut copy = client.copy(start).await?;
    match copy.next().await?.and_then(|output| output.output) {
        Some(Output::Started(started)) => Ok((copy, started)),
        Some(_) | None => Err(broken_off()),
    }
}

/// The daemon has ended the stream in the middle of it.
fn broken_off() -> CliError {
    CliError::Refused {
        code: ErrorCode::Unavailable,
        message: "the daemon ended the connection before the copy was complete".to_owned(),
        help: Some("some of the files may have been copied".to_owned()),
    }
}

/// What was copied.
struct Copied {
    replica: String,
    node: String,
    /// Where to, for people.
    to: String,
    /// Not counted in an archive of the user's.
    files: Option<u64>,
    bytes: u64,
    left_out: Vec<String>,
    more_left_out: u64,
}

impl Copied {
    /// Prints what was left out.
    fn warn(&self, session: &mut Session) {
        for one in &self.left_out {
            session.ui.note(&format!("warning: left out: {one}"));
        }
        if self.more_left_out > 0 {
            session.ui.note(&format!("warning: left out: {} more", self.more_left_out));
        }
    }
}

impl Show for Copied {
    fn json(&self) -> Value {
        let left_out = (!self.left_out.is_empty()).then_some(&self.left_out);
        let more = (self.more_left_out > 0).then_some(self.more_left_out);
        without_null(json!({
            "replica": self.replica,
            "node": self.node,
            "to": self.to,
            "files": self.files,
            "bytes": self.bytes,
            "left_out": left_out,
            "more_left_out": more,
        }))
    }

    fn text(&self, _: &Frame) -> String {
        let files = self.files.and_then(|files| usize::try_from(files).ok());
        let what = files.map_or("an archive".to_owned(), |files| quantity::count(files, "file"));
        format!("{what} copied to {}, {}\n", self.to, quantity::size(self.bytes))
    }
}
