//! `jaco run`

use std::time::Duration;

use jaco_client::{Client, ClientError, fresh_request_id};
use jaco_proto::v1::{ExecStart, JobsRequest, RunInfo, RunJobRequest};
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;
use serde_json::json;
use tokio::time::Instant;

use super::attached::{Abandoned, How, connect};
use crate::error::CliError;
use crate::format::time;
use crate::session::Session;
use crate::session::replica::Named;
use crate::session::wait::interrupted;
use crate::view::json::without_null;
use crate::view::{Summary, job as view};

/// How often the run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is told that it goes on: job runners kill a process without output.
const TOLD_EVERY: Duration = Duration::from_secs(15);

/// Run a job now, or a command beside a replica
///
/// Without a command, begins a run of a service with `deploy.mode: replicated-job` or `global-job`, with its present spec and
/// whatever its schedule, and waits for its end. The exit code is that of its container: of the first that failed, if one of
/// several replicas did. It is refused while the job runs. The run goes on when this command ends; `jaco get job` lists it,
/// and `jaco logs` shows its output until the next run.
///
/// With a command, runs it in a container of its own beside a running replica: with the image, environment, secrets,
/// volumes and limits of the replica, and in its network, so that other services have the same names. The command replaces
/// that of the service and keeps its entry point. Input, output, terminal and exit code are as with `jaco exec`. The
/// container is no replica: nothing is sent to it, checks or restarts it, and it is removed once the command has exited or
/// this one ends.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco run shop/report
  jaco run shop/report --detach && jaco logs shop/report --follow
  jaco get job shop/report           its earlier runs
  jaco run shop/web -- rake db:migrate
  jaco run shop/web --entrypoint sh -- -c 'env | sort'")]
pub(crate) struct Args {
    /// The job; with a command, a service or one replica of it
    #[arg(value_name = "DEPLOYMENT/SERVICE[/N]|REPLICA")]
    of: String,
    /// Return as soon as the run has begun
    #[arg(long, conflicts_with = "command")]
    detach: bool,
    /// Maximum time to wait; the run goes on after it
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time::duration, conflicts_with = "command")]
    timeout: Duration,
    /// Program in place of the service's entry point
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "",
        hide_default_value = true,
        requires = "command"
    )]
    entrypoint: String,
    #[command(flatten)]
    how: How,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
}

/// Returns the exit code of the job or command.
pub(crate) async fn run(session: &mut Session, args: Args) -> Result<u8, CliError> {
    if args.command.is_empty() { job(session, args).await } else { beside(session, args).await }
}

/// Runs a command beside a replica.
async fn beside(session: &mut Session, args: Args) -> Result<u8, CliError> {
    let client = session.client()?;
    let replica = Named::parse(&args.of).replica(&client).await?;
    let start = args.how.start(session, replica, args.command);
    let start = ExecStart { entrypoint: args.entrypoint, ..start };
    let exec = client.run_beside(start.clone()).await?;
    connect(session, exec, &start, Abandoned::Ends).await
}

/// Runs a job.
async fn job(session: &mut Session, args: Args) -> Result<u8, CliError> {
    let Some((deployment, service)) = args.of.split_once('/') else {
        let message = format!("{:?} does not name a service", args.of);
        return Err(CliError::usage(message, "write DEPLOYMENT/SERVICE, such as shop/report"));
    };
    let client = session.client()?;
    let request = RunJobRequest {
        deployment: deployment.to_owned(),
        service: service.to_owned(),
        request_id: fresh_request_id(),
    };
    let begun = client.run_job(request).await.map_err(|error| no_job(&args.of, error))?;
    if args.detach {
        let json = json!({ "deployment": deployment, "service": service, "run": begun.number });
        let text = format!("run {} of {} has begun\n", begun.number, args.of);
        return session.done(&Summary { json, text }).map(|code| code as u8);
    }
    session.ui.note(&format!("run {} of {} has begun", begun.number, args.of));
    let asked = JobsRequest { deployment: deployment.to_owned(), service: service.to_owned() };
    let wanted = Wanted { name: &args.of, number: begun.number, limit: args.timeout };
    let ended = wait(session, &client.until(None), asked, &wanted).await?;
    let json = without_null(json!({
        "deployment": deployment,
        "service": service,
        "run": view::run_json(&ended),
    }));
    let took = time::ago(ended.begun_at_ms, ended.ended_at_ms);
    let text =
        format!("run {} of {} {} after {took}\n", ended.number, args.of, view::result(&ended));
    session.done(&Summary { json, text })?;
    Ok(code(&ended))
}

/// Whoever names a service that is no job may have meant a command.
fn no_job(of: &str, error: ClientError) -> CliError {
    let Some(refusal) = error.rejection().filter(|it| it.code == ErrorCode::InvalidRequest) else {
        return error.into();
    };
    CliError::Refused {
        code: refusal.code,
        message: refusal.message.clone(),
        help: Some(format!("`jaco run {of} -- COMMAND` runs a command beside a replica of it")),
    }
}

/// The run that is waited for.
struct Wanted<'a> {
    name: &'a str,
    number: u64,
    limit: Duration,
}

/// Waits for the end of a run, and tells now and then that it goes on.
async fn wait(
    session: &mut Session,
    client: &Client,
    asked: JobsRequest,
    wanted: &Wanted<'_>,
) -> Result<RunInfo, CliError> {
    let Wanted { name, number, limit } = wanted;
    let (begun, mut told) = (Instant::now(), Instant::now());
    loop {
        let answer = tokio::select! {
            biased;
            () = interrupted() => {
                let message = format!("Run {number} of {name} goes on: `jaco get job {name}` shows its end.");
                return Err(CliError::Interrupted { message });
            }
            answer = client.jobs(asked.clone()) => answer?,
        };
        let Some(job) = answer.jobs.into_iter().next() else {
            return Err(outcome(
                ErrorCode::ServiceNotFound,
                format!("{name} is gone, and run {number} with it"),
            ));
        };
        // The node that answers may be a moment behind.
        let run = job.runs.iter().find(|run| run.number == *number);
        let was_forgotten = job.runs.iter().any(|run| run.number > *number) && run.is_none();
        match run {
            Some(run) if run.ended_at_ms > 0 => return Ok(run.clone()),
            _ if was_forgotten => {
                let message = format!("run {number} of {name} ended, and is not kept any more");
                return Err(outcome(ErrorCode::InvalidRequest, message));
            }
            Some(_) | None => {}
        }
        if begun.elapsed() > *limit {
            let message = format!("run {number} of {name} goes on after {}", time::elapsed(*limit));
            return Err(outcome(ErrorCode::TimedOut, message));
        }
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            session
                .ui
                .note(&format!("run {number} goes on for {}", time::elapsed(begun.elapsed())));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn outcome(code: ErrorCode, message: String) -> CliError {
    let help = vec!["`jaco get jobs` lists the jobs and their last runs".to_owned()];
    CliError::Outcome { code, message, because: Vec::new(), help }
}

/// The exit code of a process has eight bits.
fn code(run: &RunInfo) -> u8 {
    match (run.result.as_str(), run.exit_code) {
        ("succeeded", _) => ExitCode::Converged as u8,
        (_, Some(code)) if code != 0 => u8::try_from(code).unwrap_or(u8::MAX),
        (_, Some(_) | None) => ExitCode::Unexpected as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-JOB-2: the exit code is the job's; what has none failed.
    #[test]
    fn exit_code_is_that_of_the_job() {
        let ended = |result: &str, exit_code| {
            code(&RunInfo { result: result.to_owned(), exit_code, ..RunInfo::default() })
        };
        assert_eq!(ended("succeeded", Some(0)), 0);
        assert_eq!(ended("failed", Some(3)), 3);
        assert_eq!(ended("failed", Some(300)), 255);
        assert_eq!(ended("failed", Some(-1)), 255);
        assert_eq!(ended("failed", None), 1);
        assert_eq!(ended("replaced", None), 1);
    }
}
