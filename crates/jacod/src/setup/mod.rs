//! `jacod setup`: asks what a node cannot know by itself, and writes its configuration.

mod edit;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::config::{Config, ConfigError};

/// Where systemd says that it runs the machine: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// The units of a node.
const UNITS: [&str; 3] = ["jacod", "jacod-net", "jacod-edge"];

/// Write the configuration of this node
///
/// Asks for the node's name, for the address at which the other nodes reach it, and whether to start it now, each with a proposal. What
/// is given as an option is not asked for. Of a file that exists, everything else stays as it is.
///
/// Run it as root. The last lines say how to go on.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  jacod setup
  jacod setup --advertise 10.0.0.1:7000 --label zone=a --start
  jacod setup --yes                               what it would propose, without a question")]
pub(crate) struct Args {
    /// The node's name, unique in the cluster [default: the machine's host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the other nodes reach this one [default: the address that this machine reaches the internet with, port 7000]
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// A label of the node, for placement; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Enable the services of the node and start them
    #[arg(long, conflicts_with = "no_start")]
    start: bool,
    /// Only write the file
    #[arg(long)]
    no_start: bool,
    /// Do not ask: take the proposals, and start nothing without --start
    #[arg(long)]
    yes: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("it is not KEY=VALUE".to_owned()),
    }
}

/// Whether the services are to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Now,
    ByHand,
}

/// Whether the file has another text than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Made,
    None,
}

/// Asks the user, if there is one, writes the file, and starts the services if that is wanted.
///
/// # Errors
/// When an answer cannot be used and nobody can be asked again, when the file cannot be written, or when a service does not start.
pub(crate) fn run(
    path: &Path,
    default_place: &Path,
    args: &Args,
    user: Option<&mut impl BufRead>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let existing = Config::load(path, default_place);
    let before = match existing {
        Ok(config) => config,
        // What is to be written need not be there.
        Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Config::default()
        }
        Err(error) => return Err(error.into()),
    };
    let user = user.filter(|_| !args.yes);
    if user.is_none() && !args.yes && args.advertise.is_none() {
        bail!(
            "nobody can be asked here: give --advertise HOST:PORT, or --yes to take what is proposed"
        );
    }
    let asked = Question { user, out: &mut *out };
    let answers = Answers::gather(&before, args, asked)?;
    if answers.start == Start::Now && path != default_place {
        bail!(
            "the services read {}, and this is to be written to {}: leave --start out, or --config",
            default_place.display(),
            path.display()
        );
    }
    let text = answers.write_into(&current(path)?);
    let config =
        Config::parse(&text).map_err(|reason| ConfigError::Parse { path: path.to_owned(), reason });
    config?.check()?;
    let changed = replace(path, &text)?;
    let done = match changed {
        Change::Made => "Written",
        Change::None => "Unchanged",
    };
    writeln!(out, "{done:<16}{}", path.display())?;
    writeln!(out, "Node            {} at {}", answers.name, answers.advertise)?;
    for missing in missing(&before) {
        writeln!(out, "Missing         {missing}")?;
    }
    match answers.start {
        Start::Now => start(out, changed)?,
        Start::ByHand => {
            writeln!(out, "\nStart it:       {}", by_hand(path, default_place))?;
        }
    }
    writeln!(
        out,
        "\nOn the first node of a cluster:   jaco cluster init --name NAME\nOn the others:                    the line that it prints"
    )?;
    Ok(())
}

/// What the user wants.
struct Answers {
    name: String,
    advertise: String,
    labels: BTreeMap<String, String>,
    start: Start,
}

/// Whom to ask: nobody, where there is no terminal.
struct Question<'u, R, W> {
    user: Option<&'u mut R>,
    out: &'u mut W,
}

impl Answers {
    fn gather<R: BufRead, W: Write>(
        before: &Config,
        args: &Args,
        mut question: Question<'_, R, W>,
    ) -> anyhow::Result<Self> {
        let name = before.hostname().map(|name| name.to_string()).unwrap_or_default();
        let name = question.ask("Name of this node", args.name.as_deref(), &name, |name| {
            let config = Config { node_name: Some(name.to_owned()), ..Config::default() };
            config.hostname().map(drop)
        })?;
        let proposed = before.advertised().ok().or_else(|| own_address(before)).unwrap_or_default();
        let advertise = question.ask(
            "Address for the other nodes",
            args.advertise.as_deref(),
            &proposed,
            |address| {
                let config = Config { advertise: Some(address.to_owned()), ..Config::default() };
                config.advertised().map(drop)
            },
        )?;
        let mut labels = before.labels.clone();
        labels.extend(args.labels.iter().cloned());
        let start = match (args.start, args.no_start, question.user.is_some()) {
            (true, _, _) => Start::Now,
            (false, false, true) if Path::new(SYSTEMD).exists() => question.ask_to_start()?,
            _ => Start::ByHand,
        };
        Ok(Self { name, advertise, labels, start })
    }

    /// The text of the file with them. What the file had before and nobody changes is not touched.
    fn write_into(&self, text: &str) -> String {
        let before = Config::parse(text).unwrap_or_default();
        let mut text = text.to_owned();
        let is_default =
            Config::default().hostname().is_ok_and(|name| *name.to_string() == self.name);
        if before.node_name.as_ref() != Some(&self.name)
            && !(before.node_name.is_none() && is_default)
        {
            text = edit::set(&text, "node_name", &self.name);
        }
        if before.advertise.as_ref() != Some(&self.advertise) {
            text = edit::set(&text, "advertise", &self.advertise);
        }
        if before.labels != self.labels {
            text = edit::set_mapping(&text, "labels", &self.labels);
        }
        text
    }
}

impl<R: BufRead, W: Write> Question<'_, R, W> {
    /// The given answer, else that of the user, else the proposal.
    fn ask(
        &mut self,
        what: &str,
        given: Option<&str>,
        proposed: &str,
        check: impl Fn(&str) -> Result<(), ConfigError>,
    ) -> anyhow::Result<String> {
        let user = match (given, &mut self.user) {
            (None, Some(user)) => user,
            (given, _) => {
                let answer = given.unwrap_or(proposed);
                check(answer).with_context(|| format!("{what}: {answer:?} cannot be used"))?;
                return Ok(answer.to_owned());
            }
        };
        loop {
            match proposed {
                "" => write!(self.out, "{what}: ")?,
                proposed => write!(self.out, "{what} [{proposed}]: ")?,
            }
            self.out.flush()?;
            let answer = line(user)?;
            let answer = if answer.is_empty() { proposed } else { &answer };
            match check(answer) {
                Ok(()) => return Ok(answer.to_owned()),
                Err(error) => writeln!(self.out, "{error}")?,
            }
        }
    }

    fn ask_to_start(&mut self) -> anyhow::Result<Start> {
        let Some(user) = &mut self.user else { return Ok(Start::ByHand) };
        loop {
            write!(self.out, "Start it now, and whenever the machine starts? [Y/n]: ")?;
            self.out.flush()?;
            match line(user)?.to_lowercase().as_str() {
                "" | "y" | "yes" => return Ok(Start::Now),
                "n" | "no" => return Ok(Start::ByHand),
                _ => writeln!(self.out, "Write y or n.")?,
            }
        }
    }
}

/// What the user writes, without the spaces around it.
fn line(user: &mut impl BufRead) -> anyhow::Result<String> {
    let mut answer = String::new();
    if user.read_line(&mut answer)? == 0 {
        bail!("no answer, nothing was written");
    }
    Ok(answer.trim().to_owned())
}

/// The address that this machine would send from to one of the internet, with the port that it listens on. No packet is sent; the
/// other address is one for documentation (RFC 5737).
fn own_address(config: &Config) -> Option<String> {
    let port = config.listen_address().ok()?.port();
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then(|| format!("{own}:{port}"))
}

/// What a node needs and this machine does not have.
fn missing(config: &Config) -> Vec<String> {
    let engine = config.check_engine().err().map(|error| error.to_string());
    let nft =
        ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"].iter().any(|path| Path::new(path).exists());
    let nft = (!nft).then(|| {
        "nft: without it services on different nodes do not reach each other; install nftables"
            .to_owned()
    });
    engine.into_iter().chain(nft).collect()
}

/// The text of the file; empty if there is none.
fn current(path: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Replaces the file as a whole, with the owner and the mode that it had; returns whether it had another text.
fn replace(path: &Path, text: &str) -> anyhow::Result<Change> {
    let cannot = || format!("cannot write {}", path.display());
    // A link stays one.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(path).ok();
    if before.is_some() && current(path)? == text {
        return Ok(Change::None);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(cannot)?;
    let new = PathBuf::from(format!("{}.new", path.display()));
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&new);
    let mut file = file.with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    if let Some(before) = before {
        fchown(&file, Some(before.uid()), Some(before.gid())).with_context(cannot)?;
        let mode = before.permissions().mode() & 0o7777;
        file.set_permissions(fs::Permissions::from_mode(mode)).with_context(cannot)?;
    }
    file.sync_all().with_context(cannot)?;
    fs::rename(&new, path).with_context(cannot)?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).with_context(cannot)?;
    Ok(Change::Made)
}

/// What starts a daemon that reads the file. The unit reads the one at the default place.
fn by_hand(path: &Path, default_place: &Path) -> String {
    match path == default_place {
        true => start_command().join(" "),
        false => format!("jacod --config {}", path.display()),
    }
}

fn start_command() -> Vec<&'static str> {
    match Path::new(SYSTEMD).exists() {
        true => ["systemctl", "enable", "--now"].into_iter().chain(UNITS).collect(),
        false => vec!["jacod"],
    }
}

fn start(out: &mut impl Write, change: Change) -> anyhow::Result<()> {
    let command = start_command();
    let text = command.join(" ");
    let ["systemctl", args @ ..] = command.as_slice() else {
        bail!("systemd does not run this machine: the file is written; start {text} by what does");
    };
    if change == Change::Made {
        // One that runs already has to read the file again.
        let restarted = ["try-restart"].iter().chain(&UNITS);
        let ended = Command::new("systemctl").args(restarted).status();
        ended.context("cannot run systemctl")?;
    }
    let ended = Command::new("systemctl").args(args).status().context("cannot run systemctl")?;
    if !ended.success() {
        let units: Vec<_> = UNITS.iter().map(|unit| format!("-u {unit}")).collect();
        bail!("the file is written, but `{text}` failed: journalctl {} says why", units.join(" "));
    }
    writeln!(out, "Started         {}", UNITS.join(", "))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        Line::parse_from(["setup"].iter().chain(line)).args
    }

    fn gather(line: &[&str], said: Option<&str>) -> (anyhow::Result<Answers>, String) {
        let (mut user, mut out) = (said.map(str::as_bytes), Vec::new());
        let question = Question { user: user.as_mut(), out: &mut out };
        let before = Config {
            node_name: Some("n1".to_owned()),
            advertise: Some("10.0.0.1:7000".to_owned()),
            ..Config::default()
        };
        let answers = Answers::gather(&before, &args(line), question);
        (answers, String::from_utf8(out).unwrap())
    }

    /// R-OPS-1: what the file has is proposed; what cannot be used is asked for again, with the reason.
    #[test]
    fn questions_propose_and_repeat() {
        let (answers, asked) = gather(&["--no-start"], Some("\nnowhere\n10.0.0.9:7000\n"));
        let answers = answers.unwrap();
        assert_eq!((&*answers.name, &*answers.advertise), ("n1", "10.0.0.9:7000"));
        assert!(asked.contains("[n1]") && asked.contains("[10.0.0.1:7000]"), "{asked}");
        assert!(asked.contains("is not host:port"), "{asked}");
        assert_eq!(answers.start, Start::ByHand);
        let (cut, _) = gather(&["--no-start"], Some("n2\n"));
        assert!(cut.is_err_and(|error| error.to_string().contains("nothing was written")));
    }

    /// R-OPS-1: without a terminal nothing is asked, and a bad option is refused.
    #[test]
    fn options_are_not_asked_for() {
        let (answers, asked) = gather(&["--name", "n5", "--label", "zone=a"], None);
        let answers = answers.unwrap();
        assert_eq!((&*answers.name, &*answers.advertise), ("n5", "10.0.0.1:7000"));
        assert_eq!(answers.labels.get("zone").map(String::as_str), Some("a"));
        assert_eq!((answers.start, asked.as_str()), (Start::ByHand, ""));
        let (refused, _) = gather(&["--advertise", "10.0.0.9"], None);
        assert!(refused.is_err_and(|error| format!("{error:#}").contains("host:port")));
    }

    /// R-OPS-1: a second run without new answers changes nothing; others keep the rest and the mode.
    #[test]
    fn the_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jacod.yaml");
        let run = |line: &[&str]| {
            let nobody = None::<&mut &[u8]>;
            run(&path, Path::new("/none"), &args(line), nobody, &mut Vec::new())
        };
        run(&["--yes", "--name", "n1", "--advertise", "10.0.0.1:7000"]).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        assert_eq!(first, "node_name: \"n1\"\nadvertise: \"10.0.0.1:7000\"\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(&path, format!("{first}# mine\nlog_level: debug\n")).unwrap();
        run(&["--yes"]).unwrap();
        run(&["--yes", "--label", "disk=ssd"]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            format!("{first}# mine\nlog_level: debug\nlabels: {{\"disk\": \"ssd\"}}\n")
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(run(&["--yes", "--name", "not a name"]).is_err());
        assert!(run(&["--label", "disk=hdd"]).is_err(), "nobody can be asked");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "a refused run writes nothing");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    /// R-OPS-1: a daemon is started with the file that was written, which stays a link where it is one.
    #[test]
    fn another_file_is_started_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.yaml"), folder.path().join("jacod.yaml"));
        fs::write(&file, "log_level: debug\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let run = |line: &[&str]| {
            let (nobody, mut out) = (None::<&mut &[u8]>, Vec::new());
            let done = run(&link, Path::new("/none"), &args(line), nobody, &mut out);
            done.map(|()| String::from_utf8(out).unwrap())
        };
        let line = ["--yes", "--name", "n1", "--advertise", "10.0.0.1:7000"];
        let told = run(&line).unwrap();
        let command = format!("jacod --config {}", link.display());
        assert!(told.contains(&command), "{told}");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&file).unwrap().contains("node_name: \"n1\""));
        let refused = run(&[&line[..], &["--start"]].concat()).unwrap_err().to_string();
        assert!(refused.contains("the services read /none"), "{refused}");
    }
}
