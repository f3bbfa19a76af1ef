//! `jaco context`

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Context, Done, load_contexts};
use crate::contexts::{self, Contexts, Entry};
use crate::error::CliError;
use crate::table::Table;
use crate::ui::{Frame, Show};
use crate::view::{Said, without_null};

/// Name clusters, and say which one is meant
///
/// Kept in ~/.config/jaco/config.toml, readable by you only. It names files with tokens, never tokens.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco context add prod --servers 10.0.0.1:7000,10.0.0.2:7000 --ca ~/prod.crt --token ~/prod.token
  jaco context use prod
  jaco --context staging status")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the contexts
    Ls,
    /// Make a context the one that is meant when none is named
    Use {
        /// Its name
        name: String,
    },
    Add(Add),
    /// Forget a context; the files it names stay
    Rm {
        /// Its name
        name: String,
    },
    /// Show one context, the current one if none is named
    Show {
        /// Its name
        name: Option<String>,
    },
}

/// Add a context, or replace one
#[derive(Debug, clap::Args)]
struct Add {
    /// Its name
    name: String,
    /// Nodes of the cluster
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        required_unless_present = "unix",
        conflicts_with = "unix",
        requires = "ca"
    )]
    servers: Vec<String>,
    /// The cluster's CA certificate, PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A file with the operator token, readable by you only
    #[arg(long = "token", value_name = "FILE")]
    token: Option<PathBuf>,
    /// The unix socket of a daemon on this machine, instead of servers
    #[arg(long = "unix", value_name = "PATH")]
    unix: Option<PathBuf>,
}

pub(crate) fn run(context: &mut Context, args: Args) -> Done {
    let mut contexts = load_contexts()?;
    match args.what {
        What::Ls => context.done(&Listing(&contexts)),
        What::Show { name } => {
            let name = name.or(contexts.current.clone()).ok_or_else(|| {
                CliError::usage("no context is current", "jaco context use NAME makes one so")
            })?;
            let entry = find(&contexts, &name)?;
            context.done(&One { name: &name, entry })
        }
        What::Use { name } => {
            find(&contexts, &name)?;
            contexts.current = Some(name.clone());
            save(&contexts)?;
            done(context, &name, "current")
        }
        What::Add(add) => {
            let (name, entry) = entry(add)?;
            contexts.contexts.insert(name.clone(), entry);
            contexts.current.get_or_insert_with(|| name.clone());
            save(&contexts)?;
            done(context, &name, "added")
        }
        What::Rm { name } => {
            find(&contexts, &name)?;
            contexts.contexts.remove(&name);
            contexts.current = contexts.current.filter(|current| *current != name);
            save(&contexts)?;
            done(context, &name, "removed")
        }
    }
}

fn done(context: &mut Context, name: &str, outcome: &str) -> Done {
    let json = json!({ "context": name, "outcome": outcome });
    context.done(&Said { json, text: format!("context {name} {outcome}\n") })
}

fn find<'c>(contexts: &'c Contexts, name: &str) -> Result<&'c Entry, CliError> {
    contexts.contexts.get(name).ok_or_else(|| {
        CliError::usage(format!("there is no context {name:?}"), "jaco context ls shows them")
    })
}

fn save(contexts: &Contexts) -> Result<(), CliError> {
    let path = contexts::default_path().ok_or_else(|| {
        CliError::usage("there is no place for contexts", "set HOME or XDG_CONFIG_HOME")
    })?;
    contexts.save(&path).map_err(|error| CliError::local("the contexts cannot be kept", error))
}

/// Paths are kept absolute: a context is used from anywhere.
fn entry(add: Add) -> Result<(String, Entry), CliError> {
    let absolute = |path: Option<PathBuf>| {
        let absolute = path.as_deref().map(std::path::absolute).transpose();
        absolute.map_err(|error| CliError::local("a path cannot be resolved", error))
    };
    let entry = Entry {
        socket: absolute(add.unix)?,
        servers: add.servers,
        ca: absolute(add.ca)?,
        token_file: absolute(add.token)?,
    };
    Ok((add.name, entry))
}

struct Listing<'a>(&'a Contexts);

impl Show for Listing<'_> {
    fn json(&self) -> Value {
        let item = |(name, entry): (&String, &Entry)| {
            let mut json = json(name, entry);
            json["current"] = (self.0.current.as_ref() == Some(name)).into();
            json
        };
        self.0.contexts.iter().map(item).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["CONTEXT", "CURRENT", "CLUSTER"]);
        for (name, entry) in &self.0.contexts {
            let current = if self.0.current.as_ref() == Some(name) { "yes" } else { "" };
            table.row([name.clone(), current.to_owned(), place(entry)]);
        }
        table.render()
    }
}

fn place(entry: &Entry) -> String {
    match &entry.socket {
        Some(path) => path.display().to_string(),
        None => entry.servers.join(","),
    }
}

struct One<'a> {
    name: &'a str,
    entry: &'a Entry,
}

impl Show for One<'_> {
    fn json(&self) -> Value {
        json(self.name, self.entry)
    }

    fn text(&self, _: &Frame) -> String {
        crate::yaml::to_yaml(&self.json())
    }
}

fn json(name: &str, entry: &Entry) -> Value {
    let text = |path: &Option<PathBuf>| path.as_deref().map(Path::display).map(|p| p.to_string());
    without_null(json!({
        "name": name,
        "socket": text(&entry.socket),
        "servers": entry.servers,
        "ca": text(&entry.ca),
        "token_file": text(&entry.token_file),
    }))
}
