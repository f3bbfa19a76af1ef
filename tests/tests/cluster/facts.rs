//! Node facts from machine files of the test; and GPUs.

use std::fs;

use jaco_testkit::{Cluster, Engine, eventually, v1};
use serde_json::Value;

/// Restarts n1 on a machine with two GPUs, with these additional settings.
fn restart(cluster: &mut Cluster, machine: &tempfile::TempDir, settings: &str) {
    let gpus = machine.path().join("proc/driver/nvidia/gpus");
    for (bus, id) in [("0000:01:00.0", "GPU-a"), ("0000:02:00.0", "GPU-b")] {
        let folder = gpus.join(bus);
        fs::create_dir_all(&folder).expect("a folder");
        let text = format!("Model: \t\t Tesla T4\nGPU UUID: \t {id}\n");
        fs::write(folder.join("information"), text).expect("written");
    }
    let node = &mut cluster.nodes[0];
    node.stop();
    let file = node.folder().join("jacod.yaml");
    let known = fs::read_to_string(&file).expect("it was written before");
    let is_ours = |line: &&str| line.starts_with("rebalance:") || line.starts_with("reserve:");
    let lines = known.lines().filter(|line| !is_ours(line));
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    let root = machine.path().display();
    let more = format!("rebalance: {{enabled: false, system_root: {root}}}\n{settings}");
    fs::write(&file, format!("{lines}{more}")).expect("it can be written");
    node.start();
}

fn run(cluster: &Cluster, args: &[&str]) -> String {
    let out = cluster.cli(1, args);
    let (said, error) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{args:?}: {error}");
    said.into_owned()
}

fn facts(cluster: &Cluster) -> Value {
    let all = run(cluster, &["node", "facts", "n1", "-o", "json"]);
    let all: Value = serde_json::from_str(&all).expect("it is JSON");
    all[0].clone()
}

/// Waits until n1 has reported this.
async fn has(cluster: &Cluster, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || async {
        let facts = facts(cluster);
        if is_so(&facts) { Ok(facts) } else { Err(facts.to_string()) }
    })
    .await
}

/// R-RES-6, R-RES-3: capacity is detected, the reserve is not allocatable, and the generated block
/// gives the detected values.
#[tokio::test(flavor = "multi_thread")]
async fn generated_capacity_block_is_accepted() {
    let mut cluster = Cluster::start(2, Engine::Fake).await;
    let machine = tempfile::tempdir().expect("a folder");
    restart(&mut cluster, &machine, "reserve: {memory_bytes: 1048576, disk_bytes: 1048576}\n");
    let found = has(&cluster, "n1 has GPUs", |facts| facts["gpus"][1]["id"] == "GPU-b").await;
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number: {found}"));
    assert_eq!(number(&found["capacity"]["cpu_millis"]), number(&found["cores"]) * 1000);
    for key in ["memory_bytes", "disk_bytes"] {
        assert_eq!(number(&found["capacity"][key]), number(&found[key]) - 1_048_576, "{found}");
    }
    assert_eq!(found["attributes"]["node.gpus"], "2");
    assert!(found["kernel"].is_string() && found["engine"].is_string(), "{found}");

    let block = run(&cluster, &["node", "facts", "n1", "--generate"]);
    // The machine has no GPUs now: those of the block count.
    fs::remove_dir_all(machine.path().join("proc")).expect("it was there");
    let empty = tempfile::tempdir().expect("a folder");
    restart(&mut cluster, &empty, &format!("{block}labels: {{taken: 'yes'}}\n"));
    let taken =
        has(&cluster, "n1 is labelled", |facts| facts["attributes"]["node.taken"] == "yes").await;
    assert_eq!(taken["gpus"], found["gpus"]);
    for key in ["cpu_millis", "memory_bytes", "disk_bytes"] {
        let all = if key == "cpu_millis" { &found["capacity"][key] } else { &found[key] };
        assert_eq!(&taken["capacity"][key], all, "{key}");
    }
}

/// R-RES-3: a node that declares how many instances it takes gets no more, and says so for what waits.
#[tokio::test(flavor = "multi_thread")]
async fn declared_number_of_instances_is_kept() {
    let mut cluster = Cluster::start(2, Engine::Fake).await;
    let machine = tempfile::tempdir().expect("a folder");
    restart(&mut cluster, &machine, "capacity: {instances: 2}\n");
    has(&cluster, "n1 declares a number", |facts| facts["capacity"]["instances"] == 2).await;
    let overlay = "deployment: shop\nservices: [{name: web, constraints: hostname=n1}]\n";
    let request = v1::ApplyRequest {
        compose_json: jaco_tests::compose("shop", "web", "web:1", 3),
        overlay_yaml: overlay.to_owned(),
        ..v1::ApplyRequest::default()
    };
    cluster.nodes[1].client().apply(request).await.expect("it is admitted");
    let waits = eventually("two of three run", || async {
        let status = cluster.overview(1).await?;
        let running = status.replicas.iter().filter(|it| it.state == "running").count();
        if running == 2 {
            Ok(run(&cluster, &["explain", "shop/web"]))
        } else {
            Err(running.to_string())
        }
    })
    .await;
    assert!(waits.contains("1 with as many instances as they take"), "{waits}");
}

fn with_gpus(name: &str, replicas: u32, labels: &str) -> v1::ApplyRequest {
    let compose = format!(
        r#"{{"name":"{name}","services":{{"web":{{"image":"web:1","labels":{{{labels}}},
            "gpus":[{{"count":1}}],"deploy":{{"replicas":{replicas}}}}}}}}}"#
    );
    v1::ApplyRequest {
        compose_json: compose,
        request_id: jaco_testkit::fresh_request_id(),
        ..v1::ApplyRequest::default()
    }
}

/// R-PLACE-8: replicas are placed on nodes with free GPUs; one without waits with a reason per
/// node; a driver error of the engine is the replica's reason.
#[tokio::test(flavor = "multi_thread")]
async fn gpus_are_assigned_once() {
    let mut cluster = Cluster::start(2, Engine::Fake).await;
    let machine = tempfile::tempdir().expect("a folder");
    restart(&mut cluster, &machine, "");
    has(&cluster, "n1 has GPUs", |facts| facts["gpus"][1]["id"] == "GPU-b").await;
    let applied = cluster.client().apply(with_gpus("shop", 3, "")).await;
    applied.expect("the deployment is admitted");
    let replicas = eventually("two replicas run", || async {
        let status = cluster.overview(0).await?;
        let (running, waiting): (Vec<_>, Vec<_>) =
            status.replicas.into_iter().partition(|replica| replica.state == "running");
        if running.len() == 2 && waiting.is_empty() {
            Ok(running)
        } else {
            Err(format!("{waiting:?}"))
        }
    })
    .await;
    let mut gpus: Vec<_> = replicas.iter().flat_map(|replica| replica.gpus.clone()).collect();
    gpus.sort();
    assert_eq!(gpus, ["GPU-a", "GPU-b"]);
    let explained = run(&cluster, &["explain", "shop/web"]);
    for said in ["0 of 2 free, 1 of nvidia needed", "it has none, 1 of nvidia needed"] {
        assert!(explained.contains(said), "{said}: {explained}");
    }
    // R-PLACE-8: one more GPU of the requested driver gives the third replica a place, one of
    // another driver does not.
    let forecast = run(&cluster, &["whatif", "--add", "n9 gpus=1"]);
    assert!(forecast.contains("n9"), "{forecast}");
    let forecast = run(&cluster, &["whatif", "--add", "n9 gpus=amdgpu:1"]);
    assert!(!forecast.contains("n9 "), "{forecast}");
    let gone = v1::DeleteRequest { deployment: "shop".to_owned(), ..Default::default() };
    cluster.client().delete(gone).await.expect("it is deleted");
    let refuses = r#""jaco.fake.refuse":"could not select device driver \"nvidia\"""#;
    let applied = cluster.client().apply(with_gpus("blog", 1, refuses)).await;
    applied.expect("the deployment is admitted");
    eventually("the driver is the reason", || async {
        let status = cluster.overview(0).await?;
        let told = status.replicas.iter().any(|replica| {
            let mut said = replica.details.values();
            said.any(|text| {
                text.contains("could not select device driver")
                    && text.contains("container-toolkit")
            })
        });
        if told { Ok(()) } else { Err(format!("{:?}", status.replicas)) }
    })
    .await;
}
