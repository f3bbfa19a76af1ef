//! The engine contract, and what only Docker does, on a real Docker Engine. Part of the docker
//! layer: `cargo xtask test docker`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{FutureExt, StreamExt};
use jaco_agent::engine::{
    AttachedNetwork, ContainerEngine, ContainerRequest, ContainerStatus, EngineEvent, EventStream,
    Follow, Health, KeptNetworks, LogQuery, ObservedContainer, ObservedImage, Owner, PullRequest,
    StartError,
};
use jaco_agent::exec::{ExecInput, ExecOutput, ExecRequest, Stdin};
use jaco_agent::suite::{self, Fixture};
use jaco_agent::transfer::PathKind;
use jaco_docker::{DockerEngine, DockerOptions};
use jaco_types::{ClusterId, InstanceId, NetworkReach, NodeId};

const IMAGE: &str = "jaco-hello:v1";
const SERVES: &str = r#""command":["serve"]"#;

fn engine(cluster: &str, node: u64) -> Arc<DockerEngine> {
    let owner = Owner { cluster: ClusterId::new(cluster).unwrap(), node: NodeId(node) };
    Arc::new(DockerEngine::new(DockerOptions::new(owner)))
}

/// A cluster of its own for each test: they run side by side, on one engine.
fn cluster(name: &str) -> String {
    let process = std::process::id();
    let name: u32 = name.bytes().fold(7, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    format!("{name:08x}{process:08x}").repeat(2)
}

/// Removes what a test leaves behind, also where it fails.
async fn clean(engines: &[Arc<DockerEngine>]) {
    for engine in engines {
        for seen in engine.list_owned().await.unwrap() {
            engine.remove(&seen.container).await.unwrap();
        }
        engine.remove_networks(&KeptNetworks::default()).await.unwrap();
    }
}

fn require_image() {
    let docker = Command::new("docker").args(["image", "inspect", IMAGE]).output();
    let present = docker.is_ok_and(|output| output.status.success());
    assert!(present, "image {IMAGE} is not on this machine: make it with `cargo xtask image`");
}

async fn with_fixture(name: &str, check: impl AsyncFnOnce(&Fixture)) {
    require_image();
    let cluster = cluster(name);
    let (mine, theirs) = (engine(&cluster, 1), engine(&cluster, 2));
    let fixture =
        Fixture::new(Arc::clone(&mine) as _, Arc::clone(&theirs) as _, IMAGE, "jaco-absent:v0");
    let result = AssertUnwindSafe(check(&fixture)).catch_unwind().await;
    clean(&[mine, theirs]).await;
    if let Err(broken) = result {
        std::panic::resume_unwind(broken);
    }
}

macro_rules! contract {
    ($($check:ident)*) => {
        $(#[tokio::test]
        async fn $check() {
            with_fixture(stringify!($check), async |fixture| suite::$check(fixture).await).await;
        })*
    };
}

/// R-PLACE-8: the GPUs that the plan names reach the engine by their ids, with driver and capabilities; an
/// engine without a runtime for them refuses the start and nothing else.
#[tokio::test]
async fn named_gpus_reach_the_engine() {
    with_fixture("named_gpus_reach_the_engine", async |fixture| {
        let cases = [
            (r#""gpus":[{"driver":"absent","count":2}]"#, r#"[["gpu"]]"#),
            (
                r#""deploy":{"resources":{"reservations":{"devices":
                    [{"driver":"absent","count":2,"capabilities":["gpu","utility"]}]}}}"#,
                r#"[["gpu","utility"]]"#,
            ),
        ];
        for (keys, capabilities) in cases {
            let gpus = vec![Arc::from("GPU-3"), Arc::from("GPU-7")];
            let keys = format!("{SERVES},{keys}");
            let request = ContainerRequest { gpus, ..fixture.request(&keys) };
            let started = fixture.engine.ensure_running(&request).await;
            assert!(matches!(started, Err(StartError::GpuRuntimeMissing { .. })), "{started:?}");
            let owned = fixture.engine.list_owned().await.unwrap();
            let made = owned.iter().find(|seen| seen.instance == request.instance);
            let made = made.expect("it was made");
            assert_eq!(made.status, ContainerStatus::Created);
            let format = "{{json .HostConfig.DeviceRequests}}";
            let inspect = ["inspect", "--format", format, &made.container.0];
            let shown = Command::new("docker").args(inspect).output().unwrap();
            let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
            let asked = &shown[0];
            assert_eq!(asked["DeviceIDs"], serde_json::json!(["GPU-3", "GPU-7"]), "{shown}");
            assert_eq!(
                (&asked["Driver"], &asked["Count"]),
                (&"absent".into(), &0.into()),
                "{shown}"
            );
            assert_eq!(asked["Capabilities"].to_string(), capabilities, "{shown}");
            fixture.engine.remove(&made.container).await.unwrap();
        }
    })
    .await;
}

contract! {
    start_is_idempotent
    stop_and_remove_are_idempotent
    exit_is_reported_and_final
    stop_honours_the_grace_period
    pre_stop_shares_the_grace_period
    an_exited_container_has_no_pre_stop
    health_is_reported
    removal_is_reported
    absent_image_is_named
    refusal_does_not_contain_the_password
    missing_gpu_driver_is_the_reason
    logs_can_be_read
    command_input_and_output_arrive
    command_has_a_terminal
    command_requires_a_running_container
    files_are_copied_as_archives
    closed_ports_are_refused
    owners_are_isolated
    networks_of_the_cluster_have_their_addresses
    running_containers_join_networks_of_the_cluster
    concurrent_starts_do_not_interfere
}

/// The contract on pushed images. What it has loaded is removed: no container of it stays.
#[tokio::test]
async fn pushed_images_are_loaded() {
    let mut names = Vec::new();
    let loaded = &mut names;
    with_fixture("pushed_images_are_loaded", async |fixture| {
        *loaded = suite::pushed_images_are_loaded(fixture).await;
    })
    .await;
    assert_eq!(names.len(), 2);
    let removed = Command::new("docker").arg("rmi").args(&names).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
}

/// R-HEAL-3, and what else must be on the container itself, read back by Docker's own client.
#[tokio::test]
async fn manifest_keys_reach_the_container() {
    with_fixture("manifest", async |fixture| {
        let request = fixture.request(
            r#""command":["serve"],"stop_signal":"SIGINT","stop_grace_period":"45s","pids_limit":50,
               "deploy":{"resources":{"limits":{"cpus":0.25,"memory":"67108864"}}},
               "labels":{"jaco.node":"forged","team":"a"}"#,
        );
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        let format = "{{.Config.StopSignal}} {{.Config.StopTimeout}} {{.HostConfig.NanoCpus}} \
                      {{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} \
                      {{.HostConfig.RestartPolicy.Name}} {{.Config.Labels.team}} \
                      {{index .Config.Labels \"jaco.node\"}} \
                      {{index .Config.Labels \"jaco.replica_id\"}}";
        let shown = docker(&["inspect", "--format", format, &seen.container.0]);
        let replica = request.instance.replica.as_str();
        assert_eq!(shown.trim(), format!("SIGINT 45 250000000 67108864 50 no a 1 {replica}"));
    })
    .await;
}

/// R-HEAL-3: the stop signal of the manifest reaches the process.
#[tokio::test]
async fn the_stop_signal_reaches_the_process() {
    with_fixture("signal", async |fixture| {
        let request = fixture.request(r#""command":["serve"],"stop_signal":"SIGINT""#);
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        // Before it catches signals the kernel keeps them from the first process of a container.
        let query = LogQuery { follow: Follow::Yes, tail: None, since: None };
        let mut lines = fixture.engine.logs(&seen.container, query).await.unwrap();
        let first = tokio::time::timeout(Duration::from_secs(20), lines.next()).await;
        assert!(first.unwrap().unwrap().unwrap().text.contains("listens"));
        fixture.engine.stop(&seen.container).await.unwrap();
        let log = docker(&["logs", &seen.container.0]);
        assert!(log.contains("SIGINT received"), "{log}");
    })
    .await;
}

/// R-HEAL-3: the hooks run in their order, each to its end, before the signal is sent; one that fails, or whose
/// program is missing, keeps the others from running and the signal from nothing. Docker's own events tell.
#[tokio::test]
async fn pre_stop_hooks_run_before_the_signal() {
    with_fixture("hooks", async |fixture| {
        let cases = [
            (
                r#"[{"command":["/hello","exit","0"],"environment":{"A":"b","C":null}},{"command":["/hello","exit","0"]}]"#,
                "exec_die 0, exec_die 0, kill, die",
            ),
            (
                r#"[{"command":["/hello","exit","4"]},{"command":["/hello","exit","0"]}]"#,
                "exec_die 4, kill, die",
            ),
            (r#"[{"command":["/absent"]}]"#, "kill, die"),
            ("[]", "kill, die"),
        ];
        for (hooks, expected) in cases {
            let request = fixture.request(&format!(r#""command":["serve"],"pre_stop":{hooks}"#));
            let seen = fixture.engine.ensure_running(&request).await.unwrap();
            let query = LogQuery { follow: Follow::Yes, tail: None, since: None };
            let mut lines = fixture.engine.logs(&seen.container, query).await.unwrap();
            let first = tokio::time::timeout(Duration::from_secs(20), lines.next()).await;
            assert!(first.unwrap().unwrap().unwrap().text.contains("listens"));
            fixture.engine.stop(&seen.container).await.unwrap();
            let filter = format!("container={}", seen.container);
            let format = "{{.Action}} {{.Actor.Attributes.exitCode}}";
            // Docker takes whole seconds and answers once they are over.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            let until = (now + 1).to_string();
            let events = docker(&[
                "events", "--since", "10m", "--until", &until, "--filter", &filter, "--format", format,
            ]);
            let told = events.lines().filter_map(|line| match line.split_once(' ')? {
                ("exec_die", code) => Some(format!("exec_die {code}")),
                (action @ ("kill" | "die"), _) => Some(action.to_owned()),
                _ => None,
            });
            let told: Vec<_> = told.collect();
            // Whether Docker tells the end of a program that it could not begin depends on its version.
            let told: Vec<_> = told.into_iter().filter(|line| !line.starts_with("exec_die 12")).collect();
            assert_eq!(told.join(", "), expected, "{hooks}: {events}");
            let log = docker(&["logs", &seen.container.0]);
            assert!(log.contains("SIGTERM received"), "{log}");
        }
    })
    .await;
}

/// Neither a label of the user nor one of the image passes for a hook.
#[tokio::test]
async fn a_label_is_no_hook() {
    with_fixture("hooklabel", async |fixture| {
        let request = fixture.request(
            r#""command":["serve"],"labels":{"jaco.pre_stop":"[{\"command\":[\"/hello\",\"sleep\"]}]"}"#,
        );
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        let format = r#"{{index .Config.Labels "jaco.pre_stop"}}"#;
        let label = docker(&["inspect", "--format", format, &seen.container.0]);
        assert_eq!(label.trim(), "[]");
    })
    .await;
}

/// A port that Docker chose is read back, and answers.
#[tokio::test]
async fn published_ports_are_read_back() {
    with_fixture("ports", async |fixture| {
        let request =
            fixture.request(r#""command":["serve"],"ports":[{"target":8080,"protocol":"tcp"}]"#);
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        let address = seen.ports[&8080].replace("0.0.0.0", "127.0.0.1");
        let connected = tokio::time::timeout(Duration::from_secs(10), async {
            while tokio::net::TcpStream::connect(&address).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
        connected.await.unwrap();
    })
    .await;
}

/// Anonymous volumes leave with their container; named ones carry their owner's name and stay.
#[tokio::test]
async fn anonymous_volumes_are_removed_and_named_ones_kept() {
    with_fixture("volumes", async |fixture| {
        let request = fixture.request(
            r#""command":["serve"],"volumes":[{"type":"volume","target":"/anonymous"},
               {"type":"volume","source":"data","target":"/named"}]"#,
        );
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        let format = "{{range .Mounts}}{{.Name}} {{end}}";
        let mounts = docker(&["inspect", "--format", format, &seen.container.0]);
        let (named, anonymous): (Vec<&str>, Vec<&str>) =
            mounts.split_whitespace().partition(|name| name.starts_with("jaco-"));
        assert_eq!((named.len(), anonymous.len()), (1, 1), "{mounts}");
        fixture.engine.stop(&seen.container).await.unwrap();
        fixture.engine.remove(&seen.container).await.unwrap();
        let left = docker(&["volume", "ls", "--quiet"]);
        let is_left = |name: &str| left.lines().any(|line| line == name);
        assert!(is_left(named[0]) && !is_left(anonymous[0]), "{left}");
        assert!(named[0].ends_with("-1-contract_data"), "{named:?}");
        docker(&["volume", "rm", named[0]]);
    })
    .await;
}

/// A service on two networks is reached by its name on both; one of them has no way out.
#[tokio::test]
async fn several_networks_are_connected() {
    with_fixture("networks", async |fixture| {
        let mut request = fixture.request(r#""command":["serve"]"#);
        request.container = r#"{"service":{"command":["serve"],
            "networks":{"front":{"priority":1},"back":{"aliases":["db"]}}},
            "networks":{"front":{"name":"contract_front"},
                        "back":{"name":"contract_back","internal":true}}}"#
            .into();
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        let format = "{{range $name, $end := .NetworkSettings.Networks}}{{$name}}={{range .Aliases}}{{.}},{{end}} {{end}}";
        let shown = docker(&["inspect", "--format", format, &seen.container.0]);
        assert!(shown.contains("contract_front=web,web.contract,"), "{shown}");
        assert!(shown.contains("contract_back=web,web.contract,db,"), "{shown}");
    })
    .await;
}

/// A network of the cluster is what the router of the node expects: its bridge, the gateway first, the router's
/// address kept free; a container has its address there, and its service's names with the engine.
#[tokio::test]
async fn networks_of_the_cluster_are_made_for_the_router() {
    with_fixture("router", async |fixture| {
        let front = suite::network_of_cluster(3, 77);
        let back =
            AttachedNetwork { reach: NetworkReach::Internal, ..suite::network_of_cluster(4, 78) };
        let networks = vec![front.clone(), back];
        let request = ContainerRequest { networks, ..fixture.request(SERVES) };
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        let format = "{{json .NetworkSettings.Networks}}";
        let shown = docker(&["inspect", "--format", format, &seen.container.0]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let shown = shown.as_object().unwrap();
        let name = |bridge: &str| {
            let name = shown.keys().find(|name| name.ends_with(bridge));
            name.unwrap_or_else(|| panic!("{bridge} is not among {shown:?}")).clone()
        };
        let (front_name, back_name) = (name("-jnrv"), name("-jnrw"));
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[&front_name]["IPAddress"], "10.66.3.77");
        assert_eq!(shown[&back_name]["IPAddress"], "10.66.4.78");
        for network in shown.values() {
            let aliases = network["Aliases"].as_array().cloned().unwrap_or_default();
            let aliases = aliases.iter().map(|alias| alias.as_str().unwrap());
            // The last one is the engine's own.
            let given: Vec<_> = aliases.filter(|it| !seen.container.0.starts_with(*it)).collect();
            assert_eq!(given, ["web", "web.contract"]);
        }
        let network = docker(&["network", "inspect", "--format", "{{json .}}", &front_name]);
        let network: serde_json::Value = serde_json::from_str(&network).unwrap();
        let range = &network["IPAM"]["Config"][0];
        assert_eq!(range["Subnet"], "10.66.3.0/24");
        assert_eq!(range["Gateway"], "10.66.3.1");
        let router = range["AuxiliaryAddresses"].as_object().or(range["AuxAddress"].as_object());
        assert_eq!(router.unwrap()["router"], "10.66.3.2", "{range}");
        assert_eq!(network["Options"]["com.docker.network.bridge.name"], front.id.bridge());
        assert_eq!(network["Options"]["com.docker.network.driver.mtu"], "1400");
        assert_eq!(network["Labels"]["jaco.network"], "n3");
        assert_eq!(network["Labels"]["jaco.cluster_id"], cluster("router"));
        assert!(network["Labels"].get("jaco.node").is_none());
        assert_eq!(network["Internal"], false);
        let internal = docker(&["network", "inspect", "--format", "{{.Internal}}", &back_name]);
        assert_eq!(internal.trim(), "true");
    })
    .await;
}

/// A network that was removed behind the engine's back is made again.
#[tokio::test]
async fn vanished_network_is_created_again() {
    with_fixture("vanished", async |fixture| {
        let (one, two) = (fixture.request(SERVES), fixture.request(SERVES));
        let first = fixture.engine.ensure_running(&one).await.unwrap();
        let format = "{{.HostConfig.NetworkMode}}";
        let network = docker(&["inspect", "--format", format, &first.container.0]);
        fixture.engine.remove(&first.container).await.unwrap();
        docker(&["network", "rm", network.trim()]);
        fixture.engine.ensure_running(&two).await.unwrap();
    })
    .await;
}

/// Manual changes are reported immediately.
#[tokio::test]
async fn manual_removal_is_reported_immediately() {
    with_fixture("by-hand", async |fixture| {
        let request = fixture.request(SERVES);
        let seen = fixture.engine.ensure_running(&request).await.unwrap();
        let mut events = fixture.engine.events().await.unwrap();
        docker(&["rm", "--force", &seen.container.0]);
        let gone = EngineEvent::Gone { instance: request.instance, container: seen.container };
        let told = async { while events.next().await.unwrap().unwrap() != gone {} };
        tokio::time::timeout(Duration::from_secs(5), told).await.unwrap();
    })
    .await;
}

/// R-HEAL-1: the healthcheck of an image counts from the first answer on where the manifest has
/// none, or says only how often to look; the manifest can turn it off, in both ways.
#[tokio::test]
async fn image_healthcheck_counts_from_the_start() {
    with_fixture("imagecheck", async |fixture| {
        let image = format!("jaco-checked:{}", std::process::id());
        build_checked(&image);
        let cases = [
            (r#""stop_grace_period":"1s""#, Health::Starting),
            (r#""healthcheck":{"interval":"500ms"}"#, Health::Starting),
            (r#""healthcheck":{"disable":true}"#, Health::None),
            (r#""healthcheck":{"test":["NONE"]}"#, Health::None),
        ];
        let mut events = fixture.engine.events().await.unwrap();
        for (keys, expected) in cases {
            let mut request = fixture.request("");
            request.image = image.as_str().into();
            request.container = format!(r#"{{"service":{{"image":"{image}",{keys}}}}}"#).into();
            let seen = fixture.engine.ensure_running(&request).await.unwrap();
            assert_eq!(health(&seen), Some(&expected), "{keys}");
            if expected == Health::Starting {
                let seen = next_change(&mut events, &request.instance).await;
                assert_eq!(health(&seen), Some(&Health::Healthy), "{keys}");
            }
            let listed = fixture.engine.list_owned().await.unwrap();
            let listed = listed.iter().find(|seen| seen.instance == request.instance);
            let settled = if expected == Health::Starting { Health::Healthy } else { Health::None };
            assert_eq!(listed.and_then(health), Some(&settled), "{keys}");
            fixture.engine.remove(&seen.container).await.unwrap();
        }
        docker(&["rmi", "--force", &image]);
    })
    .await;
}

/// R-HEAL-4: what a container wrote last comes with its end, where that was an error.
#[tokio::test]
async fn failed_container_reports_its_last_output() {
    with_fixture("words", async |fixture| {
        let mut events = fixture.engine.events().await.unwrap();
        let request = fixture.request(r#""command":["exit","soon"]"#);
        fixture.engine.ensure_running(&request).await.unwrap();
        let told = async {
            loop {
                if let EngineEvent::Changed(seen) = events.next().await.unwrap().unwrap()
                    && seen.instance == request.instance
                    && let ContainerStatus::Exited { exit, output, .. } = seen.status
                {
                    return (exit.code, output);
                }
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(30), told).await.unwrap();
        assert_eq!(told.0, 2);
        let last = "HELLO_DRAIN_MS, HELLO_LEDGER.";
        assert!(told.1.trim_end().ends_with(last), "the end of a usage text: {}", told.1);
    })
    .await;
}

/// The next that is told of an instance.
async fn next_change(events: &mut EventStream, instance: &InstanceId) -> ObservedContainer {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await;
        match event.unwrap().unwrap().unwrap() {
            EngineEvent::Changed(seen) if seen.instance == *instance => return seen,
            EngineEvent::Changed(_) | EngineEvent::Gone { .. } => {}
        }
    }
}

fn health(seen: &ObservedContainer) -> Option<&Health> {
    match &seen.status {
        ContainerStatus::Up { health, .. } => Some(health),
        ContainerStatus::Created | ContainerStatus::Exited { .. } => None,
    }
}

/// The usual image, with a healthcheck of its own.
fn build_checked(name: &str) {
    let check = r#"["/hello", "check", "http://127.0.0.1:8080/healthz"]"#;
    let text = format!(
        "FROM {IMAGE}\nHEALTHCHECK --interval=300ms --timeout=2s --retries=1 CMD {check}\n"
    );
    let mut build = Command::new("docker");
    build.env("DOCKER_BUILDKIT", "0").args(["build", "--quiet", "--tag", name, "-"]);
    let mut build = build.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    build.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(build.wait().unwrap().success());
}

/// R-ROLL-5: an image that was made here is here, and came from no registry; one that is absent is not.
#[tokio::test]
async fn local_image_has_no_digest() {
    with_fixture("digest", async |fixture| {
        let find = async |image: &str| {
            let pull = PullRequest { image: image.into(), platform: None };
            fixture.engine.find_image(&pull).await.unwrap()
        };
        assert_eq!(find(IMAGE).await, Some(ObservedImage { digest: None }));
        assert_eq!(find("jaco-absent:v0").await, None);
    })
    .await;
}

/// What the agent did not make it does not see, even where it carries some of the labels.
#[tokio::test]
async fn containers_of_others_are_not_listed() {
    with_fixture("others", async |fixture| {
        let label = format!("jaco.cluster_id={}", cluster("others"));
        let id = docker(&["run", "--detach", "--label", &label, IMAGE]);
        let listed = fixture.engine.list_owned().await.unwrap();
        docker(&["rm", "--force", id.trim()]);
        assert_eq!(listed, []);
    })
    .await;
}

/// Docker's own client, for a second opinion.
fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    assert!(output.status.success(), "docker {arguments:?}: {output:?}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// R-CLI-6: nobody is left who listens to a command: it loses its input, so what waits for that ends.
#[tokio::test]
async fn an_abandoned_command_loses_its_input() {
    with_fixture("an_abandoned_command_loses_its_input", async |fixture| {
        let seen = fixture.engine.ensure_running(&fixture.request(SERVES)).await.unwrap();
        let request = ExecRequest {
            command: vec!["/hello".to_owned(), "cat".to_owned()],
            environment: Vec::new(),
            user: None,
            working_dir: None,
            stdin: Stdin::Sent,
            terminal: None,
        };
        let input = futures::stream::iter([ExecInput::Stdin(b"here".to_vec())]);
        let inputs = input.chain(futures::stream::pending()).boxed();
        let mut outputs = fixture.engine.exec(&seen.container, &request, inputs).await.unwrap();
        let first = outputs.next().await;
        assert_eq!(first, Some(Ok(ExecOutput::Stdout(b"here".to_vec()))));
        let runs = || {
            let top =
                Command::new("docker").args(["top", &seen.container.0, "-o", "pid,args"]).output();
            String::from_utf8(top.unwrap().stdout).unwrap().contains("/hello cat")
        };
        assert!(runs());
        drop(outputs);
        let gone = async {
            while runs() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it ends");
        fixture.engine.stop(&seen.container).await.unwrap();
    })
    .await;
}

/// R-CLI-6: links are followed to what they lead to, wherever in the container that is.
#[tokio::test]
async fn links_in_a_container_are_followed() {
    with_fixture("links_in_a_container_are_followed", async |fixture| {
        let seen = fixture.engine.ensure_running(&fixture.request(SERVES)).await.unwrap();
        let folder = std::env::temp_dir().join(format!("jaco-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("srv/www")).unwrap();
        std::fs::write(folder.join("srv/www/index"), "hello").unwrap();
        let links =
            [("www", "srv/www"), ("srv/abs", "/www"), ("index", "srv/abs/index"), ("loop", "loop")];
        for (at, to) in links {
            std::os::unix::fs::symlink(to, folder.join(at)).unwrap();
        }
        docker(&["cp", &format!("{}/.", folder.display()), &format!("{}:/", seen.container)]);
        std::fs::remove_dir_all(&folder).unwrap();
        let stat = async |path: &str| fixture.engine.stat(&seen.container, path).await;
        let found = stat("/www").await.unwrap().unwrap();
        assert_eq!((found.kind, found.path.as_str()), (PathKind::Folder, "/srv/www"));
        let found = stat("/srv/abs/").await.unwrap().unwrap();
        assert_eq!(found.kind, PathKind::Folder);
        let found = stat("/index").await.unwrap().unwrap();
        assert_eq!((found.kind, found.bytes), (PathKind::File, 5));
        assert!(stat("/loop").await.is_err());
    })
    .await;
}
