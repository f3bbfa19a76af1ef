//! What is printed loads to the same model, and what is sent is received as the same model, for every
//! construct of the specification. R-IN-2.

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::model::ContainerSpec;
use jaco_compose::support::{Inside, Object, Shape, TOP_LEVEL};
use jaco_compose::{
    EnvFiles, Input, Options, Project, canonical, from_model, load, normalise_name, paths, resolve,
    units,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::hash_keys::{REACH, SCHEDULE, project_of};
use crate::util::{folder, load_text};

fn load_again(project: &Project, text: &str) -> Project {
    let input = Input {
        name: Some(project.name().to_owned()),
        project_dir: ".".to_owned(),
        env_files: EnvFiles::Nothing,
        ..Input::file("printed.yaml")
    };
    let loaded = load(&input, &folder(&[("printed.yaml", text)]));
    loaded.unwrap_or_else(|problems| panic!("{problems}\n{text}")).project
}

/// Prints, loads, sends and receives; the model must stay the same each time.
fn survives(text: &str) {
    let project = load_text(text).unwrap_or_else(|problems| panic!("{problems}\n{text}")).project;
    let yaml = project.canonical_yaml();
    let again = load_again(&project, &yaml);
    assert_eq!(again.canonical_yaml(), yaml, "printed and loaded: {text}");
    let json = project.canonical_json().to_string();
    assert_eq!(load_again(&project, &json).canonical_yaml(), yaml, "printed as JSON: {text}");
    let sent = project.model();
    let received = from_model(sent.to_string().as_bytes());
    let received = received.unwrap_or_else(|problems| panic!("{problems}\n{sent}"));
    assert_eq!(received.model(), sent, "sent and received: {text}");
    let hashes = |project: &Project| -> BTreeMap<String, String> {
        let resolved = resolve(project, None, &Options::default());
        let resolved = resolved.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let hash = |(name, service): (String, jaco_compose::ResolvedService)| {
            let read = ContainerSpec::parse(&service.container.canonical);
            assert!(read.is_ok(), "{read:?}: {}", service.container.canonical);
            (name, service.container.hash.to_string())
        };
        resolved.services.into_iter().map(hash).collect()
    };
    let expected = hashes(&project);
    assert_eq!(hashes(&again), expected, "containers of the printed model: {text}");
    assert_eq!(hashes(&received), expected, "containers of the sent model: {text}");
}

/// R-IN-2, R-HASH-1: every key of a service that has an effect, with each of its sample values.
#[test]
fn every_key_of_a_service_survives_printing_and_sending() {
    for (_, one, other) in REACH {
        survives(&project_of(one));
        if *other != "-" {
            survives(&project_of(other));
        }
    }
    for (_, value) in SCHEDULE.iter().filter(|(key, _)| *key != "profiles") {
        survives(&project_of(value));
    }
}

/// R-IN-2: values that are zero, false or empty and yet differ from being absent.
#[test]
fn zeros_that_mean_something_survive() {
    for members in [
        "ulimits: {core: 0}",
        "ulimits: {core: {soft: 0, hard: 0}}",
        "ulimits: {nofile: {soft: 0, hard: 5}}",
        "scale: 0",
        "deploy: {replicas: 0}",
        "deploy: {update_config: {parallelism: 0}}",
        "init: false",
        "entrypoint: []",
        "command: []",
        "healthcheck: {test: x, retries: 0}",
        "environment: {A: ''}",
        "labels: {a: ''}",
        "oom_score_adj: 0",
        "cpu_shares: 0",
        "mem_swappiness: 0",
        "volumes: [{type: tmpfs, target: /t, tmpfs: {size: 0}}]",
        "volumes: [{type: bind, source: /x, target: /y, bind: {create_host_path: false}}]",
        "networks: {n: {aliases: []}}",
        "deploy: {restart_policy: {max_attempts: 0}}",
    ] {
        survives(&project_of(members));
    }
}

/// R-IN-2: an optional dependency on a service whose profile is not active is sent and received.
#[test]
fn optional_dependencies_on_inactive_profiles_survive() {
    let text = "services:\n  web: {image: i, depends_on: {db: {condition: service_started, required: false}}}\n  db: {image: d, profiles: [p]}\n";
    let project = load_text(text).expect("the profile is not active").project;
    assert_eq!(project.service_names().collect::<Vec<_>>(), ["web"]);
    let sent = project.model();
    let received = from_model(sent.to_string().as_bytes()).expect("the dependency is optional");
    assert_eq!(received.model(), sent);
    let required = text.replace("required: false", "required: true");
    let problems = load_text(&required).expect_err("the dependency is required");
    assert_eq!(problems.list[0].code.as_str(), "unknown_depends_on_service");
}

/// R-IN-2: texts that look like something else to a YAML reader, or hold a dollar.
#[test]
fn awkward_texts_survive() {
    for value in [
        "",
        " ",
        "yes",
        "no",
        "on",
        "~",
        "null",
        "1",
        "0x1f",
        "1e3",
        ".inf",
        "1:2",
        "a: b",
        "- a",
        "#x",
        "a #b",
        "'",
        "\"",
        "\\",
        "$",
        "$$",
        "${A}",
        "$A",
        "%x",
        "@x",
        "`x`",
        "é",
        "\u{1f600}",
        "a\nb",
        "a\n",
        "\n",
        "\ttab",
        "{a}",
        "[a]",
        "!x",
        "&a",
        "*a",
        "|",
        ">",
        "?",
        "=",
        "<<",
    ] {
        let quoted = serde_json::to_string(&value.replace('$', "$$")).expect("a string is JSON");
        survives(&project_of(&format!("user: {quoted}")));
        survives(&project_of(&format!("environment: {{A: {quoted}}}")));
        survives(&project_of(&format!("command: [a, {quoted}]")));
    }
}

/// R-IN-2: the sections beside the services, and services with each kind of resource.
#[test]
fn resources_survive_printing_and_sending() {
    for text in [
        "services: {web: {image: i, networks: [n]}}\nnetworks: {n: {internal: true, name: x}}\n",
        "services: {web: {image: i, networks: [n]}}\nnetworks: {n: {external: true}}\n",
        "services: {web: {image: i, networks: [n]}}\nnetworks: {n: {external: {name: x}}}\n",
        "services: {web: {image: i, volumes: ['v:/v']}}\nvolumes: {v: {driver: d, driver_opts: {a: 1}}}\n",
        "services: {web: {image: i, volumes: ['v:/v']}}\nvolumes: {v: {external: true, name: x}}\n",
        "services: {web: {image: i, volumes: ['v:/v']}}\nvolumes: {v: {labels: [a=b]}}\n",
        "services: {web: {image: i, configs: [c]}}\nconfigs: {c: {content: \"a\\nb $$x\"}}\n",
        "services: {web: {image: i, configs: [c]}}\nconfigs: {c: {external: true}}\n",
        "services: {web: {image: i, secrets: [s]}}\nsecrets: {s: {environment: S}}\n",
        "services: {web: {image: i, secrets: [s]}}\nsecrets: {s: {external: true, name: x}}\n",
        "services: {web: {image: i}, db: {image: d, network_mode: 'service:web'}}\n",
        "x-top: {kept: [1, a]}\nservices: {web: {image: i, x-own: 1}}\n",
        "name: shop\nservices: {web: {image: i}}\n",
    ] {
        survives(text);
    }
}

fn walk(object: &'static Object, path: &str, visit: &mut dyn FnMut(&str, &'static Shape)) {
    for key in object.keys {
        let path = format!("{path}.{}", key.name);
        visit(&path, &key.shape);
        let mut shape = &key.shape;
        loop {
            match shape.inside() {
                Inside::Nothing => break,
                Inside::Itself(inner) | Inside::Items(inner) | Inside::Values(inner) => {
                    shape = inner;
                }
                Inside::Keys(inner) => {
                    walk(inner, &path, visit);
                    break;
                }
            }
        }
    }
}

/// R-IN-3: a value of a wrong type is refused with the position of the value, for every key of the
/// specification that takes only some types.
#[test]
fn every_key_refuses_a_wrong_type_at_its_position() {
    let mut checked = BTreeSet::new();
    let service = TOP_LEVEL.key("services").expect("there are services");
    let Inside::Values(service) = service.shape.inside() else { panic!("services have names") };
    let Inside::Keys(service) = service.inside() else { panic!("a service has keys") };
    for key in service.keys {
        let wrong = match &key.shape {
            Shape::Str | Shape::OneOf(_) | Shape::Duration | Shape::Bool | Shape::Number => "[1]",
            Shape::Int | Shape::Bytes | Shape::BytesText => "{a: b}",
            Shape::List(..) | Shape::Object(_) | Shape::Pairs(_) | Shape::Map(..) => "true",
            Shape::Any
            | Shape::Path
            | Shape::OrNull(_)
            | Shape::StrOrNum
            | Shape::Text
            | Shape::Label
            | Shape::Mode
            | Shape::Count
            | Shape::OneOrList(..)
            | Shape::Command
            | Shape::MapOrNull(..)
            | Shape::Short(..)
            | Shape::IntOr(_) => continue,
        };
        let text = format!("services:\n  web:\n    image: i\n    {}: {wrong}\n", key.name);
        let text = text.replace("    image: i\n    image:", "    image:");
        let problems = load_text(&text).expect_err(key.name);
        let line = if key.name == "image" { 3 } else { 4 };
        let column = u32::try_from(key.name.len() + 7).expect("names are short");
        let at = problems.errors().find(|problem| problem.line == line);
        let at = at.unwrap_or_else(|| panic!("{}: {problems}", key.name));
        assert!(at.column >= column, "{}: {problems}", key.name);
        assert!(at.message.contains(key.name), "{}: {problems}", key.name);
        assert!(at.expected.is_some(), "{}: {problems}", key.name);
        checked.insert(key.name);
    }
    assert!(checked.len() > 60, "only {} keys were checked", checked.len());
}

/// R-IN-3: a mistyped key is refused at its position, with the right key as the suggestion.
#[test]
fn every_mistyped_key_of_a_service_gets_a_suggestion() {
    let mut keys = BTreeSet::new();
    walk(&TOP_LEVEL, "", &mut |path, _| {
        let mut steps = path.split('.').skip(1);
        if steps.next() == Some("services")
            && let (Some(key), None) = (steps.next(), steps.next())
            && key.len() > 4
        {
            keys.insert(key.to_owned());
        }
    });
    for key in &keys {
        let (start, end) = key.split_at(key.len() / 2);
        let wrong = format!("{start}x{end}");
        let text = format!("services:\n  web:\n    image: i\n    {wrong}: 1\n");
        let problems = load_text(&text).expect_err(key);
        let first = problems.errors().next().expect("there is an error");
        assert_eq!((first.code.as_str(), first.line, first.column), ("unknown_key", 4, 5), "{key}");
        assert_eq!(first.suggestion, Some(format!("did you mean `{key}`?")), "{problems}");
    }
    assert!(keys.len() > 70, "only {} keys were tried", keys.len());
}

fn json_text() -> impl Strategy<Value = String> {
    "[ -~\u{e9}\n\t]{0,16}"
}

fn members() -> impl Strategy<Value = Json> {
    let map = || proptest::collection::btree_map("[A-Za-z_][A-Za-z0-9_.-]{0,6}", json_text(), 0..4);
    let list = || proptest::collection::vec(json_text(), 0..4);
    let parts = (map(), map(), list(), json_text(), 0_u32..5, any::<bool>(), 1_u16..=u16::MAX);
    parts.prop_map(|(environment, labels, command, user, scale, tty, port)| {
        json!({
            "image": "i",
            "environment": environment,
            "labels": labels,
            "command": command,
            "user": user,
            "scale": scale,
            "tty": tty,
            "ports": [{"target": port, "published": port.to_string()}],
        })
    })
}

proptest! {
    /// R-IN-2: law: any service, printed, loads to the same model, whatever its texts are.
    #[test]
    fn any_service_survives(members in members()) {
        let text = json!({"services": {"web": members}}).to_string().replace('$', "$$");
        survives(&text);
    }

    /// R-IN-3: law: every error of any text lies inside of the text.
    #[test]
    fn errors_lie_inside_of_the_text(text in "[a-z0-9:{}\\[\\]'\"&*!#,\\- \n]{0,120}") {
        let text = format!("services:\n  web:\n    image: i\n{text}");
        let lines: Vec<&str> = text.split('\n').collect();
        if let Err(problems) = load_text(&text) {
            for problem in problems.errors().filter(|problem| problem.line > 0) {
                let line = lines.get(problem.line as usize - 1);
                // A parser that misses something stands behind the last line.
                let width = line.map_or(0, |line| line.chars().count());
                prop_assert!(problem.line as usize <= lines.len() + 1, "{}", problems);
                prop_assert!(problem.column as usize <= width + 1, "{}", problems);
            }
        }
    }

    /// R-IN-2: law: a duration that is printed is read as the same duration.
    #[test]
    fn durations_survive(nanos in 0..=u64::try_from(i64::MAX).expect("it is positive")) {
        let text = units::format_duration_nanos(nanos);
        prop_assert_eq!(units::parse_duration_nanos(&text), Some(nanos), "{}", text);
    }

    /// R-IN-2: law: whole numbers of bytes are read exactly in every unit that they fit.
    #[test]
    fn sizes_are_exact(number in 0_u64..1 << 12, unit in 0_usize..6) {
        let (name, shift) = [("b", 0), ("k", 10), ("mb", 20), ("GiB", 30), ("t", 40), ("p", 50)][unit];
        prop_assert_eq!(units::parse_bytes(&format!("{number}{name}")), Some(number << shift));
    }

    /// R-IN-3: law: no text makes the readers of units panic.
    #[test]
    fn units_take_any_text(text in "\\PC{0,24}") {
        let _either = (units::parse_duration_nanos(&text), units::parse_bytes(&text));
    }

    /// R-IN-2: law: a clean path is clean, and stays absolute or relative.
    #[test]
    fn cleaning_a_path_is_idempotent(path in "[a-c./]{0,24}") {
        let clean = paths::clean(&path);
        prop_assert_eq!(paths::clean(&clean), clean.clone());
        prop_assert_eq!(clean.starts_with('/'), path.starts_with('/'));
        prop_assert!(!clean.contains("//") && !clean.contains("/./"));
    }

    /// R-IN-2: law: joining is associative below a folder.
    #[test]
    fn joining_paths_is_associative(a in "/[a-c/]{0,8}", b in "[a-c.][a-c./]{0,8}", c in "[a-c./]{0,8}") {
        prop_assume!(!c.starts_with('/'));
        let left = paths::join(&paths::join(&a, &b), &c);
        let right = paths::join(&a, &format!("{b}/{c}"));
        prop_assert_eq!(left, right);
    }

    /// R-IN-2: law: a normalised name is a name.
    #[test]
    fn normalising_a_name_is_idempotent(text in "\\PC{0,24}") {
        let name = normalise_name(&text);
        prop_assert_eq!(normalise_name(&name), name.clone());
        prop_assert!(!name.starts_with(['-', '_']));
    }

    /// R-IN-2: law: taking out what is empty is done at once.
    #[test]
    fn leaving_out_empty_values_is_idempotent(members in members()) {
        let once = canonical::without_empty(members);
        prop_assert_eq!(canonical::without_empty(once.clone()), once);
    }
}
