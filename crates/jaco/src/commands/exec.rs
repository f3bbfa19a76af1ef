//! `jaco exec`

use std::io::{self, IsTerminal, Read};
use std::thread;

use jaco_client::{Exec, ExecInputs, Taken};
use jaco_proto::v1::exec_output::Output;
use jaco_proto::v1::{ExecStart, ExecStarted, ReplicaInfo, StatusRequest, StatusResponse};
use jaco_types::ErrorCode;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Context;
use crate::error::CliError;
use crate::terminal::{self, Changed};
use crate::ui::{Format, Frame, Show, Stream};
use crate::wait::interrupted;

/// How much is read of standard input at once.
const PIECE_BYTES: usize = 32 << 10;

/// Run a command in a replica's container
///
/// On whichever node that is. Of a service, a replica that runs is taken. What the command reads comes
/// from here, what it writes goes here, and its exit code is the exit code; where jaco itself fails, that
/// is as `jaco help exit-codes` says, with an error on stderr. On a terminal the command gets one, too.
/// The audit log notes who ran which program where, not its arguments. Over --server a connection lives
/// for an hour at most, and so does a command.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco exec shop/web -- sh
  jaco exec shop-db-0 -- pg_dump shop > shop.sql
  jaco exec -u root -e DEBUG=1 shop/web -- ls -l /srv
  tar c conf | jaco exec shop-web-1 -- tar x -C /srv")]
pub(crate) struct Args {
    /// A service, or one replica
    #[arg(value_name = "DEPLOYMENT/SERVICE|REPLICA")]
    of: String,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,
    /// Run it as this user: name or number, and perhaps :group
    #[arg(short, long, value_name = "USER", default_value = "", hide_default_value = true)]
    user: String,
    /// Run it in this folder of the container
    #[arg(short, long, value_name = "PATH", default_value = "", hide_default_value = true)]
    workdir: String,
    /// Give it this variable as well
    #[arg(short, long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// Give it no terminal, though there is one here
    #[arg(short = 'T', long)]
    no_tty: bool,
    /// Give it nothing to read: for loops that read standard input themselves
    #[arg(short, long)]
    no_stdin: bool,
}

/// Returns what the command ended with.
pub(crate) async fn run(context: &mut Context, args: Args) -> Result<u8, CliError> {
    let client = context.client()?;
    let replica = match args.of.split_once('/') {
        None => args.of.clone(),
        Some((deployment, service)) => {
            let request =
                StatusRequest { deployment: deployment.to_owned(), ..StatusRequest::default() };
            of_service(client.overview(request).await?, deployment, service)?
        }
    };
    let programs = matches!(context.ui.format(), Format::Json | Format::Yaml);
    let terminals = io::stdin().is_terminal() && context.ui.is_terminal(Stream::Out);
    let on_terminal = terminals && !args.no_tty && !args.no_stdin && !programs;
    let start = ExecStart {
        replica,
        command: args.command,
        environment: args.env,
        user: args.user,
        working_dir: args.workdir,
        stdin: !args.no_stdin,
        terminal: on_terminal.then(|| terminal::size(io::stdout())),
    };
    let exec = client.exec(start).await?;
    let failed = |error| CliError::local("the terminal cannot be used", error);
    let lent = match on_terminal {
        true => Some(Changed::raw(io::stdin()).map_err(failed)?),
        false => None,
    };
    let resized = match on_terminal {
        true => Some(signal(SignalKind::window_change()).map_err(failed)?),
        false => None,
    };
    if !args.no_stdin {
        send_stdin(exec.inputs());
    }
    let ended = follow(context, exec, resized).await;
    drop(lent);
    ended
}

/// A replica of a service to run something in.
fn of_service(status: StatusResponse, deployment: &str, service: &str) -> Result<String, CliError> {
    let refused =
        |code, message: String, help| CliError::Refused { code, message, help: Some(help) };
    let Some(known) = status.deployments.iter().find(|known| known.name == deployment) else {
        let help = "jaco get deployments lists them".to_owned();
        let message = format!("there is no deployment {deployment}");
        return Err(refused(ErrorCode::DeploymentNotFound, message, help));
    };
    let services: Vec<&str> = known.services.iter().map(|service| service.name.as_str()).collect();
    if !services.contains(&service) {
        let message = format!("deployment {deployment} has no service {service}");
        let help = format!("there are {}", services.join(", "));
        return Err(refused(ErrorCode::ServiceNotFound, message, help));
    }
    let own = status.replicas.into_iter().filter(|replica| replica.service == service);
    choose(own.collect()).ok_or_else(|| {
        let message = format!("{deployment}/{service} has no replica at the moment");
        let help = format!("jaco status {deployment}/{service} shows why");
        refused(ErrorCode::ReplicaNotFound, message, help)
    })
}

/// One that runs, if there is one.
fn choose(mut replicas: Vec<ReplicaInfo>) -> Option<String> {
    let rank = |replica: &ReplicaInfo| match replica.state.as_str() {
        "running" => 0,
        "degraded" => 1,
        "starting" => 2,
        _ => 3,
    };
    replicas.sort_by(|a, b| (rank(a), &a.id).cmp(&(rank(b), &b.id)));
    replicas.into_iter().next().map(|replica| replica.id)
}

/// Sends what this process is given to read. A thread of its own: a read cannot be called off, and the
/// process must be able to end during one.
fn send_stdin(inputs: ExecInputs) {
    thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let taken = match io::stdin().read(&mut piece) {
                Ok(0) | Err(_) => {
                    let _heard = inputs.end_blocking();
                    return;
                }
                Ok(length) => inputs.send_blocking(piece[..length].to_vec()),
            };
            if taken == Taken::No {
                return;
            }
        }
    });
}

/// Shows what comes out until the command ends.
async fn follow(
    context: &mut Context,
    mut exec: Exec,
    mut resized: Option<Signal>,
) -> Result<u8, CliError> {
    let inputs = exec.inputs();
    let mut shown = Shown::default();
    loop {
        let output = tokio::select! {
            output = exec.next() => output?,
            () = changed(resized.as_mut()) => {
                // If nobody takes it, the output is about to end.
                let _taken = inputs.resize(terminal::size(io::stdout())).await;
                continue;
            }
            () = interrupted(), if resized.is_none() => {
                let message = "\nThe command may go on in its container.".to_owned();
                return Err(CliError::Interrupted { message });
            }
        };
        let Some(output) = output.map(|output| output.output) else { return Err(lost()) };
        match output {
            None => {}
            Some(Output::Started(started)) => shown.started = started,
            Some(Output::Stdout(bytes)) => shown.show(context, Stream::Out, &bytes)?,
            Some(Output::Stderr(bytes)) => shown.show(context, Stream::Err, &bytes)?,
            Some(Output::Ended(ended)) => {
                shown.end(context, ended.exit_code)?;
                // What is no exit code of a process cannot be one of this process either.
                return Ok(u8::try_from(ended.exit_code).unwrap_or(u8::MAX));
            }
        }
    }
}

/// Waits for another size of the terminal, where there is one.
async fn changed(resized: Option<&mut Signal>) {
    match resized {
        Some(resized) => drop(resized.recv().await),
        None => std::future::pending().await,
    }
}

fn lost() -> CliError {
    CliError::Refused {
        code: ErrorCode::Unavailable,
        message: "the daemon ended the connection before the command ended".to_owned(),
        help: Some("the command may go on in its container".to_owned()),
    }
}

/// What was shown so far: bytes as they come for people, whole lines for programs.
#[derive(Default)]
struct Shown {
    started: ExecStarted,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Shown {
    fn show(
        &mut self,
        context: &mut Context,
        stream: Stream,
        bytes: &[u8],
    ) -> Result<(), CliError> {
        if matches!(context.ui.format(), Format::Table | Format::Wide) {
            return context.ui.bytes(stream, bytes).map_err(CliError::Output);
        }
        let (waiting, name) = match stream {
            Stream::Out => (&mut self.out, "stdout"),
            Stream::Err => (&mut self.err, "stderr"),
        };
        waiting.extend_from_slice(bytes);
        while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = waiting.drain(..=end).collect();
            let line = Line { of: &self.started, stream: name, text: &line[..end] };
            context.ui.item(&line).map_err(CliError::Output)?;
        }
        Ok(())
    }

    fn end(&mut self, context: &mut Context, exit_code: i64) -> Result<(), CliError> {
        if matches!(context.ui.format(), Format::Table | Format::Wide) {
            return Ok(());
        }
        for (text, stream) in [(&self.out, "stdout"), (&self.err, "stderr")] {
            if !text.is_empty() {
                let line = Line { of: &self.started, stream, text };
                context.ui.item(&line).map_err(CliError::Output)?;
            }
        }
        let ended = Ended { of: &self.started, exit_code };
        context.ui.item(&ended).map_err(CliError::Output)
    }
}

/// A line for programs; what is no text is replaced.
struct Line<'a> {
    of: &'a ExecStarted,
    stream: &'static str,
    text: &'a [u8],
}

impl Show for Line<'_> {
    fn json(&self) -> Value {
        json!({
            "replica": self.of.replica,
            "node": self.of.node,
            "stream": self.stream,
            "text": String::from_utf8_lossy(self.text),
        })
    }

    fn text(&self, _: &Frame) -> String {
        String::from_utf8_lossy(self.text).into_owned()
    }
}

/// The end, for programs.
struct Ended<'a> {
    of: &'a ExecStarted,
    exit_code: i64,
}

impl Show for Ended<'_> {
    fn json(&self) -> Value {
        json!({
            "replica": self.of.replica,
            "node": self.of.node,
            "exit_code": self.exit_code,
        })
    }

    fn text(&self, _: &Frame) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: of a service, something is run where something can be run.
    #[test]
    fn a_replica_that_runs_is_taken() {
        let replica = |(id, state): &(&str, &str)| ReplicaInfo {
            id: (*id).to_owned(),
            state: (*state).to_owned(),
            ..ReplicaInfo::default()
        };
        let chosen = |of: &[(&str, &str)]| choose(of.iter().map(replica).collect());
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[("a", "failed"), ("b", "pulling")]).as_deref(), Some("a"));
        let of = [
            ("a", "failed"),
            ("b", "starting"),
            ("c", "degraded"),
            ("e", "running"),
            ("d", "running"),
        ];
        assert_eq!(chosen(&of).as_deref(), Some("d"));
        assert_eq!(chosen(&of[..3]).as_deref(), Some("c"));
    }
}
