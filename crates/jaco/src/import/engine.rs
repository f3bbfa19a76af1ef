//! Reads what runs from the container engine of this machine, by its command line. Only `ls`, `info` and `inspect` are run:
//! nothing of the engine is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::process::Stdio;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::inspected::{self, Container, Image, Network, Service, Volume};
use super::label;
use super::scene::ProjectSnapshot;
use super::stack::StackSnapshot;
use crate::error::CliError;
use crate::image::engine_program;

/// Bytes of one answer at most: thousands of containers.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Objects that are asked for at once; a command line has a limit.
const OBJECTS_AT_ONCE: usize = 100;

/// Bytes of a message of the engine that are kept.
const MESSAGE_BYTES_MAX: u64 = 16 << 10;

/// Something that runs, by its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) services: BTreeSet<String>,
    pub(crate) containers: usize,
    /// The compose files of a project.
    pub(crate) files: Vec<String>,
}

/// What can be imported.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) projects: BTreeMap<String, Running>,
    pub(crate) stacks: BTreeMap<String, Running>,
}

/// Lists projects and stacks.
///
/// # Errors
/// If the engine does not answer.
pub(crate) fn list() -> Result<Listed, CliError> {
    let mut listed = Listed::default();
    for container in containers(label::PROJECT)? {
        let labels = &container.config.labels;
        let Some(project) = labels.get(label::PROJECT) else { continue };
        let running = listed.projects.entry(project.clone()).or_default();
        running.services.extend(labels.get(label::SERVICE).cloned());
        running.containers += usize::from(container.state.running);
        running.files = label::files(labels);
    }
    if is_manager()? {
        for service in services(label::STACK)? {
            let Some(stack) = service.spec.labels.get(label::STACK) else { continue };
            let running = listed.stacks.entry(stack.clone()).or_default();
            running.services.insert(service.spec.name.clone());
        }
    }
    Ok(listed)
}

/// Reads a project; one without containers if there is none of that name.
///
/// # Errors
/// If the engine does not answer.
pub(crate) fn read_project(name: &str) -> Result<ProjectSnapshot, CliError> {
    let containers = containers(&format!("{}={name}", label::PROJECT))?;
    let distinct = |names: BTreeSet<&String>| names.into_iter().cloned().collect::<Vec<_>>();
    let images = distinct(containers.iter().map(|container| &container.image).collect());
    let networks = containers.iter().flat_map(|one| one.network_settings.networks.keys());
    let networks = distinct(networks.collect());
    let mounts = containers.iter().flat_map(|container| &container.mounts);
    let volumes = mounts.filter(|mount| mount.kind == "volume").map(|mount| &mount.name);
    let volumes = distinct(volumes.collect());
    Ok(ProjectSnapshot {
        name: name.to_owned(),
        images: inspect::<Image>("image", &images)?,
        networks: inspect::<Network>("network", &networks)?,
        volumes: inspect::<Volume>("volume", &volumes)?,
        containers,
    })
}

/// Reads a stack; one without services if there is none of that name.
///
/// # Errors
/// If the engine does not answer, or is no manager of a swarm.
pub(crate) fn read_stack(name: &str) -> Result<StackSnapshot, CliError> {
    if !is_manager()? {
        return Err(CliError::usage(
            "the engine of this machine is no manager of a swarm, so it knows no stacks",
            "run it on a manager, or import a project of Docker Compose: jaco compose-import PROJECT",
        ));
    }
    let services = services(&format!("{}={name}", label::STACK))?;
    // By their ids: networks that every node has are listed under other ones.
    let targets = services.iter().flat_map(Service::attachments).map(|one| one.target.clone());
    let networks: Vec<String> = targets.collect::<BTreeSet<_>>().into_iter().collect();
    let mut configs = BTreeMap::new();
    let used = services.iter().flat_map(|one| &one.spec.task_template.container_spec.configs);
    for config in used {
        let id = &config.config_id;
        // As bytes: the other form is in base64.
        let format = "{{printf \"%s\" .Spec.Data}}";
        let mut content = output(&["config", "inspect", "--format", format, id])?;
        if content.last() == Some(&b'\n') {
            content.pop();
        }
        configs.insert(id.clone(), content);
    }
    Ok(StackSnapshot {
        name: name.to_owned(),
        services,
        networks: inspect::<Network>("network", &networks)?,
        configs,
    })
}

fn containers(label: &str) -> Result<Vec<Container>, CliError> {
    let filter = format!("label={label}");
    let ids = lines(&["container", "ls", "--all", "--quiet", "--no-trunc", "--filter", &filter])?;
    inspect("container", &ids)
}

fn services(label: &str) -> Result<Vec<Service>, CliError> {
    let ids = lines(&["service", "ls", "--quiet", "--filter", &format!("label={label}")])?;
    inspect("service", &ids)
}

fn is_manager() -> Result<bool, CliError> {
    let said = output(&["info", "--format", "{{.Swarm.ControlAvailable}}"])?;
    Ok(said.trim_ascii() == b"true")
}

/// Reads objects. Those that have gone meanwhile are left out.
fn inspect<T: DeserializeOwned>(kind: &str, names: &[String]) -> Result<Vec<T>, CliError> {
    let mut objects = Vec::new();
    for names in names.chunks(OBJECTS_AT_ONCE) {
        let mut args = vec![kind, "inspect", "--"];
        args.extend(names.iter().map(String::as_str));
        let answer = run(&args)?;
        let unreadable = |error: serde_json::Error| {
            CliError::local(format!("what `docker {kind} inspect` says cannot be read"), error)
        };
        let listed: Vec<Value> = match serde_json::from_slice(&answer.out) {
            Ok(listed) => listed,
            // It says why, and lists nothing.
            Err(_) if !answer.succeeded => return Err(failed(&args[..2], &answer.said)),
            Err(error) => return Err(unreadable(error)),
        };
        for object in listed {
            objects.push(inspected::read(object).map_err(unreadable)?);
        }
    }
    Ok(objects)
}

fn lines(args: &[&str]) -> Result<Vec<String>, CliError> {
    let out = output(args)?;
    Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
}

fn output(args: &[&str]) -> Result<Vec<u8>, CliError> {
    let answer = run(args)?;
    if answer.succeeded { Ok(answer.out) } else { Err(failed(&args[..2], &answer.said)) }
}

struct Answer {
    succeeded: bool,
    out: Vec<u8>,
    said: String,
}

/// Runs the command line of the engine.
fn run(args: &[&str]) -> Result<Answer, CliError> {
    let mut command = engine_program();
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let local = |error: io::Error| {
        let advice = "install it, or name another one in JACO_DOCKER";
        CliError::local(
            format!("cannot run {program}, the command line of the container engine: {advice}"),
            error,
        )
    };
    let mut child = command.spawn().map_err(local)?;
    let errors = child.stderr.take().expect("it is piped");
    // Read beside, so that the engine never waits for its messages to be taken.
    let said = std::thread::spawn(move || {
        let (mut said, mut errors) = (Vec::new(), errors);
        let read = (&mut errors).take(MESSAGE_BYTES_MAX).read_to_end(&mut said);
        drop(read.and_then(|_| io::copy(&mut errors, &mut io::sink())));
        String::from_utf8_lossy(&said).trim().to_owned()
    });
    let mut out = Vec::new();
    let from = child.stdout.take().expect("it is piped");
    let read = from.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut out);
    if out.len() as u64 > ANSWER_BYTES_MAX {
        child.kill().and_then(|()| child.wait()).map_err(local)?;
        let error = io::Error::other(format!("it is more than {} MiB", ANSWER_BYTES_MAX >> 20));
        return Err(CliError::local(format!("the answer of {program} is too large"), error));
    }
    let status = child.wait();
    let said = said.join().unwrap_or_default();
    read.map_err(local)?;
    Ok(Answer { succeeded: status.map_err(local)?.success(), out, said })
}

fn failed(args: &[&str], said: &str) -> CliError {
    let what = format!("`docker {}` failed", args.join(" "));
    CliError::local(what, io::Error::other(said.to_owned()))
}
