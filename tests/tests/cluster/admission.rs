//! Constraints from the file to the node, their bounds and exit codes, by real daemons.

use std::collections::BTreeMap;
use std::process::Output;

use jaco_testkit::{Cluster, Engine};
use serde_json::Value;

/// Applies deployment `name` of services with these constraints and numbers of replicas.
fn apply(cluster: &Cluster, name: &str, services: &[(&str, &str, u32)]) -> Output {
    let folder = cluster.nodes[0].folder().join(name);
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    let mut compose = format!("name: {name}\nservices:\n");
    let mut overlay = format!("deployment: {name}\nservices:\n");
    for (service, constraints, replicas) in services {
        compose.push_str(&format!(
            "  {service}:\n    image: {service}:1\n    deploy: {{replicas: {replicas}}}\n"
        ));
        overlay.push_str(&format!("  - {{name: {service}, constraints: '{constraints}'}}\n"));
    }
    std::fs::write(folder.join("compose.yaml"), compose).expect("the folder was just made");
    std::fs::write(folder.join("jaco.yaml"), overlay).expect("the folder was just made");
    cluster.cli(0, &["apply", folder.to_str().expect("text"), "--timeout", "60s"])
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// R-CONS-6, R-CONS-2: `tags=a,b` asks for both labels, `zone=0` for the zone of that name, and `cpu=max` for a node
/// that has as much as any has, also one that only might join.
#[tokio::test(flavor = "multi_thread")]
async fn constraints_reach_the_planner() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    for labels in [["n1", "a=", "b="], ["n2", "a=", "zone=1"], ["n3", "b=", "zone=0"]] {
        let out = cluster.cli(0, &["node", "label", labels[0], labels[1], labels[2]]);
        assert!(out.status.success(), "{}", said(&out));
    }
    let services = [("both", "tags=a,b", 2), ("zero", "zone=0", 2), ("great", "cpu=max", 1)];
    let out = apply(&cluster, "shop", &services);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let status = cluster.overview(0).await.expect("it answers");
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for replica in &status.replicas {
        nodes.entry(&replica.service).or_default().push(&replica.node);
    }
    assert_eq!((&nodes["both"], &nodes["zero"]), (&vec!["n1", "n1"], &vec!["n3", "n3"]));
    assert_eq!(nodes["great"].len(), 1, "all have as much");
    let args = ["whatif", "--add", "n9 cpu=4096", "--scale", "great=2", "-o", "json"];
    let out = cluster.cli(1, &args);
    let plan: Value = serde_json::from_slice(&out.stdout).expect("json");
    let rows = plan["changes"].as_array().expect("a list").iter();
    let created: Vec<_> = rows.filter(|row| row["action"] == "create").collect();
    assert_eq!(created.len(), 1, "{plan:#}");
    assert_eq!(created[0]["node"], "n9", "{plan:#}");
}

/// R-CLI-7: what cannot be understood is refused with 3 and changes nothing, what no node can take is admitted with
/// a warning and exits with 5, and questions have the bounds that deployments have.
#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_refusal_from_want_of_room() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    for wrong in ["cpu=many", "tags=a,,b", "max-per-node=0", "place-with=nobody"] {
        let out = apply(&cluster, "shop", &[("web", wrong, 1)]);
        assert_eq!(out.status.code(), Some(3), "{wrong}: {}", said(&out));
    }
    assert!(cluster.overview(0).await.expect("it answers").deployments.is_empty());
    let out = apply(&cluster, "shop", &[("web", "place-in=n2", 1)]);
    assert_eq!(out.status.code(), Some(5), "{}", said(&out));
    assert!(
        said(&out).contains("no node has node.hostname = n2; did you mean n1?"),
        "{}",
        said(&out)
    );
    let out = apply(&cluster, "shop", &[("web", "", 1)]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    for (line, code) in [
        (["whatif", "--scale", "web=1000"], 0),
        (["whatif", "--scale", "web=10001"], 3),
        (["whatif", "--scale", "web=many"], 2),
        (["whatif", "--scale", "nobody=1"], 3),
        (["scale", "shop/web", "10001"], 3),
    ] {
        let out = cluster.cli(0, &line);
        assert_eq!(out.status.code(), Some(code), "{line:?}: {}", said(&out));
    }
    // A program that is not optimised may take longer for it on a busy machine than a command waits.
    let most = cluster.cli(0, &["whatif", "--scale", "web=10000"]);
    assert!(matches!(most.status.code(), Some(0 | 7)), "{}", said(&most));
    let revision = cluster.overview(0).await.expect("it answers").deployments[0].revision;
    assert_eq!(revision, 2, "refusals and questions make no revision");
}

/// R-IN-6: what an apply reaches of the nodes is told to who applies, by `plan` before and by `apply`, and kept in the audit
/// log of every node with who it was; the same again is neither told nor kept, and what hardens is not told.
#[tokio::test(flavor = "multi_thread")]
async fn reaches_of_nodes_are_told_and_audited() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    let folder = cluster.nodes[0].folder().join("shop");
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    let compose = |image: &str, path: &str| {
        let text = format!(
            "name: shop\nservices:\n  db:\n    image: {image}\n    volumes: [bound:/data]\n    \
             sysctls: {{kernel.core_pattern: x}}\n  web:\n    image: web:1\n    read_only: true\n    \
             cap_drop: [ALL]\n    security_opt: [no-new-privileges]\nvolumes:\n  bound: {{driver_opts: \
             {{type: none, o: bind, device: {path}}}}}\n"
        );
        std::fs::write(folder.join("compose.yaml"), text).expect("the folder was just made");
    };
    let told = |args: &[&str]| {
        let out = cluster.cli(0, args);
        let text = said(&out) + &String::from_utf8_lossy(&out.stdout);
        assert!(matches!(out.status.code(), Some(0 | 5)), "{text}");
        let lines = text.lines().filter(|line| line.contains("reaches the node"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let path = folder.to_str().expect("text");
    let audited = |node: usize| -> Vec<(String, String, String)> {
        let args = ["audit", "--type", "privileged_workload_admitted", "-o", "json"];
        let out = cluster.cli(node, &args);
        let events: Vec<Value> = serde_json::from_slice(&out.stdout).expect("a list");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let told = |event: &Value| {
            let payload = &event["payload"];
            (text(&event["by"]), text(&payload["service"]), text(&payload["reaches"]))
        };
        events.iter().map(told).collect()
    };
    let of_db = |path: &str| format!("host-path={path}, sysctl=kernel.core_pattern");

    compose("db:1", "/srv/../etc");
    for (command, events) in [("plan", 0), ("apply", 1)] {
        let lines = told(&[command, path]);
        assert_eq!(lines.len(), 1, "{command}: {lines:?}");
        assert!(
            lines[0]
                .ends_with(&format!("service db reaches the node it runs on: {}", of_db("/etc")))
        );
        assert_eq!(audited(0).len(), events, "{command}");
    }
    let first = audited(1);
    assert!(first[0].0.starts_with("local:"), "{first:?}");
    assert_eq!((&*first[0].1, &*first[0].2), ("db", &*of_db("/etc")));
    for args in [&["apply", path][..], &["scale", "shop/web", "2"], &["restart", "shop/web"]] {
        assert_eq!(told(args), [""; 0], "{args:?}");
    }
    compose("db:1", "/");
    assert_eq!(told(&["apply", path]).len(), 1);
    let kept = audited(1);
    assert!(kept.iter().any(|(_, _, reaches)| *reaches == of_db("/")), "{kept:?}");
}

/// R-IN-6: with the policy `refuse`, an apply is refused with the command that grants what it reaches; after that command it is
/// done, by whom is audited on every node; without the grant the next change is refused, and scaling goes on.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_granted_is_refused() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    let folder = cluster.nodes[0].folder().join("shop");
    std::fs::create_dir_all(&folder).expect("the node's folder is there");
    let compose = |image: &str| {
        let text = format!(
            "name: shop\nservices:\n  db:\n    image: {image}\n    volumes: ['/srv/media:/data']\n"
        );
        std::fs::write(folder.join("compose.yaml"), text).expect("the folder was just made");
    };
    let path = folder.to_str().expect("text");
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let out = cluster.cli(0, &words);
        (out.status.code(), said(&out) + &String::from_utf8_lossy(&out.stdout))
    };
    let apply = format!("apply {path} --timeout 60s");
    let command = "policy allow shop host-path=/srv/media";
    compose("db:1");
    assert_eq!(run("policy set refuse").0, Some(0));
    for line in [format!("plan {path}"), apply.clone()] {
        let (code, text) = run(&line);
        assert_eq!(code, Some(3), "{line}: {text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["policy_refused", "service db", &format!("jaco {command}")] {
            assert!(words.contains(part), "{line} does not say {part}: {text}");
        }
    }
    assert_eq!(run(command).0, Some(0));
    let (code, text) = run(&apply);
    assert_eq!(code, Some(0), "{text}");
    let out = cluster.cli(1, &["audit", "--type", "policy_granted", "-o", "json"]);
    let events: Value = serde_json::from_slice(&out.stdout).expect("a list");
    assert_eq!(events[0]["payload"]["reaches"], "host-path=/srv/media", "{events}");
    assert!(events[0]["by"].as_str().is_some_and(|by| by.starts_with("local:")), "{events}");

    let (code, text) = run("policy revoke shop host-path=/srv/media");
    assert_eq!((code, text.contains("nothing is granted to shop")), (Some(0), true), "{text}");
    let (_, text) = run("policy");
    assert!(text.contains("shop/db is refused at its next change"), "{text}");
    for line in ["scale shop/db 2", "restart shop/db"] {
        let (code, text) = run(line);
        assert_eq!(code, Some(0), "{line}: {text}");
    }
    compose("db:2");
    let (code, text) = run(&apply);
    assert_eq!((code, text.contains("policy_refused")), (Some(3), true), "{text}");
}
