//! Files out of a container.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use jaco_client::{Client, Copy};
use jaco_proto::v1::copy_output::Output;
use jaco_proto::v1::{CopyStart, PathInfo};
use jaco_types::ErrorCode;
use tokio::sync::mpsc;

use super::side::{InContainer, Local, LocalPath, Means};
use super::stream::{Pieces, on_thread};
use super::{Copied, broken_off, start};
use crate::archive::{Destination, unpack};
use crate::error::CliError;
use crate::output::Stream;
use crate::session::Session;

/// Pieces that wait for the disk.
const QUEUE: usize = 4;

/// Copies what is at a path of a replica's container. Without a result if the archive itself is one.
pub(super) async fn run(
    session: &mut Session,
    client: &Client,
    (replica, path): (String, &InContainer),
    to: &Local,
) -> Result<Option<Copied>, CliError> {
    if *to == Local::Stream && session.ui.is_terminal(Stream::Out) {
        let help = "send it to a file or a program, or name a folder instead of -";
        return Err(CliError::usage("an archive is not for a terminal", help));
    }
    let direction = "out".to_owned();
    let asked = CopyStart { replica, path: path.path.clone(), direction };
    let (copy, started) = start(client, asked).await?;
    let found = started.found.unwrap_or_default();
    let Local::Path(to) = to else {
        print(session, copy).await?;
        return Ok(None);
    };
    let destination = destination(path, &found, to)?;
    let unpacked = save(copy, destination.clone()).await?;
    let to = match &destination {
        Destination::File { folder, name } => folder.join(name),
        Destination::Folder(folder) => folder.clone(),
    };
    let copied = Copied {
        replica: started.replica,
        node: started.node,
        to: to.display().to_string(),
        files: Some(unpacked.files),
        bytes: unpacked.bytes,
        left_out: unpacked.left_out,
        more_left_out: unpacked.more_left_out,
    };
    copied.warn(session);
    Ok(Some(copied))
}

async fn print(session: &mut Session, mut copy: Copy) -> Result<(), CliError> {
    while let Some(piece) = next(&mut copy).await? {
        session.ui.bytes(Stream::Out, &piece).map_err(CliError::Output)?;
    }
    Ok(())
}

/// The next piece of the archive; `None` after the last one.
async fn next(copy: &mut Copy) -> Result<Option<Vec<u8>>, CliError> {
    match copy.next().await?.and_then(|output| output.output) {
        Some(Output::Archive(piece)) => Ok(Some(piece.into())),
        Some(Output::End(_)) => Ok(None),
        Some(Output::Started(_)) | None => Err(broken_off()),
    }
}

async fn save(
    mut copy: Copy,
    destination: Destination,
) -> Result<crate::archive::Unpacked, CliError> {
    let (pieces, arriving) = mpsc::channel(QUEUE);
    let unpacking = on_thread(move || unpack(Pieces::new(arriving), &destination));
    let receiving = async move {
        while let Some(piece) = next(&mut copy).await? {
            // The other end says why it takes no more.
            if pieces.send(piece).await.is_err() {
                break;
            }
        }
        Ok::<_, CliError>(())
    };
    let (received, unpacked) = tokio::join!(receiving, unpacking);
    received?;
    unpacked?.map_err(|error| CliError::local("not all files were copied", error))
}

/// Where it goes, as `cp -r` has it.
fn destination(
    from: &InContainer,
    found: &PathInfo,
    to: &LocalPath,
) -> Result<Destination, CliError> {
    let refused = |message: String, help: &str| CliError::Refused {
        code: ErrorCode::InvalidRequest,
        message,
        help: Some(help.to_owned()),
    };
    let shown = to.path.display();
    let is_folder = match found.kind.as_str() {
        "folder" => true,
        "file" => false,
        _ => {
            let message = format!("{} is neither a file nor a folder", from.path);
            return Err(refused(message, "devices, pipes and sockets cannot be copied"));
        }
    };
    if !is_folder && from.means != Means::Any {
        let message = format!("{} is a file, and no folder", from.path);
        return Err(refused(message, "leave out what follows its name"));
    }
    let name = OsString::from(from.split().1);
    if is_folder && name.is_empty() {
        return Err(refused(
            "the whole file system of a container is not unpacked".to_owned(),
            "name a folder, or - for an archive on stdout",
        ));
    }
    match (is_folder, fs::metadata(&to.path)) {
        (false, Ok(there)) if there.is_dir() => {
            Ok(Destination::File { folder: to.path.clone(), name })
        }
        (false, _) if to.means != Means::Any => {
            Err(refused(format!("{shown} is no folder"), "make it first: mkdir"))
        }
        (false, _) => {
            let name = to.path.file_name().map(OsString::from);
            let name =
                name.ok_or_else(|| refused(format!("{shown} has no name"), "name a file"))?;
            let folder = to.path.parent().filter(|folder| *folder != Path::new(""));
            let folder = folder.unwrap_or(Path::new(".")).to_owned();
            Ok(Destination::File { folder, name })
        }
        (true, Ok(there)) if !there.is_dir() => {
            let message = format!("{} is a folder, and {shown} is a file", from.path);
            Err(refused(message, "name a folder"))
        }
        (true, Ok(_)) if from.means != Means::Contents => made(to.path.join(name)),
        (true, _) => made(to.path.clone()),
    }
}

/// The folder, which is made if it is not there.
fn made(folder: std::path::PathBuf) -> Result<Destination, CliError> {
    match fs::create_dir(&folder) {
        Err(error) if !folder.is_dir() => {
            Err(CliError::local(format!("cannot make {}", folder.display()), error))
        }
        Ok(()) | Err(_) => Ok(Destination::Folder(folder)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::side::{Sides, Way};
    use super::*;

    /// Where a copy goes that is asked for in a folder with the folder `there` and the file `file`.
    fn place(kind: &str, from: &str, to: &str) -> Result<String, String> {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir(here.path().join("there")).unwrap();
        fs::write(here.path().join("file"), "").unwrap();
        let to = format!("{}/{to}", here.path().display());
        let Sides { path, way, .. } = Sides::parse(&format!("shop/web:{from}"), &to).unwrap();
        let Way::Out(Local::Path(to)) = way else { panic!("{way:?}") };
        let found = PathInfo { kind: kind.to_owned(), ..PathInfo::default() };
        let shown = |path: &Path| path.strip_prefix(here.path()).unwrap().display().to_string();
        match destination(&path, &found, &to) {
            Ok(Destination::Folder(folder)) => Ok(format!("{}/", shown(&folder))),
            Ok(Destination::File { folder, name }) => Ok(shown(&folder.join(name))),
            Err(error) => Err(error.to_string().replace(&here.path().display().to_string(), "")),
        }
    }

    /// R-CLI-6: as `cp -r` does it.
    #[test]
    fn copies_go_where_cp_puts_them() {
        let check = |kind, from, to, expected: &str| {
            assert_eq!(place(kind, from, to).as_deref(), Ok(expected), "{from} {to}");
        };
        check("file", "/srv/a", "there", "there/a");
        check("file", "/srv/a", "there/", "there/a");
        check("file", "/srv/a", "new", "new");
        check("file", "/srv/a", "file", "file");
        check("file", "/srv/a", ".", "a");
        check("folder", "/srv/a", "there", "there/a/");
        check("folder", "/srv/a/", "there", "there/a/");
        check("folder", "/srv/a/.", "there", "there/");
        check("folder", "/srv/a", "new", "new/");
        check("folder", "/srv/a/.", "new", "new/");
        let refused = |kind, from, to, words: &str| {
            let error = place(kind, from, to).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        refused("file", "/srv/a", "new/", "is no folder");
        refused("file", "/srv/a/.", "there", "is a file");
        refused("folder", "/srv/a", "file", "is a file");
        refused("folder", "/srv/a", "no/where", "cannot make");
        refused("folder", "/", "there", "whole file system");
        refused("other", "/dev/null", "there", "neither a file nor a folder");
    }
}
