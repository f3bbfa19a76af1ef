//! The container engine of this machine, by its own command line: `docker`, or what takes its place.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use jaco_types::ImageTag;

use crate::error::CliError;

/// The program, and the variable that names another one.
const PROGRAM: &str = "docker";
const PROGRAM_VARIABLE: &str = "JACO_DOCKER";

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The engine's command line.
pub(crate) fn program() -> Command {
    let program = std::env::var_os(PROGRAM_VARIABLE);
    Command::new(program.unwrap_or_else(|| PROGRAM.into()))
}

/// The id of an image of the engine.
///
/// # Errors
/// If it is not there, or there is no engine.
pub(crate) fn inspect(name: &str) -> Result<String, CliError> {
    let mut command = program();
    command.args(["image", "inspect", "--format", "{{.Id}}", "--", name]);
    let output = command.output().map_err(|error| no_program(&command, error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let help = format!(
        "build it first (`docker build -t {name} .`), or give an archive: `jaco image push {name} --file image.tar`"
    );
    Err(CliError::Usage {
        message: format!("the engine of this machine does not have image {name}: {said}"),
        help: Some(help),
    })
}

/// How an image is built.
#[derive(Debug, Clone, Default)]
pub(crate) struct Build {
    /// A folder, or what the engine fetches.
    pub(crate) context: String,
    pub(crate) dockerfile: Option<String>,
    /// The text of the Dockerfile.
    pub(crate) inline: Option<String>,
    pub(crate) args: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) target: Option<String>,
    pub(crate) network: Option<String>,
    pub(crate) no_cache: bool,
    pub(crate) pull: bool,
}

/// Builds an image under this name, without which it would be anybody's to prune before it is read. What the engine says goes
/// to stderr. Returns the id of the image.
///
/// # Errors
/// If the engine does not build it.
pub(crate) fn build(build: &Build, name: &ImageTag) -> Result<String, CliError> {
    let local = |error| CliError::local("cannot make a temporary file for the build", error);
    let folder = tempfile::tempdir().map_err(local)?;
    let id = folder.path().join("id");
    let mut command = program();
    command.arg("build").arg("--iidfile").arg(&id).arg("--tag").arg(name.as_str());
    let dockerfile = build.dockerfile.as_ref().map(|name| match build.context.contains("://") {
        true => name.clone(),
        // As compose has it: relative to the context.
        false => Path::new(&build.context).join(name).display().to_string(),
    });
    let file = if build.inline.is_some() { Some("-".to_owned()) } else { dockerfile };
    for (flag, value) in
        [("--file", &file), ("--target", &build.target), ("--network", &build.network)]
    {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
    for (flag, pairs) in [("--build-arg", &build.args), ("--label", &build.labels)] {
        for (key, value) in pairs {
            command.arg(flag).arg(format!("{key}={value}"));
        }
    }
    for (flag, is_set) in [("--no-cache", build.no_cache), ("--pull", build.pull)] {
        if is_set {
            command.arg(flag);
        }
    }
    command.arg("--").arg(&build.context).stdout(Stdio::from(io::stderr()));
    command.stdin(if build.inline.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|error| no_program(&command, error))?;
    if let (Some(text), Some(mut input)) = (&build.inline, child.stdin.take()) {
        // An engine that does not read it says why itself.
        input.write_all(text.as_bytes()).ok();
    }
    let failed = |error| CliError::local(format!("{} was not built", build.context), error);
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        let error = io::Error::other(format!("the engine said why ({status})"));
        return Err(failed(error));
    }
    let id = std::fs::read_to_string(&id).map_err(failed)?;
    Ok(id.trim().to_owned())
}

/// Writes an image of the engine as an archive, and tells how much it is so far.
///
/// # Errors
/// If the engine does not give it, or it cannot be written.
pub(crate) fn save(
    name: &str,
    to: &mut impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<(), CliError> {
    let mut command = program();
    command.args(["save", "--", name]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| no_program(&command, error))?;
    let mut errors = child.stderr.take().expect("it is piped");
    // Read beside, so that the engine never waits for its messages to be taken.
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = (&mut errors).take(64 << 10).read_to_end(&mut said);
        drop(read.and_then(|_| io::copy(&mut errors, &mut io::sink())));
        String::from_utf8_lossy(&said).trim().to_owned()
    });
    let mut from = child.stdout.take().expect("it is piped");
    let copied = copy(&mut from, to, progress);
    drop(from);
    let status = child.wait();
    let said = said.join().unwrap_or_default();
    copied.map_err(|error| CliError::local("the image could not be saved", error))?;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let error = io::Error::other(format!("{said} ({status})"));
            Err(CliError::local(format!("`docker save {name}` failed"), error))
        }
        Err(error) => Err(CliError::local(format!("`docker save {name}` failed"), error)),
    }
}

fn copy(
    from: &mut impl Read,
    to: &mut impl Write,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let length = from.read(&mut piece)?;
        if length == 0 {
            return to.flush();
        }
        to.write_all(&piece[..length])?;
        bytes += length as u64;
        progress(bytes);
    }
}

fn no_program(command: &Command, error: io::Error) -> CliError {
    let program = command.get_program().to_string_lossy().into_owned();
    CliError::local(
        format!(
            "cannot run {program}, the command line of the container engine: install it, name another one in \
             {PROGRAM_VARIABLE}, or give an archive with --file"
        ),
        error,
    )
}
