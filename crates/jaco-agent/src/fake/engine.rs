//! The fake host behind the engine trait, in real time.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use jaco_store::{Clock, SystemClock};
use jaco_types::{BlobDigest, DeploymentName, Timestamp};
use tokio::sync::watch;

use super::host::{FakeHost, Shown};
use super::{exec, load, record, transfer, volumes};
use crate::engine::RegistryCredentials;
use crate::engine::{
    CollectedVolume, ContainerEngine, ContainerId, ContainerRequest, Counters, EngineError,
    EngineEvent, EngineVersion, EventStream, Follow, HeldVolume, KeptNetworks, LogLine, LogLines,
    LogQuery, ObservedContainer, ObservedImage, Owner, ProgressSink, PullError, PullProgress,
    PullRequest, StartError, VolumeGc, VolumeTarget,
};

use crate::engine::exec::{BesideRequest, ExecInputs, ExecOutputs, ExecRequest};
use crate::engine::transfer::{Archive, ArchiveInput, BoxConnection, PathStat};

/// How often a pull tells its progress.
const PULL_STEPS: u64 = 10;

/// Polling interval of observers: only changes made directly on the host, as by a test, wait this
/// long.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A fake engine in real time. Clones share the host.
#[derive(Debug, Clone)]
pub struct FakeEngine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Mutex<FakeHost>,
    file: Option<PathBuf>,
    clock: SystemClock,
    changed: watch::Sender<u64>,
    files: transfer::Files,
    contents: volumes::Contents,
}

impl FakeEngine {
    /// An engine whose containers live in memory.
    #[must_use]
    pub fn new(host: FakeHost) -> Self {
        Self::with_file(host, None)
    }

    /// An engine whose containers are stored in `file` and survive the process.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn kept_in(owner: Owner, file: PathBuf) -> io::Result<Self> {
        let mut host = FakeHost::new(owner);
        record::load(&mut host, &file)?;
        Ok(Self::with_file(host, Some(file)))
    }

    fn with_file(host: FakeHost, file: Option<PathBuf>) -> Self {
        let (changed, _) = watch::channel(0);
        Self {
            shared: Arc::new(Shared {
                host: Mutex::new(host),
                file,
                clock: SystemClock,
                changed,
                files: transfer::Files::default(),
                contents: volumes::Contents::default(),
            }),
        }
    }

    /// Changes the host: sets a script, or changes a container.
    pub fn edit<T>(&self, change: impl FnOnce(&mut FakeHost, Timestamp) -> T) -> T {
        let now = self.shared.clock.now();
        let mut host = self.shared.host.lock().expect("no holder of the lock panics");
        let result = change(&mut host, now);
        if let Some(file) = &self.shared.file
            && let Err(error) = record::save(&host, file)
        {
            tracing::error!(file = %file.display(), %error, "fake containers not stored");
        }
        drop(host);
        self.shared.changed.send_modify(|version| *version += 1);
        result
    }

    fn look<T>(&self, question: impl FnOnce(&FakeHost, Timestamp) -> T) -> T {
        let host = self.shared.host.lock().expect("no holder of the lock panics");
        question(&host, self.shared.clock.now())
    }

    /// Waits until the host changes.
    async fn wait_for_change(&self, changed: &mut watch::Receiver<u64>) {
        let (now, next) = self.look(|host, now| (now, host.next_change(now)));
        let sleep = next.map_or(LOOK_AGAIN, |at| LOOK_AGAIN.min(until(now, at)));
        // The caller checks again in either case.
        let _timed_out = tokio::time::timeout(sleep, changed.changed()).await;
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::from_millis(at.since(now).0)
}

/// A subscriber to events.
struct Listener {
    engine: FakeEngine,
    changed: watch::Receiver<u64>,
    shown: Shown,
}

impl Listener {
    async fn next(&mut self) -> Result<Vec<EngineEvent>, EngineError> {
        loop {
            let shown = &mut self.shown;
            let events =
                self.engine.look(|host, now| host.answer().map(|()| shown.news(host, now)))?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.engine.wait_for_change(&mut self.changed).await;
        }
    }
}

#[async_trait]
impl ContainerEngine for FakeEngine {
    async fn version(&self) -> Result<EngineVersion, EngineError> {
        self.look(|host, _| host.answer())?;
        Ok(EngineVersion { name: "fake".to_owned(), version: "1".to_owned() })
    }

    async fn list_owned(&self) -> Result<Vec<ObservedContainer>, EngineError> {
        self.look(|host, now| host.answer().map(|()| host.list(now)))
    }

    async fn events(&self) -> Result<EventStream, EngineError> {
        let shown = self.look(|host, now| host.answer().map(|()| Shown::until(host, now)))?;
        let changed = self.shared.changed.subscribe();
        let listener = Listener { engine: self.clone(), changed, shown };
        let batches = stream::unfold(Some(listener), |listener| async {
            let mut listener = listener?;
            match listener.next().await {
                Ok(events) => {
                    Some((events.into_iter().map(Ok).collect::<Vec<_>>(), Some(listener)))
                }
                Err(error) => Some((vec![Err(error)], None)),
            }
        });
        Ok(batches.flat_map(stream::iter).boxed())
    }

    async fn pull(
        &self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
        progress: ProgressSink,
    ) -> Result<(), PullError> {
        let takes = self.look(|host, _| {
            let answer = host.answer();
            answer.map_err(|error| PullError::Unreachable { reason: error.to_string() })?;
            Ok(host.pull_outcome(pull, credentials).0)
        })?;
        // A byte a millisecond.
        let begun = tokio::time::Instant::now();
        for step in 0..=PULL_STEPS {
            let done = takes.0 * step / PULL_STEPS;
            tokio::time::sleep_until(begun + Duration::from_millis(done)).await;
            progress(PullProgress { done, total: takes.0 });
        }
        self.edit(|host, _| host.finish_pull(pull, credentials))
    }

    async fn find_image(&self, pull: &PullRequest) -> Result<Option<ObservedImage>, EngineError> {
        self.look(|host, _| host.answer().map(|()| host.find_image(pull)))
    }

    async fn known_layers(&self, layers: &[BlobDigest]) -> Result<usize, EngineError> {
        self.look(|host, _| host.answer().map(|()| host.known_layers(layers)))
    }

    async fn load_image(
        &self,
        image: &PullRequest,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        let loaded = load::read(image, archive).await?;
        self.edit(|host, _| host.load(image, &loaded))
    }

    async fn ensure_running(
        &self,
        request: &ContainerRequest,
    ) -> Result<ObservedContainer, StartError> {
        let takes = self.look(|host, _| host.start_takes(request));
        tokio::time::sleep(Duration::from_millis(takes.0)).await;
        self.edit(|host, now| host.ensure_running(request, now))
    }

    async fn stop(&self, container: &ContainerId) -> Result<(), EngineError> {
        let (now, at) = self.edit(|host, now| host.stop(container, now).map(|at| (now, at)))?;
        tokio::time::sleep(until(now, at)).await;
        Ok(())
    }

    async fn remove(&self, container: &ContainerId) -> Result<(), EngineError> {
        self.edit(|host, _| host.remove(container))
    }

    async fn join_networks(
        &self,
        container: &ContainerId,
        request: &ContainerRequest,
    ) -> Result<(), StartError> {
        self.edit(|host, now| host.join_networks(container, request, now))
    }

    async fn remove_networks(&self, keep: &KeptNetworks) -> Result<(), EngineError> {
        self.edit(|host, _| host.remove_networks(keep))
    }

    async fn collect_volumes(
        &self,
        collection: &VolumeGc,
    ) -> Result<Vec<CollectedVolume>, EngineError> {
        self.edit(|host, _| host.collect_volumes(collection))
    }

    async fn volumes(&self) -> Result<Vec<HeldVolume>, EngineError> {
        self.look(|host, now| host.held_volumes(now))
    }

    fn volume_of(&self, deployment: &DeploymentName, key: &str, container: &str) -> Option<String> {
        volumes::volume_of(deployment, key, container)
    }

    async fn read_volume(&self, name: &str) -> Result<Archive, EngineError> {
        self.look(|host, _| host.require_volume(name))?;
        Ok(self.shared.contents.read(name))
    }

    async fn write_volume(
        &self,
        volume: &VolumeTarget,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        let archive = volumes::whole(archive).await?;
        self.edit(|host, now| host.make_volume(volume, now))?;
        self.shared.contents.write(&volume.name, archive);
        Ok(())
    }

    /// Fake containers use no resources.
    async fn used(&self, _: &ContainerId) -> Result<Option<Counters>, EngineError> {
        Ok(None)
    }

    async fn logs(
        &self,
        container: &ContainerId,
        query: LogQuery,
    ) -> Result<LogLines, EngineError> {
        let read = self.read_log(container)?;
        let gone = || EngineError::Refused { reason: format!("no such container: {container}") };
        let mut lines = read.ok_or_else(gone)?.lines;
        let told = lines.len();
        lines.retain(|line| query.since.is_none_or(|since| line.at >= Some(since)));
        let tail = query.tail.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(usize::MAX);
        lines.drain(..lines.len().saturating_sub(tail));
        let now = stream::iter(lines.into_iter().map(Ok));
        match query.follow {
            Follow::No => Ok(now.boxed()),
            Follow::Yes => Ok(now.chain(self.follow(container.clone(), told)).boxed()),
        }
    }

    async fn exec(
        &self,
        container: &ContainerId,
        request: &ExecRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError> {
        self.check_runs(container)?;
        Ok(exec::run(request, inputs))
    }

    async fn run_beside(
        &self,
        container: &ContainerId,
        request: &BesideRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError> {
        self.check_runs(container)?;
        Ok(exec::run_beside(request, inputs))
    }

    async fn stat(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Option<PathStat>, EngineError> {
        self.check_runs(container)?;
        Ok(self.shared.files.stat(container, path))
    }

    async fn read_archive(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Archive, EngineError> {
        self.check_runs(container)?;
        self.shared.files.read(container, path)
    }

    async fn write_archive(
        &self,
        container: &ContainerId,
        folder: &str,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        self.check_runs(container)?;
        self.shared.files.write(container, folder, archive).await
    }

    async fn connect(
        &self,
        container: &ContainerId,
        port: u16,
    ) -> Result<BoxConnection, EngineError> {
        self.check_runs(container)?;
        transfer::connect(port)
    }
}

/// The log of a container, and whether it can grow.
struct Log {
    lines: Vec<LogLine>,
    complete: Complete,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Complete {
    No,
    Yes,
}

impl FakeEngine {
    fn check_runs(&self, container: &ContainerId) -> Result<(), EngineError> {
        let runs = self.look(|host, now| {
            host.answer()?;
            Ok(host.containers.get(container).is_some_and(|seen| seen.ended(now).is_none()))
        })?;
        if runs {
            return Ok(());
        }
        Err(EngineError::Refused { reason: format!("container {container} is not running") })
    }

    fn read_log(&self, container: &ContainerId) -> Result<Option<Log>, EngineError> {
        self.look(|host, now| {
            host.answer()?;
            let ended = host.containers.get(container).is_none_or(|c| c.ended(now).is_some());
            let complete = if ended { Complete::Yes } else { Complete::No };
            Ok(host.log(container, now).map(|lines| Log { lines, complete }))
        })
    }

    /// The lines after the first `told`, until the container exits or is gone.
    fn follow(&self, container: ContainerId, told: usize) -> LogLines {
        let changed = self.shared.changed.subscribe();
        let start = Some((self.clone(), changed, told));
        let batches = stream::unfold(start, move |state| {
            let container = container.clone();
            async move {
                let (engine, mut changed, told) = state?;
                loop {
                    let log = match engine.read_log(&container) {
                        Ok(log) => log?,
                        Err(error) => return Some((vec![Err(error)], None)),
                    };
                    let next = log.lines.len();
                    let lines: Vec<_> = log.lines.into_iter().skip(told).map(Ok).collect();
                    match (log.complete, lines.is_empty()) {
                        (Complete::Yes, _) => return Some((lines, None)),
                        (Complete::No, false) => {
                            return Some((lines, Some((engine, changed, next))));
                        }
                        (Complete::No, true) => engine.wait_for_change(&mut changed).await,
                    }
                }
            }
        });
        batches.flat_map(stream::iter).boxed()
    }
}
