//! Values that no engine takes, and numbers that no cluster runs: each is refused at its place, in a
//! file and in a model that a client sent. R-IN-3.

use jaco_compose::{Options, from_model, resolve};
use serde_json::{Value as Json, json};

use crate::util::{load_text, problems_of, resolve_text};

/// Refused with this code at this place, with an expectation or advice.
fn refused(text: &str, code: &str, place: (u32, u32)) {
    let problems = resolve_text(text, None).expect_err(text);
    let error = problems.errors().next().expect("it is refused");
    assert_eq!((error.code.as_str(), (error.line, error.column)), (code, place), "{problems}");
    assert!(error.expected.is_some() || error.suggestion.is_some(), "{problems}");
    assert_eq!(problems.errors().count(), 1, "{problems}");
}

fn service(members: &str) -> String {
    format!("services:\n  web:\n    image: i\n    {members}\n")
}

/// What a daemon says to a service with `members`, sent past the client.
fn sent(members: &Json) -> String {
    let mut service = json!({"image": "i"});
    for (key, value) in members.as_object().into_iter().flatten() {
        service[key] = value.clone();
    }
    let model = json!({"name": "shop", "services": {"web": service}});
    let project = match from_model(model.to_string().as_bytes()) {
        Ok(project) => project,
        Err(problems) => return problems_of(&problems),
    };
    match resolve(&project, None, &Options::default()) {
        Ok(resolved) => problems_of(&resolved.warnings),
        Err(problems) => problems_of(&problems),
    }
}

#[test]
fn no_text_has_a_nul() {
    refused("services:\n  web:\n    image: \"i\\0j\"\n", "not_text", (3, 12));
    refused(&service("command: [\"a\\0b\"]"), "not_text", (4, 15));
    refused(&service("environment: {A: \"\\0\"}"), "not_text", (4, 22));
    refused(&service("environment: {\"A\\0\": b}"), "not_text", (4, 19));
    refused(&service("labels: [\"a=\\x00\"]"), "not_text", (4, 14));
    refused(&service("user: \"\\u0000\""), "not_text", (4, 11));
    for members in [
        json!({"image": "i\0"}),
        json!({"command": ["a\0"]}),
        json!({"environment": {"A": "\0"}}),
        json!({"environment": {"\0": "a"}}),
    ] {
        assert!(sent(&members).contains("not_text: the model contains a NUL"), "{members}");
    }
}

#[test]
fn variables_have_names() {
    for members in ["environment: {\"\": b}", "environment: {\"A=B\": c}", "environment: [\"=b\"]"]
    {
        refused(&service(members), "invalid_key", (4, 19));
    }
    for members in [json!({"environment": {"": "b"}}), json!({"environment": {"A=B": "c"}})] {
        assert!(sent(&members).contains("invalid_key"), "{}", sent(&members));
    }
    for fine in ["{A.B: c}", "{a-b: c}", "['A=b=c']", "{' ': c}"] {
        assert!(resolve_text(&service(&format!("environment: {fine}")), None).is_ok(), "{fine}");
    }
}

#[test]
fn cores_are_a_number_that_a_machine_could_have() {
    for wrong in ["-1", "-0.5", "1e300", "1048577", "'-1'"] {
        refused(&service(&format!("cpus: {wrong}")), "invalid_value", (4, 11));
        let place = |section: &str| {
            let column = u32::try_from(section.len() + 35).expect("it is short");
            refused(
                &service(&format!("deploy: {{resources: {{{section}: {{cpus: {wrong}}}}}}}")),
                "invalid_value",
                (4, column),
            );
        };
        place("limits");
        place("reservations");
    }
    for fine in ["0", "0.25", "1048576", "1e2", "'2.5'"] {
        assert!(resolve_text(&service(&format!("cpus: {fine}")), None).is_ok(), "{fine}");
    }
    for wrong in [json!(-1), json!(1e300)] {
        let members = json!({"deploy": {"resources": {"reservations": {"cpus": wrong}}}});
        assert!(sent(&members).contains("`deploy.resources.reservations.cpus` cannot be"));
    }
}

#[test]
fn images_have_names_that_engines_take() {
    let long = "x".repeat(300 << 10);
    for wrong in
        ["'web '", "Web", "'web:'", "'a//b'", "'http://x/web'", "'web@sha256:12'", long.as_str()]
    {
        let text = format!("services:\n  web:\n    image: {wrong}\n");
        let problems = resolve_text(&text, None).expect_err("it is no name");
        let error = problems.errors().next().expect("it is refused");
        assert_eq!((error.code.as_str(), error.line, error.column), ("invalid_value", 3, 12));
        assert!(error.message.len() < 200, "{}", error.message);
    }
    for fine in ["web", "host.example:5000/team/web:1.2", "localhost/web", "'web:1'"] {
        assert!(resolve_text(&format!("services: {{web: {{image: {fine}}}}}"), None).is_ok());
    }
    assert!(sent(&json!({"image": "Web"})).contains("is not the name of an image"));
}

/// A long name is cut where it is shown, and so is what is no rule told with what one has.
#[test]
fn messages_are_cut_and_say_what_is_expected() {
    let told =
        |text: &str, overlay: Option<&str>| problems_of(&resolve_text(text, overlay).unwrap_err());
    let long = format!("Web{}", "w".repeat(100));
    let said = told(&format!("services: {{web: {{image: {long}}}}}"), None);
    assert!(said.contains(&format!("`{}` is not the name of an image", &long[..64])), "{said}");
    let overlay = "services: [{name: web, affinities: [x]}]\n";
    let said = told("services: {web: {image: i}}", Some(overlay));
    let expected = "1:37 error wrong_type: expected a mapping, found a string\n  \
                    expected a mapping with `attribute`, `operator`, `value`, `weight`";
    assert_eq!(said, expected);
}

/// The bound of one service, of a deployment, and of what a client sends past the checks of its own.
#[test]
fn replicas_are_bounded() {
    let expected = "a whole number from 0 to 10000";
    for wrong in ["10001", "4000000000", "-1", "99999999999999"] {
        let problems = resolve_text(&service(&format!("deploy: {{replicas: {wrong}}}")), None)
            .expect_err(wrong);
        let error = problems.errors().next().expect("it is refused");
        assert_eq!((error.line, error.column), (4, 24), "{problems}");
        assert_eq!(error.expected.as_deref(), Some(expected), "{problems}");
        assert!(resolve_text(&service(&format!("scale: {wrong}")), None).is_err(), "{wrong}");
    }
    assert!(resolve_text(&service("deploy: {replicas: 10000}"), None).is_ok());
    let overlay = |replicas: u64| {
        format!("deployment: shop\nservices: [{{name: web, replicas: {replicas}}}]\n")
    };
    assert!(resolve_text(&service(""), Some(&overlay(10_000))).is_ok());
    let problems = resolve_text(&service(""), Some(&overlay(10_001))).expect_err("too many");
    assert_eq!(
        problems_of(&problems),
        "2:34 error validation_failed: `replicas` cannot be 10001\n  expected a whole number from 0 to 10000"
    );
    let two = "services:\n  a: {image: i, scale: 6000}\n  b: {image: i, scale: 6000}\n";
    assert_eq!(
        problems_of(&resolve_text(two, None).expect_err("too many together")),
        "2:3 error too_large: the deployment has 12000 replicas\n  expected at most 10000\n  \
         help split it into several deployments"
    );
    for replicas in [json!(1_000_000), json!(4_000_000_000_u64), json!(1e18)] {
        let said = sent(&json!({"deploy": {"replicas": replicas}}));
        assert!(said.contains("the number of replicas is not valid"), "{said}");
    }
}

#[test]
fn a_refused_model_names_the_value_once() {
    let said = sent(&json!({"ports": [
        {"target": 80, "published": "80"},
        {"target": 81, "published": "80"},
    ]}));
    assert_eq!(
        said,
        "0:0 error port_conflict: service `web` publishes port 80 twice\n  help publish another port"
    );
}

#[test]
fn extra_hosts_of_a_sent_model_are_checked() {
    for hosts in [json!(["a="]), json!(["=1.2.3.4"]), json!(["="])] {
        assert!(sent(&json!({"extra_hosts": hosts})).contains("invalid_value"), "{hosts}");
    }
    assert!(load_text(&service("extra_hosts: ['a=1.2.3.4', 'b:::1']")).is_ok());
}
