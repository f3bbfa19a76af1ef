//! Disabled allocations in real containers.

use jaco_testkit::docker::{containers, docker, running};
use jaco_testkit::{Cluster, Engine, eventually, fresh_request_id, v1};

use crate::engine_events::EngineEvents;
use crate::scenario::{IMAGE, apply, replicas};

/// R-SEL-3, R-SEL-4: a disabled container gets its own stop signal and exits within its grace
/// period, and is not replaced; enabled, one runs again.
#[tokio::test(flavor = "multi_thread")]
async fn disabled_container_stops_and_starts_again() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let stop = r#","stop_signal":"SIGINT","stop_grace_period":"20s""#;
    apply(&cluster, "shop", IMAGE, 1, stop).await;
    cluster.converged(0, "shop").await;
    let first = replicas(&cluster, 0, "shop").await[0].container_id.clone();
    let events = EngineEvents::follow(&cluster.id);
    let out = cluster.cli(0, &["disable", "shop/web"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    eventually("nothing is left", || async {
        let left = containers(&cluster.id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    let status = cluster.converged(0, "shop").await;
    let (state, code) = (&status.replicas[0].state, &status.replicas[0].code);
    assert_eq!((state.as_str(), code.as_str()), ("stopped", "disabled"));
    let told = events.end_of(&first).await;
    let signals: Vec<u32> = told.signals.iter().map(|(signal, _)| *signal).collect();
    assert_eq!(signals, [2], "asked by its own signal, and it had its time: {told:?}");
    let out = cluster.cli(0, &["enable", "shop/web"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    eventually("it runs again", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let is_back = now[0].state == "running" && now[0].container_id != first;
        if is_back { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    assert_eq!(running(&cluster.id).len(), 1);
}

/// R-RES-7: limits of a replica, in either syntax, are enforced by the engine.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_enforced_by_the_engine() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let new = r#""deploy":{"resources":{"limits":{"cpus":0.5,"memory":"67108864","pids":50}}}"#;
    let old = r#""cpus":0.25,"mem_limit":"50331648","pids_limit":40"#;
    for (name, members, expected) in
        [("new", new, "500000000 67108864 50"), ("old", old, "250000000 50331648 40")]
    {
        let service = format!(r#"{{"web":{{"image":"{IMAGE}",{members}}}}}"#);
        let request = v1::ApplyRequest {
            compose_json: format!(r#"{{"name":"{name}","services":{service}}}"#),
            request_id: fresh_request_id(),
            ..v1::ApplyRequest::default()
        };
        cluster.client().apply(request).await.expect("the deployment is admitted");
        cluster.converged(0, name).await;
        let id = replicas(&cluster, 0, name).await[0].container_id.clone();
        let format = "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}} {{.HostConfig.PidsLimit}}";
        assert_eq!(docker(&["inspect", "--format", format, &id]).trim(), expected, "{name}");
    }
}

/// The volumes of a deployment on this cluster's engine.
fn volumes(cluster: &Cluster, deployment: &str) -> usize {
    let own = format!("label=jaco.cluster_id={}", cluster.id);
    let of = format!("label=jaco.deployment={deployment}");
    docker(&["volume", "ls", "--quiet", "--filter", &own, "--filter", &of]).lines().count()
}

/// R-SEL-3: the volume of a deleted deployment is kept until gc; volumes of running, disabled or
/// recreated deployments survive gc. A second gc removes nothing more, and the audit log lists what
/// was removed.
#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_kept_until_gc() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let apply = async |name: &str| {
        let service = format!(
            r#"{{"web":{{"image":"{IMAGE}","volumes":[{{"type":"volume","source":"data","target":"/data"}}]}}}}"#
        );
        let model = format!(
            r#"{{"name":"{name}","services":{service},"volumes":{{"data":{{"name":"{name}_data"}}}}}}"#
        );
        let request = v1::ApplyRequest {
            compose_json: model,
            request_id: fresh_request_id(),
            ..v1::ApplyRequest::default()
        };
        cluster.client().apply(request).await.expect("the deployment is admitted");
        cluster.converged(0, name).await;
    };
    let said = |args: &[&str]| {
        let out = cluster.cli(0, args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    apply("shop").await;
    apply("blog").await;
    said(&["disable", "blog/web"]);
    said(&["delete", "shop", "--yes"]);
    eventually("no container is left", || async {
        let left = containers(&cluster.id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    assert_eq!((volumes(&cluster, "shop"), volumes(&cluster, "blog")), (1, 1), "data is kept");
    eventually("its node has told that it is gone", || async {
        let told = said(&["gc", "--dry-run"]);
        if told.contains("shop") { Ok(()) } else { Err(told) }
    })
    .await;
    assert_eq!((volumes(&cluster, "shop"), volumes(&cluster, "blog")), (1, 1), "it was only asked");
    let listed = said(&["get", "allocations", "-o", "wide"]);
    let row = listed.lines().find(|line| line.contains("shop/web")).unwrap_or_default();
    assert!(row.contains(" yes ") && row.contains("logs,jaco-"), "and what is left: {listed}");
    assert!(row.ends_with("shop_data"), "{listed}");
    // It was applied again.
    apply("shop").await;
    assert_eq!(said(&["gc", "shop", "--yes"]), "nothing to remove\n");
    assert_eq!(volumes(&cluster, "shop"), 1);
    said(&["delete", "shop", "--yes"]);
    eventually("the volume goes", || async {
        let told = said(&["gc", "--yes"]);
        if volumes(&cluster, "shop") == 0 { Ok(()) } else { Err(told) }
    })
    .await;
    assert_eq!(volumes(&cluster, "blog"), 1, "it is disabled, and has its data");
    assert_eq!(said(&["gc", "--yes"]), "nothing to remove\n");
    let audit = said(&["audit"]);
    assert!(audit.contains("volumes_collected"), "{audit}");
    said(&["delete", "blog", "--yes"]);
    eventually("nothing is left of the test", || async {
        let told = said(&["gc", "--yes"]);
        if volumes(&cluster, "blog") == 0 { Ok(()) } else { Err(told) }
    })
    .await;
}
