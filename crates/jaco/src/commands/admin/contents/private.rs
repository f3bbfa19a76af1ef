//! A text in the user's editor, in a file that nobody else can read and that is gone afterwards, also when a signal asks this
//! process to end. It is in memory where the machine has a folder for that.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use super::source::CONTENT_BYTES_MAX;
use crate::editor;
use crate::error::CliError;
use crate::session::Session;

/// A folder that is in memory on most machines.
const SHARED_MEMORY: &str = "/dev/shm";

/// Opens `text` in the editor as a file of this name, and returns what is in it then.
///
/// # Errors
/// If that fails, or a signal ends it.
pub(super) async fn edited(
    session: &mut Session,
    name: &str,
    text: &[u8],
) -> Result<Vec<u8>, CliError> {
    // Before there is a file: what comes from now on ends this function, not the process.
    let ended = ended().map_err(|error| CliError::local("cannot wait for signals", error))?;
    // Removed when it goes out of scope, too.
    let folder = folder(session)?;
    let path = folder.path().join(name);
    let edited = in_editor(&path, text, ended).await;
    let shown = folder.path().display().to_string();
    folder.close().map_err(|error| {
        CliError::local(format!("cannot remove {shown}, which holds the secret"), error)
    })?;
    edited
}

async fn in_editor(
    path: &Path,
    text: &[u8],
    ended: impl Future<Output = ()>,
) -> Result<Vec<u8>, CliError> {
    let failed = |what: &str, error| CliError::local(format!("cannot {what} the secret"), error);
    write(path, text).map_err(|error| failed("write", error))?;
    let files = [path.to_path_buf()];
    tokio::select! {
        opened = editor::open(&files) => opened?,
        () = ended => {
            let message = "\nNothing was changed, and the file with the secret is removed.".to_owned();
            return Err(CliError::Interrupted { message });
        }
    }
    read(path).map_err(|error| failed("read", error))
}

/// Completes at a signal that asks this process to end. Ctrl-C is the editor's: until this ends it does nothing here.
fn ended() -> io::Result<impl Future<Output = ()>> {
    let interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        let _of_the_editor = interrupt;
        tokio::select! {
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// A new folder for the file, that only the user can enter.
fn folder(session: &mut Session) -> Result<TempDir, CliError> {
    let made = |place: &Path| {
        let own = fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix("jaco-secret-").permissions(own).tempdir_in(place)
    };
    let in_memory =
        places(|name| env::var_os(name)).into_iter().find_map(|place| made(&place).ok());
    if let Some(folder) = in_memory {
        return Ok(folder);
    }
    let folder = made(&env::temp_dir());
    let folder = folder.map_err(|error| {
        CliError::local("cannot make a folder for the file to be edited", error)
    })?;
    session.ui.note(&format!(
        "warning: neither XDG_RUNTIME_DIR nor {SHARED_MEMORY} can be used, so the secret is on the disk while it is edited: {}",
        folder.path().display()
    ));
    Ok(folder)
}

/// The folders in memory that may be there, the user's own first.
fn places(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let own = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    own.into_iter().chain([PathBuf::from(SHARED_MEMORY)]).collect()
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)
}

/// What the file holds, or just more than a content may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(CONTENT_BYTES_MAX + 1).read_to_end(&mut text)?;
    Ok(text)
}
