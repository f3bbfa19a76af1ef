//! Contract tests of a container engine. Each panics with the violated rule. An engine that passes
//! all of them can be used by the agent.
//!
//! The image must contain the `hello` program, which serves, checks itself, exits and delays as
//! told. The fake is scripted by the labels next to each command.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use jaco_types::{
    DeploymentName, Exit, InstanceId, Ipv4Prefix, NetworkId, NetworkName, NetworkReach,
    NetworkScope, Ordinal, RegistryName, RegistryUsername, ReplicaId, ServiceKey, ServiceName,
    SpecHash, StateIndex, Subnet,
};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::engine::RegistryCredentials;
use crate::engine::exec::{
    ExecInput, ExecInputs, ExecOutput, ExecOutputs, ExecRequest, Stdin, TerminalSize,
};
use crate::engine::transfer::{ArchiveInput, PathKind};
use crate::engine::{
    AttachedNetwork, ContainerEngine, ContainerRequest, ContainerStatus, EngineError, EngineEvent,
    EventStream, Follow, Health, KeptNetworks, LogQuery, MountedFiles, ObservedContainer,
    PullError, PullRequest, StartError,
};

/// Time limit of every wait.
const DEADLINE: Duration = Duration::from_secs(30);

const SERVES: &str = r#""command":["serve"]"#;

/// Two owners on the same machine, and the images they may run.
pub struct Fixture {
    /// The engine as one node uses it.
    pub engine: Arc<dyn ContainerEngine>,
    /// The same engine as another node uses it.
    pub other_node: Arc<dyn ContainerEngine>,
    /// The `hello` image, present on the machine.
    pub image: Arc<str>,
    /// An image that does not exist.
    pub absent: Arc<str>,
    made: AtomicU64,
}

impl std::fmt::Debug for Fixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fixture").field("image", &self.image).finish_non_exhaustive()
    }
}

impl Fixture {
    /// A fixture for the checks.
    #[must_use]
    pub fn new(
        engine: Arc<dyn ContainerEngine>,
        other_node: Arc<dyn ContainerEngine>,
        image: &str,
        absent: &str,
    ) -> Self {
        let made = AtomicU64::new(1);
        Self { engine, other_node, image: image.into(), absent: absent.into(), made }
    }

    /// A request for a new instance whose container has these keys.
    #[must_use]
    pub fn request(&self, keys: &str) -> ContainerRequest {
        let service = ServiceKey {
            deployment: DeploymentName::new("contract").expect("a valid name"),
            service: ServiceName::new("web").expect("a valid name"),
        };
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let replica = ReplicaId::new(&service, &Ordinal::Index(number));
        ContainerRequest {
            instance: InstanceId { replica, raft_index: StateIndex(number + 10) },
            service,
            image: Arc::clone(&self.image),
            container: format!(r#"{{"service":{{"image":"{}",{keys}}}}}"#, self.image).into(),
            spec_hash: SpecHash([9; 32]),
            files: MountedFiles::default(),
            gpus: Vec::new(),
            networks: Vec::new(),
        }
    }

    async fn start(&self, request: &ContainerRequest) -> ObservedContainer {
        self.engine.ensure_running(request).await.expect("it starts")
    }

    async fn listed(&self, instance: &InstanceId) -> Option<ObservedContainer> {
        let listed = self.engine.list_owned().await.expect("the engine answers");
        listed.into_iter().find(|seen| seen.instance == *instance)
    }

    async fn clear(&self, seen: &ObservedContainer) {
        self.engine.stop(&seen.container).await.expect("it stops");
        self.engine.remove(&seen.container).await.expect("it can be removed");
    }
}

/// Waits for an event that `wanted` accepts.
async fn await_event<T>(
    events: &mut EventStream,
    what: &str,
    wanted: impl Fn(EngineEvent) -> Option<T>,
) -> T {
    let search = async {
        loop {
            let event = events.next().await.expect("the stream goes on").expect("no error");
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    };
    tokio::time::timeout(DEADLINE, search).await.unwrap_or_else(|_| panic!("no event: {what}"))
}

fn status_of(event: EngineEvent, instance: &InstanceId) -> Option<ContainerStatus> {
    match event {
        EngineEvent::Changed(seen) if seen.instance == *instance => Some(seen.status),
        EngineEvent::Changed(_) | EngineEvent::Gone { .. } => None,
    }
}

/// A started container is listed with the same attributes, and starting it again changes nothing.
pub async fn start_is_idempotent(fixture: &Fixture) {
    let request = fixture.request(SERVES);
    let first = fixture.start(&request).await;
    assert!(matches!(first.status, ContainerStatus::Up { health: Health::None, .. }), "{first:?}");
    let again = fixture.start(&request).await;
    let listed = fixture.listed(&request.instance).await.expect("it is listed");
    let face = |seen: &ObservedContainer| {
        (seen.container.clone(), seen.service.clone(), seen.ports.clone(), seen.spec_hash)
    };
    assert_eq!(face(&again), face(&first));
    assert_eq!(face(&listed), face(&first));
    assert_eq!(listed.spec_hash, Some(request.spec_hash));
    fixture.clear(&first).await;
    assert_eq!(fixture.listed(&request.instance).await, None);
}

/// Stopping and removing an exited or missing container is no error.
pub async fn stop_and_remove_are_idempotent(fixture: &Fixture) {
    let seen = fixture.start(&fixture.request(SERVES)).await;
    for _ in 0..2 {
        fixture.engine.stop(&seen.container).await.expect("it stops");
    }
    for _ in 0..2 {
        fixture.engine.remove(&seen.container).await.expect("it can be removed");
    }
    fixture.engine.stop(&seen.container).await.expect("gone is fine");
}

/// An exit is reported immediately with its code, stays listed, and is not undone by another start.
pub async fn exit_is_reported_and_final(fixture: &Fixture) {
    let mut events = fixture.engine.events().await.expect("events");
    let request = fixture.request(
        r#""command":["exit","3"],"labels":{"jaco.fake.exit_code":"3","jaco.fake.exit_after_ms":"20"}"#,
    );
    let seen = fixture.start(&request).await;
    let told = await_event(&mut events, "the exit", |event| {
        let status = status_of(event, &request.instance)?;
        match status {
            ContainerStatus::Exited { exit, .. } => Some(exit),
            ContainerStatus::Created | ContainerStatus::Up { .. } => None,
        }
    });
    assert_eq!(told.await, Exit { code: 3, out_of_memory: false });
    let again = fixture.start(&request).await;
    assert_eq!(again.container, seen.container);
    assert!(matches!(again.status, ContainerStatus::Exited { .. }), "{again:?}");
    let listed = fixture.listed(&request.instance).await.expect("it is listed");
    assert!(matches!(listed.status, ContainerStatus::Exited { .. }), "{listed:?}");
    fixture.clear(&seen).await;
}

/// R-HEAL-3: a stop honours the grace period of the manifest.
pub async fn stop_honours_the_grace_period(fixture: &Fixture) {
    let request = fixture.request(
        r#""command":["grace","60"],"stop_grace_period":"2s","labels":{"jaco.fake.stop_ms":"60000"}"#,
    );
    let seen = fixture.start(&request).await;
    let before = Instant::now();
    fixture.engine.stop(&seen.container).await.expect("it stops");
    let took = before.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(6), "{took:?}");
    let listed = fixture.listed(&request.instance).await.expect("it is listed");
    match listed.status {
        ContainerStatus::Exited { exit, .. } => assert_eq!(exit.code, 137),
        status @ (ContainerStatus::Created | ContainerStatus::Up { .. }) => panic!("{status:?}"),
    }
    fixture.clear(&seen).await;
}

/// R-HEAL-3: hooks and signal share the grace period. A hook without an end takes all of it, and a process that
/// would exit at once is stopped after it, not before.
pub async fn pre_stop_shares_the_grace_period(fixture: &Fixture) {
    let request = fixture.request(
        r#""command":["serve"],"stop_grace_period":"2s",
           "pre_stop":[{"command":["/hello","sleep"]},{"command":["/hello","sleep"]}],
           "labels":{"jaco.fake.pre_stop_ms":"60000"}"#,
    );
    let seen = fixture.start(&request).await;
    let before = Instant::now();
    fixture.engine.stop(&seen.container).await.expect("it stops");
    let took = before.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(6), "{took:?}");
    let listed = fixture.listed(&request.instance).await.expect("it is listed");
    assert!(matches!(listed.status, ContainerStatus::Exited { .. }), "{listed:?}");
    fixture.clear(&seen).await;
}

/// A container that exited by itself has no hook run in it.
pub async fn an_exited_container_has_no_pre_stop(fixture: &Fixture) {
    let mut events = fixture.engine.events().await.expect("events");
    let request = fixture.request(
        r#""command":["exit","3"],"pre_stop":[{"command":["/hello","sleep"]}],
           "labels":{"jaco.fake.exit_code":"3","jaco.fake.pre_stop_ms":"60000"}"#,
    );
    let seen = fixture.start(&request).await;
    let exited = |event| match status_of(event, &request.instance)? {
        ContainerStatus::Exited { .. } => Some(()),
        ContainerStatus::Created | ContainerStatus::Up { .. } => None,
    };
    if !matches!(seen.status, ContainerStatus::Exited { .. }) {
        await_event(&mut events, "the exit", exited).await;
    }
    let before = Instant::now();
    fixture.engine.stop(&seen.container).await.expect("it has stopped");
    assert!(before.elapsed() < Duration::from_secs(6), "{:?}", before.elapsed());
    fixture.clear(&seen).await;
}

/// Health changes are reported: starting, healthy, then unhealthy with the output of the check.
pub async fn health_is_reported(fixture: &Fixture) {
    let mut events = fixture.engine.events().await.expect("events");
    let request = fixture.request(
        r#""command":["serve"],"environment":{"HELLO_UNHEALTHY_AFTER_MS":"3000"},
           "healthcheck":{"test":["CMD","/hello","check","http://127.0.0.1:8080/healthz"],
                          "interval":"500ms","timeout":"2s","retries":1},
           "labels":{"jaco.fake.healthy_after_ms":"100","jaco.fake.unhealthy_after_ms":"400"}"#,
    );
    let seen = fixture.start(&request).await;
    let starting = ContainerStatus::Up { health: Health::Starting, started_at: at(&seen) };
    assert_eq!(seen.status, starting);
    let health = |event| match status_of(event, &request.instance)? {
        ContainerStatus::Up { health, .. } => Some(health),
        ContainerStatus::Created | ContainerStatus::Exited { .. } => None,
    };
    let is_good = |event| health(event).filter(|health| *health == Health::Healthy);
    await_event(&mut events, "healthy", is_good).await;
    let is_bad = |event| match health(event)? {
        Health::Unhealthy { output } => Some(output),
        Health::None | Health::Starting | Health::Healthy => None,
    };
    let output = await_event(&mut events, "unhealthy", is_bad).await;
    assert!(!output.is_empty(), "what the check wrote is told");
    fixture.clear(&seen).await;
}

fn at(seen: &ObservedContainer) -> jaco_types::Timestamp {
    match seen.status {
        ContainerStatus::Up { started_at, .. } => started_at,
        ContainerStatus::Created | ContainerStatus::Exited { .. } => panic!("not up: {seen:?}"),
    }
}

/// A removal is reported.
pub async fn removal_is_reported(fixture: &Fixture) {
    let mut events = fixture.engine.events().await.expect("events");
    let request = fixture.request(SERVES);
    let seen = fixture.start(&request).await;
    fixture.clear(&seen).await;
    let gone = EngineEvent::Gone { instance: request.instance, container: seen.container };
    await_event(&mut events, "gone", |event| (event == gone).then_some(())).await;
}

/// A start without its image and a failed pull name the image as the reason.
pub async fn absent_image_is_named(fixture: &Fixture) {
    let labels = r#""labels":{"jaco.fake.pull_error":"no such image"}"#;
    let request =
        ContainerRequest { image: Arc::clone(&fixture.absent), ..fixture.request(labels) };
    let started = fixture.engine.ensure_running(&request).await;
    let image = fixture.absent.to_string();
    assert_eq!(started, Err(StartError::ImageAbsent { image }));
    let pull = PullRequest { image: Arc::clone(&fixture.absent), platform: None };
    let pulled = fixture.engine.pull(&pull, None, Arc::new(|_| {})).await;
    assert!(matches!(pulled, Err(PullError::Refused { .. })), "{pulled:?}");
    assert_eq!(fixture.listed(&request.instance).await, None);
}

/// R-CLI-6: the error of a refused pull with credentials does not contain the password.
pub async fn refusal_does_not_contain_the_password(fixture: &Fixture) {
    let registry = RegistryName::of_image(&fixture.absent).expect("it names one");
    let username = RegistryUsername::new("robot").expect("a valid name");
    let credentials = RegistryCredentials::new(registry, username, "hunter2".to_owned());
    let pull = PullRequest { image: Arc::clone(&fixture.absent), platform: None };
    let pulled = fixture.engine.pull(&pull, Some(&credentials), Arc::new(|_| {})).await;
    let Err(PullError::Refused { reason }) = pulled else { panic!("{pulled:?}") };
    assert!(!reason.contains("hunter2"), "{reason}");
}

/// R-PLACE-8: a missing GPU driver is reported as the reason, with advice.
pub async fn missing_gpu_driver_is_the_reason(fixture: &Fixture) {
    let keys = r#""command":["serve"],"gpus":[{"driver":"absent","count":1}],
        "labels":{"jaco.fake.refuse":"could not select device driver \"absent\""}"#;
    let gpus = vec![Arc::from("GPU-0")];
    let request = ContainerRequest { gpus, ..fixture.request(keys) };
    let started = fixture.engine.ensure_running(&request).await;
    let Err(error @ StartError::GpuRuntimeMissing { .. }) = &started else { panic!("{started:?}") };
    let said = error.to_string();
    assert!(said.contains("driver \"absent\"") && said.contains("toolkit"), "{said}");
    if let Some(made) = fixture.listed(&request.instance).await {
        fixture.clear(&made).await;
    }
}

/// The log can be read while the container runs and after its exit.
pub async fn logs_can_be_read(fixture: &Fixture) {
    let request = fixture.request(
        r#""command":["exit","0","--after","50"],"labels":{"jaco.fake.exit_code":"0","jaco.fake.exit_after_ms":"50"}"#,
    );
    let seen = fixture.start(&request).await;
    let query = LogQuery { follow: Follow::Yes, tail: None, since: None };
    let lines = fixture.engine.logs(&seen.container, query).await.expect("logs");
    let all = tokio::time::timeout(DEADLINE, lines.collect::<Vec<_>>());
    let all = all.await.expect("following ends with the container");
    assert!(!all.is_empty() && all.iter().all(Result::is_ok), "{all:?}");
    let first = all[0].as_ref().expect("a line");
    assert!(first.at.is_some() && !first.text.is_empty() && !first.text.ends_with('\n'));
    let query = LogQuery { follow: Follow::No, tail: Some(1), since: None };
    let lines = fixture.engine.logs(&seen.container, query).await.expect("logs");
    let last: Vec<_> = lines.collect().await;
    assert_eq!(last, all[all.len() - 1..]);
    fixture.clear(&seen).await;
}

fn hello(words: &[&str], stdin: Stdin, terminal: Option<TerminalSize>) -> ExecRequest {
    let command = ["/hello"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    let (environment, user, working_dir) = (Vec::new(), None, None);
    ExecRequest { command, environment, user, working_dir, stdin, terminal }
}

/// All output of a command and its exit code.
async fn ran(mut outputs: ExecOutputs) -> (Vec<u8>, Vec<u8>, i64) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        let output = tokio::time::timeout(DEADLINE, outputs.next()).await.expect("it ends");
        match output.expect("its end is told").expect("no error") {
            ExecOutput::Stdout(bytes) => out.extend(bytes),
            ExecOutput::Stderr(bytes) => err.extend(bytes),
            ExecOutput::Exited(code) => return (out, err, code),
        }
    }
}

/// Waits until a command has written this.
async fn written(outputs: &mut ExecOutputs, wanted: &str) {
    let mut seen = String::new();
    while !seen.contains(wanted) {
        let output = tokio::time::timeout(DEADLINE, outputs.next()).await;
        let output = output.unwrap_or_else(|_| panic!("no {wanted:?} in {seen:?}"));
        match output {
            Some(Ok(ExecOutput::Stdout(bytes))) => seen += &String::from_utf8_lossy(&bytes),
            other => panic!("{other:?} after {seen:?}"),
        }
    }
}

/// R-CLI-6: a command receives all its input in order as it arrives; its output and exit code come
/// back.
pub async fn command_input_and_output_arrive(fixture: &Fixture) {
    let seen = fixture.start(&fixture.request(SERVES)).await;
    let run = async |request: ExecRequest, inputs: ExecInputs| {
        fixture.engine.exec(&seen.container, &request, inputs).await.expect("it is started")
    };
    let (sender, receiver) = mpsc::channel(1);
    let inputs = ReceiverStream::new(receiver).boxed();
    let mut outputs = run(hello(&["cat"], Stdin::Sent, None), inputs).await;
    sender.send(ExecInput::Stdin(b"are you there?".to_vec())).await.expect("it listens");
    written(&mut outputs, "are you there?").await;
    // More than any buffer holds, with every byte value.
    let many: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    let pieces: Vec<Vec<u8>> = many.chunks(32 << 10).map(<[u8]>::to_vec).collect();
    let sending = async {
        for piece in pieces {
            sender.send(ExecInput::Stdin(piece)).await.expect("it listens");
        }
        sender.send(ExecInput::StdinEnd).await.expect("it listens");
    };
    let ((), (out, err, code)) = tokio::join!(sending, ran(outputs));
    assert!(out == many, "{} bytes of {}", out.len(), many.len());
    assert_eq!((err, code), (Vec::new(), 0));

    let nothing = || futures::stream::pending().boxed();
    let check = async |words: &[&str], code: i64| {
        let told = ran(run(hello(words, Stdin::None, None), nothing()).await).await;
        assert_eq!(told.2, code, "{words:?}");
        (String::from_utf8(told.0).expect("text"), String::from_utf8(told.1).expect("text"))
    };
    assert_eq!(check(&["echo", "a", "b"], 0).await, ("a b\n".to_owned(), String::new()));
    check(&["exit", "7"], 7).await;
    let (out, err) = check(&["dance"], 2).await;
    assert!(out.is_empty() && err.contains("unknown command"), "{out:?} {err:?}");
    let absent =
        ExecRequest { command: vec!["/absent".to_owned()], ..hello(&[], Stdin::None, None) };
    let (out, err, code) = ran(run(absent, nothing()).await).await;
    let said = String::from_utf8_lossy(&[out, err].concat()).into_owned();
    assert!(
        (code == 126 || code == 127) && said.contains("not found") || said.contains("no such file"),
        "{code} {said}"
    );
    fixture.clear(&seen).await;
}

/// R-CLI-6: a command gets a terminal of the requested size, and resizes arrive.
pub async fn command_has_a_terminal(fixture: &Fixture) {
    let seen = fixture.start(&fixture.request(SERVES)).await;
    let (sender, receiver) = mpsc::channel(1);
    let inputs = ReceiverStream::new(receiver).boxed();
    let first = TerminalSize { columns: 101, rows: 37 };
    let request = hello(&["size"], Stdin::Sent, Some(first));
    let outputs = fixture.engine.exec(&seen.container, &request, inputs).await;
    let mut outputs = outputs.expect("it is started");
    written(&mut outputs, "101x37").await;
    let second = TerminalSize { columns: 55, rows: 20 };
    sender.send(ExecInput::Resize(second)).await.expect("it listens");
    written(&mut outputs, "55x20").await;
    // Ctrl-D.
    sender.send(ExecInput::Stdin(vec![4])).await.expect("it listens");
    assert_eq!(ran(outputs).await.2, 0);
    fixture.clear(&seen).await;
}

/// R-CLI-6: a command in an exited container is refused with a reason.
pub async fn command_requires_a_running_container(fixture: &Fixture) {
    let seen = fixture.start(&fixture.request(SERVES)).await;
    fixture.engine.stop(&seen.container).await.expect("it stops");
    let nothing = futures::stream::pending().boxed();
    let request = hello(&["echo"], Stdin::None, None);
    let refused = fixture.engine.exec(&seen.container, &request, nothing).await.err();
    let Some(EngineError::Refused { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("not running"), "{reason}");
    fixture.clear(&seen).await;
}

/// A tar archive of one file in a folder.
fn archive(folder: &str, name: &str, content: &str) -> Vec<u8> {
    let entry = |path: &str, kind: u8, content: &str| {
        let mut header = vec![0_u8; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[100..107].copy_from_slice(b"0000755");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        header.extend_from_slice(content.as_bytes());
        header.resize(header.len().next_multiple_of(512), 0);
        header
    };
    let folder_entry = entry(&format!("{folder}/"), b'5', "");
    [folder_entry, entry(&format!("{folder}/{name}"), b'0', content), vec![0; 1024]].concat()
}

/// R-CLI-6: an archive is unpacked in a folder of the container and read back from there, with nothing in the image but its
/// one program; what is not there is told apart from what cannot be done, and a broken archive is no success.
pub async fn files_are_copied_as_archives(fixture: &Fixture) {
    let seen = fixture.start(&fixture.request(SERVES)).await;
    let (engine, container) = (&fixture.engine, &seen.container);
    // More than one piece.
    let content = "a line of notes\n".repeat(20_000);
    let whole = archive("notes", "today", &content);
    let pieces = |pieces: Vec<std::io::Result<Bytes>>| futures::stream::iter(pieces).boxed();
    let sent = whole.chunks(10_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    engine.write_archive(container, "/", pieces(sent)).await.expect("it is unpacked");
    let stat = engine.stat(container, "/notes").await.expect("it answers").expect("it is there");
    assert_eq!((stat.kind, stat.path.as_str()), (PathKind::Folder, "/notes"));
    let back = engine.read_archive(container, "/notes").await.expect("it is there");
    let back: Vec<Bytes> = back.try_collect().await.expect("all of it");
    let back = back.concat();
    let holds = |wanted: &[u8]| back.windows(wanted.len()).any(|window| window == wanted);
    assert!(back.starts_with(b"notes/") && holds(content.as_bytes()), "{} bytes", back.len());

    assert_eq!(engine.stat(container, "/absent").await, Ok(None));
    assert!(engine.read_archive(container, "/absent").await.is_err());
    let absent =
        engine.write_archive(container, "/absent", pieces(vec![Ok(whole.clone().into())])).await;
    assert!(matches!(absent, Err(EngineError::Refused { .. })), "{absent:?}");
    let gone = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let broken = vec![Ok(Bytes::copy_from_slice(&whole[..2000])), Err(gone)];
    assert!(engine.write_archive(container, "/", pieces(broken)).await.is_err());
    fixture.clear(&seen).await;
}

/// R-CLI-6: a port where nothing listens is refused with a reason.
pub async fn closed_ports_are_refused(fixture: &Fixture) {
    let seen = fixture.start(&fixture.request(SERVES)).await;
    let refused = fixture.engine.connect(&seen.container, 1).await.err();
    let Some(EngineError::Refused { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains('1'), "{reason}");
    fixture.clear(&seen).await;
}

/// Two nodes on one machine see and touch only their own containers.
pub async fn owners_are_isolated(fixture: &Fixture) {
    let request = fixture.request(SERVES);
    let mine = fixture.start(&request).await;
    let theirs = fixture.other_node.ensure_running(&request).await.expect("it starts");
    assert_ne!(mine.container, theirs.container);
    assert_ne!(mine.owner, theirs.owner);
    let ids = |list: Vec<ObservedContainer>| -> BTreeMap<_, _> {
        list.into_iter().map(|seen| (seen.container, seen.owner)).collect()
    };
    let listed = ids(fixture.engine.list_owned().await.expect("a list"));
    assert!(listed.contains_key(&mine.container) && !listed.contains_key(&theirs.container));
    fixture.engine.remove_networks(&KeptNetworks::default()).await.expect("networks in use stay");
    fixture.clear(&mine).await;
    let listed = ids(fixture.other_node.list_owned().await.expect("a list"));
    assert!(listed.contains_key(&theirs.container));
    fixture.other_node.stop(&theirs.container).await.expect("it stops");
    fixture.other_node.remove(&theirs.container).await.expect("it can be removed");
    for engine in [&fixture.engine, &fixture.other_node] {
        for _ in 0..2 {
            engine.remove_networks(&KeptNetworks::default()).await.expect("gone is fine");
        }
    }
}

/// The networks of a test, which run side by side on one engine: subnet 10.66.`place`.0/24.
#[must_use]
pub fn network_of_cluster(place: u8, address: u8) -> AttachedNetwork {
    let number = u32::from(place) + 1000;
    let first = Ipv4Addr::new(10, 66, place, 0);
    let prefix = Ipv4Prefix::new(first, 24).expect("it is the first address");
    AttachedNetwork {
        id: NetworkId(number),
        scope: NetworkScope::Shared(NetworkName::new(&format!("n{place}")).expect("a valid name")),
        subnet: Subnet::new(prefix).expect("a size that networks have"),
        reach: NetworkReach::Outside,
        mtu: 1400,
        address: Ipv4Addr::new(10, 66, place, address),
    }
}

/// In networks of the cluster a container has its own addresses: none gets one that another container has.
/// Nodes that share an engine share such a network. It is removed once nobody uses it, and where other
/// networks have its addresses, the refusal says so.
pub async fn networks_of_the_cluster_have_their_addresses(fixture: &Fixture) {
    let request = |networks: &[AttachedNetwork]| ContainerRequest {
        networks: networks.to_vec(),
        ..fixture.request(SERVES)
    };
    let (front, back) = (network_of_cluster(1, 3), network_of_cluster(2, 3));
    let one = request(&[front.clone(), back.clone()]);
    let seen = fixture.start(&one).await;
    assert_eq!(fixture.start(&one).await.container, seen.container);
    let again = fixture.engine.ensure_running(&request(std::slice::from_ref(&front))).await;
    let Err(StartError::Refused { reason }) = again else { panic!("{again:?}") };
    assert!(reason.to_lowercase().contains("already in use"), "{reason}");
    let other = AttachedNetwork { id: NetworkId(1101), ..network_of_cluster(1, 9) };
    let overlapping = request(&[other]);
    let refused = fixture.engine.ensure_running(&overlapping).await;
    let Err(StartError::SubnetInUse { network, subnet, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((network.as_str(), subnet.as_str()), ("n1", "10.66.1.0/24"));
    fixture.engine.remove_networks(&KeptNetworks::default()).await.expect("those in use stay");
    let second = fixture.start(&request(&[network_of_cluster(1, 4)])).await;
    let theirs = request(&[network_of_cluster(1, 5)]);
    let theirs = fixture.other_node.ensure_running(&theirs).await.expect("the network is shared");
    fixture.other_node.stop(&theirs.container).await.expect("it stops");
    fixture.other_node.remove(&theirs.container).await.expect("it can be removed");
    for seen in [&seen, &second] {
        fixture.clear(seen).await;
    }
    let keep = KeptNetworks { cluster: [back.id].into(), ..KeptNetworks::default() };
    for engine in [&fixture.engine, &fixture.other_node] {
        engine.remove_networks(&keep).await.expect("they are not in use");
    }
    let seen = fixture.engine.ensure_running(&overlapping).await.expect("its place is free now");
    fixture.clear(&seen).await;
    for seen in fixture.engine.list_owned().await.expect("a list") {
        fixture.clear(&seen).await;
    }
    fixture.engine.remove_networks(&KeptNetworks::default()).await.expect("they are not in use");
}

/// A container that runs in networks of its node is attached to networks of the cluster without being disturbed. It has
/// the requested addresses there, and what it has already it may ask for again.
pub async fn running_containers_join_networks_of_the_cluster(fixture: &Fixture) {
    let apart = fixture.request(SERVES);
    let seen = fixture.start(&apart).await;
    let networks = vec![network_of_cluster(5, 3), network_of_cluster(6, 3)];
    let joining = ContainerRequest { networks: networks.clone(), ..apart };
    for _ in 0..2 {
        let joined = fixture.engine.join_networks(&seen.container, &joining).await;
        joined.expect("the addresses are free");
    }
    let same = fixture.engine.list_owned().await.expect("a list");
    let same = same.into_iter().find(|one| one.container == seen.container).expect("it is there");
    assert_eq!(same.status, seen.status, "it runs as before");
    for network in networks {
        let networks = vec![network];
        let second = ContainerRequest { networks, ..fixture.request(SERVES) };
        let refused = fixture.engine.ensure_running(&second).await;
        let Err(StartError::Refused { reason }) = refused else { panic!("{refused:?}") };
        assert!(reason.to_lowercase().contains("already in use"), "{reason}");
    }
    for seen in fixture.engine.list_owned().await.expect("a list") {
        fixture.clear(&seen).await;
    }
    fixture.engine.remove_networks(&KeptNetworks::default()).await.expect("they are not in use");
}

/// Concurrent starts do not interfere.
pub async fn concurrent_starts_do_not_interfere(fixture: &Fixture) {
    let requests: Vec<_> = (0..4).map(|_| fixture.request(SERVES)).collect();
    let starts = requests.iter().map(|request| fixture.engine.ensure_running(request));
    let seen = futures::future::join_all(starts).await;
    for seen in seen {
        fixture.clear(&seen.expect("each starts")).await;
    }
}

/// Pushed images are loaded whole, or without layers that the engine has, and run under the id that they are pinned to; one
/// that lacks a layer is refused. Returns the names that the engine has them under.
///
/// # Panics
/// If a rule is violated.
pub async fn pushed_images_are_loaded(fixture: &Fixture) -> Vec<String> {
    // Layers of this run only: an engine keeps them.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let run = now.expect("the clock is set").as_nanos();
    let layer = |name: &str| tar(&[(&format!("{name}-{run}"), name.as_bytes())]);
    let (base, first, second) = (layer("base"), layer("first"), layer("second"));
    let engine = &fixture.engine;
    let ids = |layers: &[&Vec<u8>]| layers.iter().map(|layer| blob(layer)).collect::<Vec<_>>();
    let known = async |layers: &[&Vec<u8>]| engine.known_layers(&ids(layers)).await;
    assert_eq!(known(&[&base, &first]).await, Ok(0));
    let load = async |layers: &[&Vec<u8>], known: usize| {
        let (pull, archive) = saved(layers, known);
        (engine.load_image(&pull, archive).await, pull)
    };
    let (refused, absent) = load(&[&base, &first], 1).await;
    assert!(matches!(refused, Err(EngineError::Refused { .. })), "{refused:?}");
    assert_eq!(engine.find_image(&absent).await, Ok(None));
    let (loaded, one) = load(&[&base, &first], 0).await;
    assert_eq!(loaded, Ok(()));
    let found = engine.find_image(&one).await.expect("it answers").expect("it is there");
    assert_eq!(found.digest, jaco_types::ImageDigest::parse(&one.image));
    let own = known(&[&base, &first]).await.expect("it answers");
    let shared = known(&[&base, &second]).await.expect("it answers");
    assert!((own, shared) == (2, 1) || (own, shared) == (0, 0), "{own} {shared}");
    let (loaded, two) = load(&[&base, &second], shared).await;
    assert_eq!(loaded, Ok(()), "what the engine has was left out");
    assert!(engine.find_image(&two).await.expect("it answers").is_some());
    let mut request = fixture.request(SERVES);
    request.image = Arc::clone(&two.image);
    // There is no program in it; that the engine knows the image is what counts.
    let started = engine.ensure_running(&request).await;
    assert!(!matches!(started, Err(StartError::ImageAbsent { .. })), "{started:?}");
    [one, two].iter().map(|pull| jaco_types::pushed::local_name(&pull.image)).collect()
}

fn blob(content: &[u8]) -> jaco_types::BlobDigest {
    jaco_types::BlobDigest(Sha256::digest(content).into())
}

/// An image of these layers without the first `known`, pinned to its id.
fn saved(layers: &[&Vec<u8>], known: usize) -> (PullRequest, ArchiveInput) {
    let ids: Vec<String> = layers.iter().map(|layer| blob(layer).to_string()).collect();
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": ids },
    })
    .to_string();
    let image = format!("contract/app@{}", blob(config.as_bytes()));
    let names: Vec<String> = (0..layers.len()).map(|number| format!("{number}.tar")).collect();
    let tag = jaco_types::pushed::local_name(&image);
    let manifest =
        serde_json::json!([{ "Config": "c.json", "RepoTags": [tag], "Layers": names }]).to_string();
    let mut files = vec![("manifest.json", manifest.as_bytes()), ("c.json", config.as_bytes())];
    let layers = names.iter().zip(layers).skip(known);
    files.extend(layers.map(|(name, layer)| (name.as_str(), layer.as_slice())));
    let whole = tar(&files);
    let pieces: Vec<_> =
        whole.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    (PullRequest { image: image.into(), platform: None }, futures::stream::iter(pieces).boxed())
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        bytes.extend_from_slice(&crate::images::header(name, content.len() as u64));
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(crate::images::HEADER_BYTES), 0);
    }
    bytes.resize(bytes.len() + 2 * crate::images::HEADER_BYTES, 0);
    bytes
}
