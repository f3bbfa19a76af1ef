//! `jaco notify add`

use std::io::Read;
use std::path::{Path, PathBuf};

use jaco_client::{fresh_request_id, fresh_secret};
use jaco_proto::v1::{NotifyFilter, StoreNotifyTargetRequest};

use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::{Summary, notify};

/// The most bytes that are read of a file with an address or a secret.
const FILE_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// The name of the target
    #[arg(value_name = "NAME")]
    name: String,
    /// What it takes: `webhook`, the event as JSON with a signature; `slack`, a line of text, as Slack and what is compatible
    /// with it take it; `email`, a mail
    #[arg(value_name = "FORM", value_parser = ["webhook", "slack", "email"])]
    form: String,
    /// The address; of mail that of the server, smtps://USER@HOST:PORT or smtp://USER@HOST:PORT, without a user for a relay
    /// that wants none
    #[arg(value_name = "URL", required_unless_present = "url_file")]
    url: Option<String>,
    /// Read the address from a file, or from stdin with `-`
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    url_file: Option<PathBuf>,
    /// Read the secret that signs from a file, or from stdin with `-`: 16 to 256 printable characters without spaces
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    mail: MailArgs,
    /// Events of this group, or `all`; can be repeated
    #[arg(long = "group", value_name = "GROUP", value_parser = [
        "all", "wake", "deployments", "rollouts", "replicas", "jobs", "nodes", "certificates", "access", "cluster",
    ])]
    groups: Vec<String>,
    /// Events of this type, as `jaco audit` has it; can be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events about this deployment; can be repeated
    #[arg(long = "deployment", value_name = "DEPLOYMENT")]
    deployments: Vec<String>,
    /// Only events that are at least as severe
    #[arg(long, value_name = "SEVERITY", value_parser = ["info", "warning", "critical"])]
    severity: Option<String>,
    /// Take an address without encryption that is not this machine's own: who is on the way reads and changes what is sent
    #[arg(long)]
    insecure_http: bool,
    /// Send it nothing before `jaco notify resume`
    #[arg(long)]
    paused: bool,
    /// Replace a target of this name, which goes on where it was
    #[arg(long)]
    replace: bool,
}

/// What only mail has.
#[derive(Debug, clap::Args)]
struct MailArgs {
    /// From whom mail is
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// To whom mail goes; can be repeated, up to 16 times
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
    /// Read the password of the user at the mail server from a file, or from stdin with `-`
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// What is secret of a target.
#[derive(Default)]
struct Secret {
    text: String,
    /// What is shown of it: one that was made here.
    made: Option<String>,
}

pub(super) async fn add(session: &mut Session, args: AddArgs) -> CommandResult {
    check(&args)?;
    let filter = filter(&args);
    let url = match (args.url, &args.url_file) {
        (Some(url), _) => url,
        (None, Some(file)) => read(file)?,
        (None, None) => String::new(),
    };
    let secret = match (args.form.as_str(), &args.secret_file, &args.mail.password_file) {
        ("webhook", None, _) => {
            let text = fresh_secret();
            Secret { made: Some(text.clone()), text }
        }
        ("webhook", Some(file), _) | ("email", _, Some(file)) => {
            Secret { text: read(file)?, made: None }
        }
        (_, _, _) => Secret::default(),
    };
    let request = StoreNotifyTargetRequest {
        name: args.name,
        form: args.form,
        url,
        secret: secret.text,
        filter: Some(filter),
        insecure_http: args.insecure_http,
        replace: args.replace,
        request_id: fresh_request_id(),
        mail_from: args.mail.from.unwrap_or_default(),
        mail_to: args.mail.to,
        paused: args.paused,
        dry_run: false,
    };
    let stored = session.client()?.store_notify_target(request).await?;
    let target = stored.target.unwrap_or_default();
    let mut json = notify::json(&target);
    let done = if stored.change == "updated" { "replaced" } else { "added" };
    let events = target.filter.as_ref().map(notify::filter_text).unwrap_or_default();
    let mut text =
        format!("notification target {} {done}: {} ({events})\n", target.name, target.address);
    if target.paused_at_ms > 0 {
        text += &format!("it is paused: jaco notify resume {}\n", target.name);
    }
    if let Some(made) = secret.made {
        text += &format!("secret that signs, shown only now: {made}\n");
        json["secret"] = made.into();
    }
    session.done(&Summary { json, text })
}

/// Refuses what has no meaning for the form.
fn check(args: &AddArgs) -> Result<(), CliError> {
    let MailArgs { from, to, password_file } = &args.mail;
    let is_mail = args.form == "email";
    let refused = |message: &str, help: &str| Err(CliError::usage(message, help));
    if args.form != "webhook" && args.secret_file.is_some() {
        return match is_mail {
            true => refused("mail is not signed", "leave --secret-file out"),
            false => refused(
                "a target of the form slack has no secret beside its address",
                "leave --secret-file out",
            ),
        };
    }
    let has_mail = from.is_some() || !to.is_empty() || password_file.is_some();
    if !is_mail && has_mail {
        let help = "leave them out, or write `email` for the form";
        return refused("--from, --to and --password-file are for mail", help);
    }
    if is_mail && (from.is_none() || to.is_empty()) {
        let help = "for example --from jaco@example.com --to ops@example.com";
        return refused("mail needs --from and --to", help);
    }
    if is_mail && args.insecure_http {
        let help =
            "leave it out: only a mail server at 127.0.0.1 or [::1] is reached without encryption";
        return refused("--insecure-http is not for mail", help);
    }
    Ok(())
}

/// The events that were asked for; without a word about them those that wake an operator.
fn filter(args: &AddArgs) -> NotifyFilter {
    let AddArgs { groups, types, deployments, severity, .. } = args;
    let is_default =
        groups.is_empty() && types.is_empty() && deployments.is_empty() && severity.is_none();
    let is_all = groups.iter().any(|group| group == "all");
    NotifyFilter {
        groups: match (is_default, is_all) {
            (true, _) => vec!["wake".to_owned()],
            (false, true) => Vec::new(),
            (false, false) => groups.clone(),
        },
        types: if is_all { Vec::new() } else { types.clone() },
        deployments: deployments.clone(),
        severity: severity.clone().unwrap_or_default(),
    }
}

/// A file with one line.
fn read(file: &Path) -> Result<String, CliError> {
    let unreadable = |error| CliError::local(format!("cannot read {}", file.display()), error);
    let mut text = String::new();
    let done = match file == Path::new("-") {
        true => std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text),
        false => std::fs::File::open(file)
            .and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_string(&mut text)),
    };
    done.map_err(unreadable)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
