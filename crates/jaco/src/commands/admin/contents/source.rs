//! Where a content comes from: a file, stdin or the output of a command. Never the command line, which other users of the
//! machine can see; and it is never printed.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jaco_types::NamedKind;

use crate::error::CliError;
use crate::manifest::disk::STDIN;
use crate::opening::{Opening, is_encrypted};

/// The maximum size of a content.
pub(super) const CONTENT_BYTES_MAX: u64 = 1 << 20;

/// More than the largest content has when it is encrypted, also as text.
const ENCRYPTED_BYTES_MAX: u64 = 2 << 20;

/// Where a content comes from.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    /// A file that is encrypted with age, as its name says.
    Encrypted(PathBuf, Opening),
    Stdin,
    /// What this command line of the shell prints.
    Command(String),
}

impl Source {
    /// The file of the command line; stdin if there is none, or `-`.
    pub(super) fn file(file: Option<PathBuf>) -> Self {
        file.filter(|path| path != Path::new(STDIN)).map_or(Self::Stdin, Self::File)
    }

    /// The same, where a file whose name ends in `.age` is opened.
    pub(super) fn opened(file: Option<PathBuf>, opening: Opening) -> Self {
        match file {
            Some(path) if is_encrypted(&path) => Self::Encrypted(path, opening),
            file => Self::file(file),
        }
    }

    /// Reads the content.
    ///
    /// # Errors
    /// If it cannot be read, is empty, which is taken for a mistake, or is too large.
    pub(super) fn read(&self, kind: NamedKind) -> Result<Vec<u8>, CliError> {
        let (name, content) = match self {
            Self::File(path) => {
                let read = File::open(path).and_then(bounded);
                (path.display().to_string(), read)
            }
            Self::Encrypted(path, opening) => return opened(kind, path, opening),
            Self::Stdin if io::stdin().is_terminal() => {
                let kind = kind.as_str();
                let help = format!("give a file, or pipe it in: … | jaco {kind} set NAME");
                return Err(CliError::usage(format!("no content is given for the {kind}"), help));
            }
            Self::Stdin => ("stdin".to_owned(), bounded(io::stdin())),
            Self::Command(command) => {
                return check(kind, "the output of the command", output_of(command)?);
            }
        };
        let content =
            content.map_err(|error| CliError::local(format!("cannot read {name}"), error))?;
        check(kind, &name, content)
    }
}

/// What is in an encrypted file.
fn opened(kind: NamedKind, path: &Path, opening: &Opening) -> Result<Vec<u8>, CliError> {
    let shown = path.display().to_string();
    let unreadable = |error| CliError::local(format!("cannot read {shown}"), error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(ENCRYPTED_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    let opened = opening.open(path, bytes);
    let opened = opened.map_err(|unopened| {
        CliError::usage(format!("{shown} cannot be opened: {}", unopened.error), unopened.help)
    })?;
    check(kind, &shown, opened.unwrap_or_default())
}

/// All that `source` has, or just more than a content may have.
fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    source.take(CONTENT_BYTES_MAX + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// What a command prints. Its stdin and stderr are those of this process: it may ask for a passphrase.
fn output_of(command: &str) -> Result<Vec<u8>, CliError> {
    let failed = |error| CliError::local("cannot run the command of --command", error);
    let mut shell = Command::new("/bin/sh");
    let mut child = shell.arg("-c").arg(command).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let content = child.stdout.take().map(bounded).transpose().map_err(failed)?.unwrap_or_default();
    if content.len() as u64 > CONTENT_BYTES_MAX {
        // What it prints beyond that is not read. It may have ended already.
        child.kill().ok();
        child.wait().map_err(failed)?;
        return Ok(content);
    }
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(content);
    }
    // Neither its output nor its command line, which may hold a secret too.
    Err(CliError::usage(
        format!("the command of --command failed with {status}, so nothing is stored"),
        "run it by itself to see why: what it has printed to stdout is not shown here",
    ))
}

/// Checks the size of what was read from `source`.
///
/// # Errors
/// If it is empty or too large.
pub(super) fn check(kind: NamedKind, source: &str, content: Vec<u8>) -> Result<Vec<u8>, CliError> {
    let kind = kind.as_str();
    if content.is_empty() {
        return Err(CliError::usage(
            format!("{source} is empty"),
            format!("a {kind} has at least one byte: give the file that holds it"),
        ));
    }
    if content.len() as u64 > CONTENT_BYTES_MAX {
        return Err(CliError::usage(
            format!("{source} has more than 1 MiB"),
            format!("a stored {kind} has at most 1 MiB"),
        ));
    }
    Ok(content)
}
