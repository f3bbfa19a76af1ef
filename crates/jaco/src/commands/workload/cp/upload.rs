//! Files into a container.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use jaco_client::{Client, Copy, CopyInputs, Taken};
use jaco_proto::v1::copy_output::Output;
use jaco_proto::v1::{CopyStart, PathInfo};
use jaco_types::ErrorCode;

use super::side::{InContainer, Local, LocalPath, Means};
use super::stream::{Sending, on_thread};
use super::{Copied, broken_off, start};
use crate::archive::{ArchiveError, Packed, pack};
use crate::error::CliError;
use crate::session::Session;

/// Bytes that are read from stdin at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Copies a file, a folder or an archive to a path of a replica's container.
pub(super) async fn run(
    session: &mut Session,
    client: &Client,
    (replica, path): (String, &InContainer),
    from: &Local,
) -> Result<Option<Copied>, CliError> {
    // What cannot be read is found out before anything is asked.
    let is_folder = match from {
        Local::Stream => true,
        Local::Path(LocalPath { path, .. }) => {
            let failed = |error| CliError::local(format!("cannot read {}", path.display()), error);
            fs::metadata(path).map_err(failed)?.is_dir()
        }
    };
    let direction = "in".to_owned();
    let asked = CopyStart { replica, path: path.path.clone(), direction };
    let (copy, started) = start(client, asked).await?;
    let place = place(from, is_folder, path, started.found.as_ref())?;
    let to = format!("{}:{}", started.replica, place.shown());
    let inputs = copy.inputs();
    let from = from.clone();
    let sending = on_thread(move || send(&inputs, &from, place));
    let (unpacked, sent) = tokio::join!(unpacked(copy), sending);
    // The sender stops with a broken pipe if the other side has refused: then that is why.
    let packed = match sent? {
        Err(error) if error.is_broken_pipe() => {
            return Err(unpacked.err().unwrap_or_else(broken_off));
        }
        Err(error) => return Err(CliError::local("not all files were copied", error)),
        Ok(packed) => packed,
    };
    unpacked?;
    let left_out = packed.left_out.iter();
    let left_out = left_out.map(|path| format!("{}: neither a file nor a folder", path.display()));
    let copied = Copied {
        replica: started.replica,
        node: started.node,
        to,
        files: packed.files,
        bytes: packed.bytes,
        left_out: left_out.collect(),
        more_left_out: 0,
    };
    copied.warn(session);
    Ok(Some(copied))
}

/// Waits until the engine has unpacked it all.
async fn unpacked(mut copy: Copy) -> Result<(), CliError> {
    match copy.next().await?.and_then(|output| output.output) {
        Some(Output::End(_)) => Ok(()),
        Some(_) | None => Err(broken_off()),
    }
}

/// Where it is unpacked, and the name that it gets there; none for what is in a folder or archive.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    folder: String,
    root: OsString,
}

impl Place {
    fn shown(&self) -> String {
        Path::new(&self.folder).join(&self.root).display().to_string()
    }
}

/// As `cp -r` has it.
fn place(
    from: &Local,
    is_folder: bool,
    to: &InContainer,
    found: Option<&PathInfo>,
) -> Result<Place, CliError> {
    let refused = |message: String, help: &str| CliError::Refused {
        code: ErrorCode::InvalidRequest,
        message,
        help: Some(help.to_owned()),
    };
    let shown = &to.path;
    let into = |found: &PathInfo, root| Ok(Place { folder: found.path.clone(), root });
    let found_folder = found.filter(|found| found.kind == "folder");
    let Local::Path(from) = from else {
        return match found_folder {
            Some(found) => into(found, OsString::new()),
            None => Err(refused(
                format!("{shown} is no folder of the container"),
                "an archive is unpacked in a folder that is there",
            )),
        };
    };
    let means_contents = is_folder && from.means == Means::Contents;
    if let Some(found) = found_folder {
        let name = if means_contents { OsString::new() } else { name_of(&from.path)? };
        return into(found, name);
    }
    let (folder, name) = to.split();
    let beside = Place { folder, root: OsString::from(name) };
    match found {
        Some(_) if is_folder => Err(refused(
            format!("{} is a folder, and {shown} is a file", from.path.display()),
            "name a folder of the container",
        )),
        // The file that a link leads to, not the link, gets the content.
        Some(found) => Ok({
            let path = InContainer { path: found.path.clone(), means: Means::Any };
            let (folder, name) = path.split();
            Place { folder, root: OsString::from(name) }
        }),
        None if !is_folder && to.means != Means::Any => Err(refused(
            format!("there is no folder {shown} in the container"),
            "a file is copied into a folder that is there",
        )),
        None => Ok(beside),
    }
}

/// The name of what is copied, also of `..`.
fn name_of(path: &Path) -> Result<OsString, CliError> {
    let name = path.file_name().map(OsString::from);
    let named = || fs::canonicalize(path).ok()?.file_name().map(OsString::from);
    name.or_else(named).ok_or_else(|| {
        CliError::usage(format!("{} has no name", path.display()), "add /. for what is in it")
    })
}

/// What was sent; the number of files is not known of an archive.
struct Sent {
    files: Option<u64>,
    bytes: u64,
    left_out: Vec<std::path::PathBuf>,
}

/// Sends it all. Without the end, which is the last of it, the engine takes the archive for broken.
fn send(inputs: &CopyInputs, from: &Local, place: Place) -> Result<Sent, ArchiveError> {
    let gone = || ArchiveError::Stream(io::ErrorKind::BrokenPipe.into());
    let taken = |taken: Taken| if taken == Taken::Yes { Ok(()) } else { Err(gone()) };
    taken(inputs.folder_blocking(place.folder))?;
    let mut to = Sending(inputs.clone());
    let sent = match from {
        Local::Path(from) => {
            let Packed { files, bytes, left_out } = pack(&from.path, &place.root, &mut to)?;
            Sent { files: Some(files), bytes, left_out }
        }
        Local::Stream => Sent { files: None, bytes: send_stdin(&mut to)?, left_out: Vec::new() },
    };
    taken(inputs.end_blocking())?;
    Ok(sent)
}

fn send_stdin(to: &mut Sending) -> Result<u64, ArchiveError> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let length = io::stdin()
            .read(&mut piece)
            .map_err(|source| ArchiveError::Read { path: "stdin".to_owned(), source })?;
        if length == 0 {
            return Ok(bytes);
        }
        to.write_all(&piece[..length])?;
        bytes += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::side::{Sides, Way};
    use super::*;

    /// Where a copy goes in a container with the folder `/srv`, the file `/file`, and `/link`, a link to `/srv`.
    fn check(from: &str, is_folder: bool, to: &str, expected: Result<(&str, &str), &str>) {
        let Sides { path, way, .. } = Sides::parse(from, &format!("shop/web:{to}")).unwrap();
        let Way::In(from) = way else { panic!("{way:?}") };
        let found = |kind: &str, path: &str| {
            Some(PathInfo { kind: kind.to_owned(), path: path.to_owned(), bytes: 0 })
        };
        let found = match path.path.as_str() {
            "/" => found("folder", "/"),
            "/srv" | "/link" => found("folder", "/srv"),
            "/file" => found("file", "/file"),
            _ => None,
        };
        let placed = place(&from, is_folder, &path, found.as_ref());
        match (placed, expected) {
            (Ok(placed), Ok((folder, root))) => {
                let expected = Place { folder: folder.to_owned(), root: root.into() };
                assert_eq!(placed, expected, "{from:?} {to}");
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (placed, expected) => panic!("{placed:?} {expected:?}"),
        }
    }

    /// R-CLI-6: as `cp -r` does it.
    #[test]
    fn copies_go_where_cp_puts_them() {
        check("/a/file", false, "/srv", Ok(("/srv", "file")));
        check("/a/file", false, "/link", Ok(("/srv", "file")));
        check("/a/file", false, "/", Ok(("/", "file")));
        check("/a/file", false, "/srv/new", Ok(("/srv", "new")));
        check("/a/file", false, "/new", Ok(("/", "new")));
        check("/a/file", false, "/file", Ok(("/", "file")));
        check("/a/file", false, "/new/", Err("no folder /new"));
        check("/a/site", true, "/srv", Ok(("/srv", "site")));
        check("/a/site/.", true, "/srv", Ok(("/srv", "")));
        check("/a/site", true, "/srv/new", Ok(("/srv", "new")));
        check("/a/site/.", true, "/srv/new", Ok(("/srv", "new")));
        check("/a/site", true, "/file", Err("/file is a file"));
        check("-", true, "/srv", Ok(("/srv", "")));
        check("-", true, "/new", Err("no folder of the container"));
        check("-", true, "/file", Err("no folder of the container"));
    }
}
