//! Proofs of every key that `jaco compose support` lists as honoured: it is deployed through the
//! whole product, and `docker inspect` of the real container shows it. What this machine cannot
//! show is proven by another test, which is named here.

mod elsewhere;
mod proofs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine};
use serde_json::Value;

use elsewhere::ELSEWHERE;
use proofs::{PROOFS, Proof, Shown, TOP};

/// Files next to the compose file.
const BESIDE: [(&str, &str); 6] = [
    ("a.env", "RAW='kept'\n"),
    ("labels.env", "from-file=yes\n"),
    ("base.yaml", "services:\n  base:\n    environment:\n      EXTENDED: ${WHO:-nobody}\n"),
    (
        "more/compose.yaml",
        "services:\n  included:\n    image: ${IMAGE}\n    command: [serve]\n    env_file: beside.env\n",
    ),
    ("more/some.env", "IMAGE=jaco-hello:v2\n"),
    ("other/beside.env", "BESIDE=other\n"),
];

/// R-IN-2: every honoured key has a proof, and every proof is of an honoured key. Tests elsewhere
/// must exist and must not be ignored.
#[test]
fn every_honoured_key_has_a_proof() {
    let mut proven: BTreeSet<&str> = PROOFS.iter().flat_map(|proof| proof.keys).copied().collect();
    for (file, test, keys) in ELSEWHERE {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(runs_test(&text, test), "{file} does not run {test}, the proof of {keys:?}");
        proven.extend(*keys);
    }
    let honoured = honoured();
    let honoured: BTreeSet<&str> = honoured.iter().map(String::as_str).collect();
    // A key that only contains further keys is proven with them.
    let holds = |key: &str| {
        let below = [format!("{key}."), format!("{key}[]")];
        honoured.iter().any(|other| below.iter().any(|prefix| other.starts_with(prefix)))
    };
    let missing: Vec<&&str> = honoured.difference(&proven).filter(|key| !holds(key)).collect();
    assert!(missing.is_empty(), "keys without a proof: {missing:#?}");
    let unknown: Vec<_> = proven.difference(&honoured).collect();
    assert!(unknown.is_empty(), "not in the honoured list: {unknown:#?}");
}

/// Whether a source file has a test of this name that is not ignored.
fn runs_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declaration = format!("fn {name}(");
    let declares = |line: &&str| line.trim_start_matches("async ").starts_with(&declaration);
    let Some(at) = lines.iter().position(declares) else { return false };
    let above = lines[..at].iter().rev();
    let attributes: Vec<&&str> =
        above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
    let has = |prefix: &str| attributes.iter().any(|line| line.starts_with(prefix));
    (has("#[test]") || has("#[tokio::test")) && !has("#[ignore")
}

/// A proof by name needs a test that runs: no helper, no ignored test, no part of another name.
#[test]
fn only_tests_that_run_are_proofs() {
    let source = "fn helper() {}\n/// R-IN-2\n#[test]\nfn plain() {}\n#[tokio::test]\nasync fn waits() {}\n\
                  #[test]\n#[ignore = \"slow\"]\nfn ignored() {}\n// fn mentioned(\n";
    let run = ["helper", "plain", "waits", "ignored", "mentioned", "plai"];
    let run = run.map(|name| runs_test(source, name));
    assert_eq!(run, [false, true, true, false, false, false]);
}

/// The keys that `jaco compose support` lists as honoured.
fn honoured() -> Vec<String> {
    let listed = Command::new(jaco_testkit::binary("jaco"))
        .args(["compose", "support", "-o", "json"])
        .output()
        .expect("jaco can be started");
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).expect("it prints JSON");
    let honoured = listed.iter().filter(|row| row["class"] == "honoured");
    honoured.filter_map(|row| row["key"].as_str().map(str::to_owned)).collect()
}

/// R-IN-2: containers have what the compose file specifies.
#[tokio::test(flavor = "multi_thread")]
async fn honoured_keys_reach_real_containers() {
    // Created first and dropped last, after the containers that use it.
    let external = External::make();
    let cluster = Cluster::start(1, Engine::Docker).await;
    let folder = cluster.nodes[0].folder().join("project");
    write(&folder, &external);
    let applied = apply(&cluster, &folder);
    let said = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(applied.status.success(), "{said}");
    let mut wrong = Vec::new();
    for proof in PROOFS {
        let containers = inspect(&cluster.id, proof.service);
        wrong.extend(differences(proof, &containers, &external));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An external network and volume.
struct External {
    name: String,
}

impl External {
    fn make() -> Self {
        let name = format!("external-{}", std::process::id());
        docker(&["network", "create", &name]);
        docker(&["volume", "create", &name]);
        Self { name }
    }
}

impl Drop for External {
    fn drop(&mut self) {
        for kind in ["network", "volume"] {
            // Also called while a test unwinds: an error here must not hide the failure.
            let _left_over =
                Command::new("docker").args([kind, "rm", &self.name]).output().is_err();
        }
    }
}

fn write(folder: &Path, external: &External) {
    let mut compose = TOP.replace("THEIRS", &external.name);
    for proof in PROOFS {
        // Included and inactive services are not declared here.
        if proof.members.is_empty() {
            continue;
        }
        compose.push_str(&format!("  {}:\n    <<: *hello\n", proof.service));
        for line in proof.members.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            compose.push_str(&format!("    {line}\n"));
        }
    }
    for (name, text) in BESIDE {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is below the folder"))
            .expect("the test's folder can be made");
        fs::write(path, text).expect("the test's folder can be written");
    }
    fs::write(folder.join("compose.yaml"), compose).expect("the test's folder can be written");
}

fn apply(cluster: &Cluster, folder: &Path) -> Output {
    let file = folder.join("compose.yaml");
    let args = [
        "apply",
        "-f",
        file.to_str().expect("a temporary folder has a plain name"),
        "--profile",
        "chosen",
        "--timeout",
        "120s",
    ];
    cluster.cli(0, &args)
}

/// Docker's view of each container of a service.
fn inspect(cluster: &str, service: &str) -> Vec<Value> {
    let cluster = format!("label=jaco.cluster_id={cluster}");
    let service = format!("label=jaco.service={service}");
    let ids = docker(&["ps", "--quiet", "--filter", &cluster, "--filter", &service]);
    let shown = ids.lines().map(|id| docker(&["inspect", id]));
    let lists = shown.map(|text| serde_json::from_str::<Vec<Value>>(&text).expect("it is JSON"));
    lists.flatten().collect()
}

fn differences(proof: &Proof, containers: &[Value], external: &External) -> Vec<String> {
    let name = proof.service;
    let replicas = proof.replicas;
    if containers.len() != replicas {
        return vec![format!("{name}: {} containers, not {replicas}", containers.len())];
    }
    let mut wrong = Vec::new();
    for container in containers {
        for (of, path, expected) in proof.shown {
            let object = match of {
                Shown::Container => container.clone(),
                Shown::Volume(target) => volume(container, target),
                Shown::Network(suffix) => network(container, suffix),
            };
            let expected = expected.replace("THEIRS", &external.name);
            let expected: Value = serde_json::from_str(&expected)
                .unwrap_or_else(|error| panic!("{name} {path}: {error} in {expected}"));
            let actual = at(&object, &path.replace("THEIRS", &external.name));
            if !actual.as_ref().is_some_and(|actual| holds(actual, &expected)) {
                wrong.push(format!("{name} {of:?}{path}: {actual:?}, not {expected}"));
            }
        }
    }
    wrong
}

/// The volume that a container mounts at a path.
fn volume(container: &Value, target: &str) -> Value {
    let mounts = container["Mounts"].as_array().into_iter().flatten();
    let name = mounts.clone().find(|mount| mount["Destination"] == target);
    let Some(name) = name.and_then(|mount| mount["Name"].as_str()) else { return Value::Null };
    first(&docker(&["volume", "inspect", name]))
}

/// The network of a container whose name ends like this.
fn network(container: &Value, suffix: &str) -> Value {
    let networks = container["NetworkSettings"]["Networks"].as_object();
    let name = networks.and_then(|all| all.keys().find(|name| name.ends_with(suffix)));
    name.map_or(Value::Null, |name| first(&docker(&["network", "inspect", name])))
}

fn first(text: &str) -> Value {
    let list: Vec<Value> = serde_json::from_str(text).expect("docker prints JSON");
    list.into_iter().next().unwrap_or_default()
}

/// The value below `/a/b/*c`; a part with a star stands for the member whose name ends like this.
fn at(value: &Value, path: &str) -> Option<Value> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let found = parts.map(|part| part.replace('~', "/")).try_fold(value, |value, part| match part
        .strip_prefix('*')
    {
        Some(suffix) => {
            let members = value.as_object()?;
            members.iter().find(|(name, _)| name.ends_with(suffix)).map(|(_, value)| value)
        }
        None => value.get(&part),
    });
    found.cloned()
}

/// Whether the actual value has what is expected: all members of a mapping, all items of a list, the
/// start and the end of a text around a star.
fn holds(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            let has = |(key, value): (&String, &Value)| {
                actual.get(key).is_some_and(|actual| holds(actual, value))
            };
            expected.iter().all(has)
        }
        (Value::Array(actual), Value::Array(expected)) => {
            expected.iter().all(|item| actual.iter().any(|actual| holds(actual, item)))
        }
        (Value::String(actual), Value::String(expected)) => match expected.split_once('*') {
            Some((start, end)) => actual.starts_with(start) && actual.ends_with(end),
            None => actual == expected,
        },
        _ => actual == expected,
    }
}

/// The comparison detects differences.
#[test]
fn wrong_value_is_detected() {
    let shown: Value = serde_json::json!({"A": {"x_front": ["a", "b"]}, "N": 1});
    let check = |path: &str, expected: Value| {
        at(&shown, path).is_some_and(|actual| holds(&actual, &expected))
    };
    assert!(check("/A/*_front", serde_json::json!(["b"])));
    assert!(!check("/A/*_front", serde_json::json!(["c"])));
    assert!(!check("/A/*_back", serde_json::json!([])));
    assert!(check("/N", serde_json::json!(1)) && !check("/N", serde_json::json!(2)));
    let rows = PROOFS.iter().map(|proof| proof.service);
    let names: BTreeMap<&str, usize> = rows.fold(BTreeMap::new(), |mut names, name| {
        *names.entry(name).or_default() += 1;
        names
    });
    assert!(names.values().all(|count| *count == 1), "a service is there twice: {names:?}");
}
