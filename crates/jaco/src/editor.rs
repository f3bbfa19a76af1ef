//! Runs the user's editor.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::error::CliError;

/// What is run where neither variable is set, as `git` and `crontab` do.
const DEFAULT: &str = "vi";

/// Opens the files and waits until the editor ends.
///
/// # Errors
/// If it cannot be run, or says that it failed.
pub(crate) async fn open(files: &[PathBuf]) -> Result<(), CliError> {
    let editor = chosen(|name| env::var(name).ok());
    // Ctrl-C belongs to the editor: with a handler it does not end this process.
    let _ctrl_c = signal(SignalKind::interrupt())
        .map_err(|error| CliError::local("cannot leave Ctrl-C to the editor", error))?;
    let mut command = command(&editor, files);
    // Not on this thread, which keeps the connection to the cluster alive, and on none that the end of this process
    // waits for: a signal may come before the editor ends.
    let (tell, ended) = oneshot::channel();
    thread::spawn(move || tell.send(command.status()));
    let ended = ended.await;
    let ended = ended.map_err(|error| CliError::local("cannot wait for the editor", error))?;
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(&editor, status)),
        Err(error) => Err(CliError::local(format!("cannot run the editor {editor:?}"), error)),
    }
}

fn failed(editor: &str, status: ExitStatus) -> CliError {
    CliError::Usage {
        message: format!("the editor {editor:?} failed with {status}, so nothing is changed"),
        help: Some("VISUAL or EDITOR names another one".to_owned()),
    }
}

/// `VISUAL`, else `EDITOR`: a command line for the shell.
fn chosen(variable: impl Fn(&str) -> Option<String>) -> String {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(variable);
    let mut named = named.filter(|editor| !editor.trim().is_empty());
    named.next().unwrap_or_else(|| DEFAULT.to_owned())
}

/// The editor with the files as its last arguments: it may have arguments of its own.
fn command(editor: &str, files: &[PathBuf]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).args(files);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editor_is_the_users() {
        let of = |visual: &str, editor: &str| {
            let (visual, editor) = (visual.to_owned(), editor.to_owned());
            chosen(move |name| Some(if name == "VISUAL" { visual.clone() } else { editor.clone() }))
        };
        assert_eq!(of("code --wait", "nano"), "code --wait");
        assert_eq!(of(" ", "nano"), "nano");
        assert_eq!(chosen(|_| None), "vi");
    }
}
