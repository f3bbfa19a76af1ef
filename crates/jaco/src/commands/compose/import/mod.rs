//! `jaco compose-import`

mod folder;
mod listing;
mod originals;
mod report;

use std::path::{Path, PathBuf};

use jaco_types::code::ExitCode;

use self::folder::Folder;
use self::listing::Listing;
use self::originals::Originals;
use self::report::Report;
use crate::error::CliError;
use crate::image::on_thread;
use crate::import::{self, Imported, Origin};
use crate::manifest::disk::STDIN;
use crate::output::{Format, Show, Stream};
use crate::session::{CommandResult, Session};

/// Print or write a compose file of what Docker runs here
///
/// Reads the containers of a project of Docker Compose, or the services of a stack of Docker Swarm, from the
/// container engine of this machine, and writes a folder that `jaco apply` takes: images by the digests that
/// run, counts as they were scaled, values as they were filled in. What an image says itself is not repeated.
/// Without a name, it lists what can be imported.
///
/// Then it says what does not carry over and why, which values look like secrets, which images only this
/// machine has, and how the data of each volume gets over. Values are never printed; the files can only be read
/// by their owner (0600). It changes nothing in the engine and asks no cluster. The exit code is 3 if a cluster
/// would refuse the file: what to change is listed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco compose-import                       list the projects and stacks that run here
  jaco compose-import shop                  write ./shop/compose.yaml
  jaco compose-import --stack shop --folder deploy/shop
  jaco compose-import shop --folder - > compose.yaml
  jaco compose-import shop -o json | jq .secret_values")]
#[group(skip)]
pub(crate) struct Args {
    /// The project of Docker Compose
    #[arg(value_name = "PROJECT", conflicts_with = "stack")]
    project: Option<String>,
    /// A stack of Docker Swarm; this engine has to be a manager
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
    /// The folder to write; `-` prints the compose file [default: one with the name of the project]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Write into a folder that is not empty, and replace files
    #[arg(long)]
    force: bool,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let (origin, name) = match (args.project, args.stack) {
        (Some(project), _) => (Origin::Project, project),
        (None, Some(stack)) => (Origin::Stack, stack),
        (None, None) if args.folder.is_some() || args.force => {
            let help =
                "name it: jaco compose-import PROJECT; without options the projects are listed";
            return Err(CliError::usage("no project is named", help));
        }
        (None, None) => {
            let listed = on_thread(import::list).await??;
            return session.done(&Listing(listed));
        }
    };
    let is_printed = args.folder.as_deref() == Some(Path::new(STDIN));
    if is_printed && matches!(session.ui.format(), Format::Json | Format::Yaml) {
        let help = "leave out --folder or -o";
        return Err(CliError::usage("stdout cannot have the compose file and the report", help));
    }
    let folder = args.folder.unwrap_or_else(|| PathBuf::from(&name));
    let existing = if args.force { folder::Existing::Replace } else { folder::Existing::Refuse };
    let folder = if is_printed { None } else { Some(Folder::checked(folder, existing)?) };
    session.ui.note(&format!("reading {} {name} from the container engine", origin.as_str()));
    let (imported, originals) = on_thread(move || read(origin, &name)).await??;
    let text = import::document(&imported);
    let problems = import::check(&text, &imported);
    let has_errors = problems.errors().next().is_some();
    match &folder {
        Some(folder) => folder.write(&text, &imported.files)?,
        None => print(session, &text, &imported)?,
    }
    let report = Report { imported, originals, problems, folder: folder.map(|folder| folder.path) };
    if is_printed {
        let text = report.text(&session.ui.frame());
        session.ui.note(text.trim_end());
    } else {
        session.done(&report)?;
    }
    Ok(if has_errors { ExitCode::Rejected } else { ExitCode::Converged })
}

/// Reads a project or a stack, which has to be there.
fn read(origin: Origin, name: &str) -> Result<(Imported, Option<Originals>), CliError> {
    let (imported, originals) = match origin {
        Origin::Project => {
            let snapshot = import::read_project(name)?;
            let (files, created) = import::originals(&snapshot);
            (import::import_project(&snapshot), Originals::find(files, &created))
        }
        Origin::Stack => (import::import_stack(&import::read_stack(name)?), None),
    };
    if !imported.services.is_empty() {
        return Ok((imported, originals));
    }
    let message =
        format!("no service of a {} {name} runs on the engine of this machine", origin.as_str());
    let help = "`jaco compose-import` without a name lists what can be imported; a project that is stopped keeps its containers \
                until `docker compose down`";
    Err(CliError::usage(message, help))
}

/// Prints the compose file where no one looks on.
fn print(session: &mut Session, text: &str, imported: &Imported) -> Result<(), CliError> {
    let secrets = &imported.findings.secret_values;
    if session.ui.is_terminal(Stream::Out) && !secrets.is_empty() {
        return Err(CliError::usage(
            "values that look like secrets would be printed, and stdout is a terminal",
            "have them written to a file that only you can read: leave out `--folder -`",
        ));
    }
    session.ui.raw(text).map_err(CliError::Output)
}
