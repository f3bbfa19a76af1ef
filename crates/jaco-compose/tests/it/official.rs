//! What the official tool makes of files that no corpus has: printed the same, and run as meant.
//! R-IN-2.

use jaco_compose::{EnvFiles, Input, Loaded, Options, Problems, from_model, load, resolve};
use serde_json::{Value as Json, json};

use crate::util::{folder, load_text, problems_of, resolve_text};

fn loaded(files: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let input = Input {
        name: Some("shop".to_owned()),
        project_dir: ".".to_owned(),
        env,
        env_files: EnvFiles::Project,
        ..Input::file("compose.yaml")
    };
    load(&input, &folder(files))
}

/// A value of what is printed, by its JSON pointer; null if it is absent.
fn printed(text: &str, pointer: &str) -> Json {
    let project = load_text(text).unwrap_or_else(|problems| panic!("{problems}\n{text}")).project;
    project.canonical_json().pointer(pointer).cloned().unwrap_or_default()
}

/// Errors and warnings of a text that is loaded and resolved, warnings only if it runs.
fn said(text: &str) -> String {
    let resolved = resolve_text(text, None);
    match resolved {
        Ok(resolved) => problems_of(&resolved.warnings),
        Err(problems) => problems_of(&problems),
    }
}

/// A bare argument of a build is a variable, of the environment or of `.env`; one that has no value
/// is left out.
#[test]
fn build_arguments_are_variables() {
    let text = "services: {web: {image: i, build: {args: [A, B=2, C, D]}}}";
    let files = [("compose.yaml", text), (".env", "A=from file\n")];
    let project = loaded(&files, &[("D", "from outside")]).expect("it loads").project;
    let args = &project.canonical_json()["services"]["web"]["build"]["args"];
    assert_eq!(*args, json!({"A": "from file", "B": "2", "D": "from outside"}));
}

/// The content of a config of the environment is not printed, and is sent.
#[test]
fn configs_of_the_environment_print_their_source() {
    let text = "services: {web: {image: i, configs: [c]}}\nconfigs: {c: {environment: MOTD}}\n";
    let project =
        loaded(&[("compose.yaml", text)], &[("MOTD", "hello")]).expect("it loads").project;
    let config = &project.canonical_json()["configs"]["c"];
    assert_eq!(*config, json!({"environment": "MOTD", "name": "shop_c"}));
    assert_eq!(project.sent_model()["configs"]["c"]["content"], json!("hello"));
}

/// A config without a target is printed without one, and still mounted at the root.
#[test]
fn targets_of_configs_are_not_printed() {
    let text = "services: {web: {image: i, configs: [c, {source: d, target: /etc/d}], secrets: [s]}}\nconfigs: {c: {content: x}, d: {content: y}}\nsecrets: {s: {environment: S}}\n";
    assert_eq!(printed(text, "/services/web/configs/0"), json!({"source": "c"}));
    assert_eq!(
        printed(text, "/services/web/configs/1"),
        json!({"source": "d", "target": "/etc/d"})
    );
    assert_eq!(
        printed(text, "/services/web/secrets/0"),
        json!({"source": "s", "target": "/run/secrets/s"})
    );
    let resolved = resolve_text(text, None).expect("it runs");
    let container = &resolved.services["web"].container.canonical;
    assert!(container.contains(r#"[{"source":"c","target":"/c"},"#), "{container}");
    let written = text.replace("[c, {", "[{source: c, target: /c}, {");
    let other = resolve_text(&written, None).expect("it runs");
    assert_eq!(other.services["web"].container, resolved.services["web"].container);
}

/// Models that no service uses are not printed; one that is used has to be declared.
#[test]
fn models_are_printed_where_they_are_used() {
    let text =
        "services: {web: {image: i, models: [llm]}}\nmodels: {llm: {model: a}, idle: {model: b}}\n";
    assert_eq!(printed(text, "/models"), json!({"llm": {"model": "a"}}));
    let unused = "services: {web: {image: i}}\nmodels: {idle: {model: b}}\n";
    assert_eq!(printed(unused, "/models"), Json::Null);
    let problems =
        load_text("services: {web: {image: i, models: [lml]}}\nmodels: {llm: {model: a}}\n")
            .expect_err("the model is not declared");
    assert_eq!(
        problems_of(&problems),
        "1:37 error unknown_model: service `web` refers to model `lml`, which is not declared\n  \
         help did you mean `llm`?"
    );
}

/// `scale` fills `deploy.replicas` in where there is a `deploy`.
#[test]
fn scale_fills_the_replicas_in() {
    let deploy = "services: {web: {image: i, scale: 3, deploy: {mode: replicated}}}";
    assert_eq!(printed(deploy, "/services/web/deploy/replicas"), json!(3));
    assert_eq!(printed(deploy, "/services/web/scale"), json!(3));
    let bare = "services: {web: {image: i, scale: 3}}";
    assert_eq!(printed(bare, "/services/web/deploy"), Json::Null);
    let both = "services: {web: {image: i, scale: 3, deploy: {replicas: 2}}}";
    let problems = load_text(both).expect_err("they differ");
    assert_eq!(problems.list[0].code.as_str(), "conflict");
}

/// Options of a provider are lists.
#[test]
fn options_of_providers_are_lists() {
    let text =
        "services: {db: {provider: {type: cloud, options: {size: 2, on: true, zones: [a, 1]}}}}";
    assert_eq!(
        printed(text, "/services/db/provider/options"),
        json!({"on": ["true"], "size": ["2"], "zones": ["a", "1"]})
    );
}

/// Amounts are compared as numbers, not as they are written.
#[test]
fn amounts_are_compared_as_numbers() {
    let text = |old: &str, new: &str| {
        format!(
            "services: {{web: {{image: i, cpus: {old}, deploy: {{resources: {{limits: {{cpus: {new}}}}}}}}}}}"
        )
    };
    for (old, new) in [("2", "2.0"), ("'2'", "2"), ("0.50", "'0.5'"), ("2.0", "2")] {
        assert!(load_text(&text(old, new)).is_ok(), "{old} is {new}");
    }
    let problems = load_text(&text("2", "2.5")).expect_err("they differ");
    assert_eq!(problems.list[0].message, "`cpus` and `deploy.resources.limits.cpus` differ");
}

/// A volume may have a name of one letter; a path of a Windows drive has a target behind it.
#[test]
fn volumes_may_have_one_letter() {
    let mount = |text: &str| {
        let text =
            format!("services: {{web: {{image: i, volumes: ['{text}']}}}}\nvolumes: {{v: {{}}}}\n");
        printed(&text, "/services/web/volumes/0")
    };
    let volume = |read_only: bool| {
        let mut mount = json!({"type": "volume", "source": "v", "target": "/v"});
        if read_only {
            mount["read_only"] = json!(true);
        }
        mount
    };
    assert_eq!(mount("v:/v"), volume(false));
    assert_eq!(mount("v:/v:ro"), volume(true));
    let bind = json!({"create_host_path": true});
    assert_eq!(
        mount("c:/host:/v"),
        json!({"type": "bind", "source": "c:/host", "target": "/v", "bind": bind})
    );
    assert_eq!(
        mount(r"c:\host:/v:ro"),
        json!({"type": "bind", "source": r"c:\host", "target": "/v", "read_only": true, "bind": bind})
    );
    let text = "services: {web: {image: i, volumes: ['w:/v']}}\nvolumes: {v: {}}\n";
    let problems = load_text(text).expect_err("it is not declared");
    assert_eq!(problems.list[0].code.as_str(), "unknown_volume");
}

/// A host and an address, both; an unset variable leaves nothing of one.
#[test]
fn extra_hosts_have_a_host_and_an_address() {
    for hosts in
        ["['${A}:${B}']", "['=1.2.3.4']", "['a=']", "{a: '${B}'}", "{'': 1.2.3.4}", "['a:${B}']"]
    {
        let text = format!("services:\n  web:\n    image: i\n    extra_hosts: {hosts}\n");
        let problems = load_text(&text).expect_err(hosts);
        let error = problems.errors().next().expect("it is refused");
        assert_eq!((error.code.as_str(), error.line), ("invalid_value", 4), "{problems}");
        assert_eq!(error.expected.as_deref(), Some("`HOST=ADDRESS`"), "{problems}");
    }
}

/// A container that is named in the same file is that service.
#[test]
fn containers_of_the_same_file_are_services() {
    for key in ["network_mode", "pid", "ipc"] {
        let text = format!(
            "services:\n  vpn: {{image: v, container_name: tunnel}}\n  web: {{image: i, {key}: 'container:tunnel'}}\n"
        );
        assert_eq!(printed(&text, &format!("/services/web/{key}")), json!("container:tunnel"));
        let resolved = resolve_text(&text, None).unwrap_or_else(|problems| panic!("{problems}"));
        let web = &resolved.services["web"];
        let shared: Vec<_> =
            web.facts.shares_namespaces_with.iter().map(ToString::to_string).collect();
        assert_eq!(shared, ["vpn"], "{key}");
        let written = text.replace("container:tunnel", "service:vpn");
        let other = resolve_text(&written, None).expect("it runs");
        assert_eq!(other.services["web"].container, web.container, "{key}");
    }
    let text = "services: {web: {image: i, network_mode: 'container:other'}}";
    assert!(
        said(text).contains("unsupported: service `web` shares `network_mode`"),
        "{}",
        said(text)
    );
    let own = "services: {web: {image: i, container_name: me, network_mode: 'container:me'}}";
    assert!(said(own).contains("invalid_depends_on: `web` depends on itself"), "{}", said(own));
    let circle = "services:\n  a: {image: i, container_name: x, pid: 'container:y'}\n  b: {image: i, container_name: y, ipc: 'container:x'}\n";
    assert!(said(circle).contains("invalid_depends_on: `a` depends on itself"), "{}", said(circle));
}

/// An image beside `build` is taken; without one the service has to be built.
#[test]
fn an_image_beside_a_build_is_taken() {
    let text = "services:\n  web:\n    image: host.example/web:1\n    build: .\n";
    assert_eq!(
        said(text),
        "4:12 warning no_effect: service `web` is not built; nodes run the image `host.example/web:1`"
    );
    let resolved = resolve_text(text, None).expect("it runs");
    assert_eq!(resolved.services["web"].facts.image, "host.example/web:1");
    let bare = "services:\n  web:\n    build: .\n";
    assert!(said(bare).contains("error build_unsupported: service `web` has to be built"));
}

/// What hardens a container asks for no permission; what weakens it does.
#[test]
fn no_new_privileges_needs_no_permission() {
    let text =
        |option: &str| format!("services: {{web: {{image: i, security_opt: ['{option}']}}}}");
    for option in ["no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"] {
        let resolved =
            resolve_text(&text(option), None).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(resolved.services["web"].facts.reaches.is_empty(), "{option}");
        assert!(resolved.services["web"].container.canonical.contains(option), "{option}");
    }
    for option in
        ["no-new-privileges:false", "seccomp:unconfined", "apparmor=unconfined", "label:disable"]
    {
        let problems = resolve_text(&text(option), None).expect_err(option);
        assert_eq!(problems.list[0].code.as_str(), "validation_failed", "{option}");
    }
    let both =
        "services: {web: {image: i, security_opt: ['no-new-privileges', 'seccomp:unconfined']}}";
    assert!(resolve_text(both, None).is_err());
}

/// What is printed is received as the same: the sent model of each of these runs alike.
#[test]
fn what_is_sent_of_them_is_received() {
    for text in [
        "services:\n  vpn: {image: v, container_name: tunnel}\n  web: {image: i, network_mode: 'container:tunnel'}\n",
        "services: {web: {image: i, configs: [c]}}\nconfigs: {c: {content: x}}\n",
        "services: {web: {image: i, scale: 3, deploy: {mode: replicated}}}",
        "services: {web: {image: i, volumes: ['v:/v']}}\nvolumes: {v: {}}\n",
    ] {
        let project = load_text(text).expect("it loads").project;
        let received =
            from_model(project.sent_model().to_string().as_bytes()).expect("it is received");
        let run = |project| resolve(project, None, &Options::default()).expect("it runs").services;
        assert_eq!(run(&received), run(&project), "{text}");
    }
}
