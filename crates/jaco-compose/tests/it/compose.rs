//! The specification, rule by rule, on files of our own.

use expect_test::{Expect, expect};
use jaco_compose::{
    EnvFiles, Input, Reference, ReferenceKind, from_model, load, normalise_name, resolve,
};
use serde_json::{Value as Json, json};

use crate::util::{folder, load_files, load_text, local_images, resolve_text};

fn model(files: &[(&str, &str)]) -> Json {
    load_files(files).unwrap_or_else(|problems| panic!("{problems}")).project.canonical_json()
}

fn check(text: &str, path: &str, expect: Expect) {
    let model = model(&[("/p/compose.yaml", text)]);
    expect.assert_eq(&model.pointer(path).unwrap_or(&Json::Null).to_string());
}

fn check_refused(files: &[(&str, &str)], expect: Expect) {
    let problems = load_files(files).map(|loaded| loaded.project.model()).unwrap_err();
    expect.assert_eq(&problems.to_string());
}

/// R-IN-2
#[test]
fn ports_short_and_long() {
    let text = "
services:
  a:
    image: i
    ports:
      - 80
      - '8080:80/udp'
      - '127.0.0.1:9000-9001:90-91'
      - '[::1]:7:8'
      - '7000-7010:70'
      - {target: 5, published: 55, mode: host}
";
    check(
        text,
        "/services/a/ports",
        expect![[
            r#"[{"mode":"ingress","protocol":"tcp","target":80},{"mode":"ingress","protocol":"udp","published":"8080","target":80},{"host_ip":"127.0.0.1","mode":"ingress","protocol":"tcp","published":"9000","target":90},{"host_ip":"127.0.0.1","mode":"ingress","protocol":"tcp","published":"9001","target":91},{"host_ip":"::1","mode":"ingress","protocol":"tcp","published":"7","target":8},{"mode":"ingress","protocol":"tcp","published":"7000-7010","target":70},{"mode":"host","protocol":"tcp","published":"55","target":5}]"#
        ]],
    );
}

/// R-IN-2
#[test]
fn volumes_short_and_long() {
    let text = "
services:
  a:
    image: i
    volumes:
      - /anon
      - data:/d:ro
      - ./x:/x:Z
      - ../y:/y
      - ~/h:/h
      - {type: tmpfs, target: /t, tmpfs: {size: 1m}}
volumes: {data: {}}
";
    check(
        text,
        "/services/a/volumes",
        expect![[
            r#"[{"target":"/anon","type":"volume"},{"read_only":true,"source":"data","target":"/d","type":"volume"},{"bind":{"create_host_path":true,"selinux":"Z"},"source":"/p/x","target":"/x","type":"bind"},{"bind":{"create_host_path":true},"source":"/y","target":"/y","type":"bind"},{"bind":{"create_host_path":true},"source":"/p/~/h","target":"/h","type":"bind"},{"target":"/t","tmpfs":{"size":"1048576"},"type":"tmpfs"}]"#
        ]],
    );
}

/// R-IN-2
#[test]
fn short_forms_of_a_service() {
    let text = "
services:
  a:
    image: i
    command: echo \"a b\" c
    environment: [A=1, B]
    depends_on: [b]
    dns: 1.1.1.1
    extra_hosts: {h: 1.2.3.4}
    healthcheck: {test: curl x, interval: 60s, retries: '3'}
    devices: [/dev/a]
    ulimits: {nofile: 5, core: {soft: 1, hard: 2}}
    gpus: all
    stop_grace_period: 90s
    shm_size: 1gb
    init: 'yes'
    secrets: [s]
    configs: [{source: c, target: /c, mode: 0440}]
  b: {image: i}
secrets: {s: {file: ./s.txt}}
configs: {c: {content: 'x $${y}'}}
";
    check(
        text,
        "/services/a",
        expect![[
            r#"{"command":["echo","a b","c"],"configs":[{"mode":"0440","source":"c","target":"/c"}],"depends_on":{"b":{"condition":"service_started","required":true}},"devices":[{"permissions":"rwm","source":"/dev/a","target":"/dev/a"}],"dns":["1.1.1.1"],"environment":{"A":"1","B":null},"extra_hosts":["h=1.2.3.4"],"gpus":[{"count":-1}],"healthcheck":{"interval":"1m0s","retries":3,"test":["CMD-SHELL","curl x"]},"image":"i","init":true,"networks":{"default":null},"secrets":[{"source":"s","target":"/run/secrets/s"}],"shm_size":"1073741824","stop_grace_period":"1m30s","ulimits":{"core":{"hard":2,"soft":1},"nofile":5}}"#
        ]],
    );
    check(text, "/configs/c/content", expect![[r#""x $${y}""#]]);
}

/// R-IN-2
#[test]
fn anchors_and_merge_keys() {
    let text = "
x-base: &base
  image: i
  environment: &env {A: '1', B: '1'}
services:
  a:
    <<: *base
    environment: {<<: *env, B: '2'}
  b:
    <<: [{tty: true}, *base]
    tty: false
";
    check(text, "/services/a/environment", expect![[r#"{"A":"1","B":"2"}"#]]);
    check(
        text,
        "/services/b",
        expect![[r#"{"environment":{"A":"1","B":"1"},"image":"i","networks":{"default":null}}"#]],
    );
}

/// R-IN-2
#[test]
fn several_files_merge_by_the_rules() {
    let base = "
services:
  a:
    image: i
    command: [one]
    ports: ['80:80', '81:81']
    environment: {A: '1', B: '1'}
    volumes: ['vx:/x', 'vy:/y']
    labels: [a=1]
    dns: [1.1.1.1]
    logging: {driver: json-file, options: {max-size: 1m}}
    cap_add: [A]
volumes: {vx: {}, vy: {}, vz: {}}
";
    let over = "
services:
  a:
    command: two
    ports: !override ['90:90']
    environment: [B=2, C=3]
    volumes: ['vz:/x']
    labels: {b: '2'}
    dns: 8.8.8.8
    logging: {driver: syslog}
    cap_add: !reset []
    tty: true
";
    let files = [("/p/a.yaml", base), ("/p/b.yaml", over)];
    let input = Input {
        files: vec!["/p/a.yaml".to_owned(), "/p/b.yaml".to_owned()],
        ..Input::file("/p/a.yaml")
    };
    let project = load(&input, &folder(&files)).unwrap().project;
    let mut service = project.canonical_json()["services"]["a"].take();
    service.as_object_mut().unwrap().remove("networks");
    expect![[r#"{"command":["two"],"dns":["1.1.1.1","8.8.8.8"],"environment":{"A":"1","B":"2","C":"3"},"image":"i","labels":{"a":"1","b":"2"},"logging":{"driver":"syslog"},"ports":[{"mode":"ingress","protocol":"tcp","published":"90","target":90}],"tty":true,"volumes":[{"source":"vz","target":"/x","type":"volume"},{"source":"vy","target":"/y","type":"volume"}]}"#]]
    .assert_eq(&service.to_string());
}

/// R-IN-2
#[test]
fn extends_within_and_across_files() {
    let main = "
services:
  web:
    extends: {file: base/common.yaml, service: app}
    environment: {B: main}
  more:
    extends: web
    image: other
";
    let common = "
services:
  root: {image: root, volumes: ['./data:/data']}
  app:
    extends: root
    environment: {A: base, B: base}
  broken: {image: 5}
";
    let model = model(&[("/p/compose.yaml", main), ("/p/base/common.yaml", common)]);
    assert_eq!(model["services"]["web"]["environment"], json!({"A": "base", "B": "main"}));
    assert_eq!(model["services"]["web"]["volumes"][0]["source"], "/p/base/data");
    assert_eq!(model["services"]["more"]["image"], "other");
    assert_eq!(model["services"]["more"]["environment"]["A"], "base");
}

/// R-IN-2
#[test]
fn includes_bring_their_own_folder_and_variables() {
    let main = "
include:
  - sub/one.yaml
  - {path: [sub/two.yaml, over.yaml], env_file: two.env}
services:
  web: {image: i, depends_on: [one, two]}
";
    let model = model(&[
        ("/p/compose.yaml", main),
        ("/p/sub/one.yaml", "services: {one: {image: 'a:${TAG}', volumes: ['./d:/d']}}"),
        ("/p/sub/.env", "TAG=sub\n"),
        ("/p/sub/two.yaml", "services: {two: {image: 'b:${TAG}'}}"),
        ("/p/over.yaml", "services: {two: {tty: true}}"),
        ("/p/two.env", "TAG=two\n"),
    ]);
    assert_eq!(model["services"]["one"]["image"], "a:sub");
    assert_eq!(model["services"]["one"]["volumes"][0]["source"], "/p/sub/d");
    assert_eq!(model["services"]["two"]["image"], "b:two");
    assert_eq!(model["services"]["two"]["tty"], true);
}

/// R-IN-2
#[test]
fn env_files_are_folded_in() {
    let main = "
services:
  web:
    image: i
    env_file:
      - a.env
      - {path: missing.env, required: false}
      - {path: raw.env, format: raw}
    environment: {C: own, D: }
";
    let files = [
        ("/p/compose.yaml", main),
        ("/p/a.env", "A=1\nB=\"$A-${D}\"\nC=file\n"),
        ("/p/raw.env", "R='x' $y\n"),
        ("/p/.env", "D=dot\n"),
    ];
    let loaded = load_files(&files).unwrap();
    let expected = json!({"A": "1", "B": "1-dot", "C": "own", "D": "dot", "R": "'x' $$y"});
    assert_eq!(loaded.project.canonical_json()["services"]["web"]["environment"], expected);
    let missing: Vec<_> = files[..2].to_vec();
    check_refused(
        &missing,
        expect![[r#"
        error[file_not_found]: /p/raw.env: there is no such file
          --> /p/compose.yaml:8:9
          |
        8 |       - {path: raw.env, format: raw}
          |         ^"#]],
    );
}

/// R-IN-2
#[test]
fn profiles_select_services() {
    let text = "
services:
  web: {image: i}
  debug: {image: i, profiles: [dev], networks: [tools]}
networks: {tools: {}}
";
    let files = folder(&[("/p/compose.yaml", text)]);
    let names = |profiles: &[&str]| {
        let profiles = profiles.iter().map(|&name| name.to_owned()).collect();
        let input = Input { profiles, ..Input::file("/p/compose.yaml") };
        let project = load(&input, &files).unwrap().project;
        let names: Vec<_> = project.service_names().map(str::to_owned).collect();
        (names.join(" "), project.canonical_json()["networks"].get("tools").is_some())
    };
    assert_eq!(names(&[]), ("web".to_owned(), false));
    assert_eq!(names(&["dev"]), ("debug web".to_owned(), true));
    assert_eq!(names(&["*"]), ("debug web".to_owned(), true));
}

/// R-IN-3: all problems of all phases at once, each at its place.
#[test]
fn every_problem_at_once_with_its_place() {
    let text = "
services:
  web:
    imgae: nginx
    ports: ['99999:80']
    hostname: 5
    depends_on: [dbb]
    volumes: ['data:/d']
    stop_grace_period: soon
    restart: [1]
  db: {image: postgres}
";
    check_refused(
        &[("/p/compose.yaml", text)],
        expect![[r#"
            error[missing_image]: service `web` has neither `image` nor `build`
              --> /p/compose.yaml:3:3
              |
            3 |   web:
              |   ^
              help: add `image:`

            error[unknown_key]: `services.web` has no key `imgae`
              --> /p/compose.yaml:4:5
              |
            4 |     imgae: nginx
              |     ^
              help: did you mean `image`?

            error[invalid_value]: `services.web.ports` cannot be `99999:80`
              --> /p/compose.yaml:5:13
              |
            5 |     ports: ['99999:80']
              |             ^
              expected: `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535

            error[wrong_type]: `services.web.hostname` is a number
              --> /p/compose.yaml:6:15
              |
            6 |     hostname: 5
              |               ^
              expected: a string
              help: put the value in quotes

            error[unknown_depends_on_service]: service `web` depends on `dbb`, which does not exist
              --> /p/compose.yaml:7:18
              |
            7 |     depends_on: [dbb]
              |                  ^
              help: did you mean `db`?

            error[unknown_volume]: service `web` refers to volume `data`, which is not declared
              --> /p/compose.yaml:8:15
              |
            8 |     volumes: ['data:/d']
              |               ^
              help: declare it: a top-level `volumes:` with `data:`

            error[invalid_value]: `services.web.stop_grace_period` cannot be `soon`
              --> /p/compose.yaml:9:24
              |
            9 |     stop_grace_period: soon
              |                        ^
              expected: a duration such as `30s` or `1m30s`

            error[wrong_type]: `services.web.restart` is a list
              --> /p/compose.yaml:10:14
               |
            10 |     restart: [1]
               |              ^
              expected: a string
              help: put the value in quotes"#]],
    );
}

/// R-IN-3
#[test]
fn cycles_are_told() {
    check_refused(
        &[(
            "/p/compose.yaml",
            "services: {a: {image: i, depends_on: [b]}, b: {image: i, depends_on: [a]}}",
        )],
        expect![[r#"
            error[invalid_depends_on]: `a` depends on itself
              --> /p/compose.yaml:1:71
              |
            1 | services: {a: {image: i, depends_on: [b]}, b: {image: i, depends_on: [a]}}
              |                                                                       ^
              help: dependency cycle: a → b → a"#]],
    );
    check_refused(
        &[("/p/compose.yaml", "services: {a: {extends: b}, b: {extends: a}}")],
        expect![[r#"
            error[extends_cycle]: `a` extends itself
              --> /p/compose.yaml:1:42
              |
            1 | services: {a: {extends: b}, b: {extends: a}}
              |                                          ^
              help: extends chain: a → b → a"#]],
    );
    check_refused(
        &[("/p/compose.yaml", "include: [b.yaml]"), ("/p/b.yaml", "include: [compose.yaml]")],
        expect![[r#"
            error[include_cycle]: `/p/compose.yaml` includes itself
              --> /p/b.yaml:1:11
              |
            1 | include: [compose.yaml]
              |           ^
              help: include chain: /p/compose.yaml → /p/b.yaml"#]],
    );
}

/// R-IN-2: warnings name the key, once.
#[test]
fn keys_without_effect_are_named_once() {
    let text = "
services:
  a: {image: i, mac_address: '1', container_name: x}
  b: {image: i, mac_address: '2'}
";
    let warnings = resolve_text(text, None).unwrap().warnings;
    let shown: Vec<_> = warnings.list.iter().map(|problem| problem.message.as_str()).collect();
    expect![[r#"
        [
            "`services.a.mac_address` (2 times) has no effect: Replicas cannot share an address; the engine chooses one.",
            "`services.a.container_name` works differently on a cluster: JACO names containers itself, because replicas would have the same name; the given name is a network alias of the service.",
        ]
    "#]]
    .assert_debug_eq(&shown);
}

/// R-IN-2: what has no meaning across nodes is refused with what to write instead.
#[test]
fn refusals_say_what_to_write_instead() {
    let text = "
services:
  a: {build: ., external_links: [x]}
  b: {image: i, network_mode: 'container:abc'}
  c: {image: i, privileged: true}
";
    let problems = resolve_text(text, None).unwrap_err();
    let codes: Vec<_> = problems.errors().map(|problem| problem.code.as_str()).collect();
    assert_eq!(codes, ["build_unsupported", "unsupported", "unsupported", "validation_failed"]);
    assert!(problems.errors().all(|problem| problem.suggestion.is_some()), "{problems}");

    let project = load_text("services: {a: {build: ., image: mine}}").unwrap().project;
    let resolved = resolve(&project, None, &local_images()).unwrap();
    assert_eq!(resolved.services["a"].facts.image, "mine");
}

/// R-RES-4
#[test]
fn two_services_cannot_publish_the_same_port() {
    let text = |b: &str| {
        format!("services: {{a: {{image: i, ports: ['80:1']}}, b: {{image: i, ports: ['{b}']}}}}")
    };
    let problems = resolve_text(&text("80:2"), None).unwrap_err();
    assert_eq!(problems.list[0].code.as_str(), "port_conflict");
    assert!(resolve_text(&text("80:2/udp"), None).is_ok());
    let pinned = "deployment: shop\nservices: [{name: a, placement: hosts, hosts: [n1]}, {name: b, placement: hosts, hosts: [n2]}]";
    assert!(resolve_text(&text("80:2"), Some(pinned)).is_ok());
}

/// R-IN-4
#[test]
fn references_are_listed() {
    let text = "
services:
  web:
    image: i
    volumes: ['./conf:/c', '/etc/hosts:/h', 'named:/n']
    secrets: [s]
    env_file: [{path: web.env, required: false}]
volumes: {named: {}}
secrets: {s: {file: ./s.txt}, unused: {file: ./u.txt}}
";
    let project = load_text(text).unwrap().project;
    let reference = |kind, path: &str, owner: &str| Reference {
        kind,
        path: path.to_owned(),
        owner: owner.to_owned(),
    };
    assert_eq!(
        project.references(),
        [
            reference(ReferenceKind::ProjectBind, "conf", "web"),
            reference(ReferenceKind::HostBind, "/etc/hosts", "web"),
            reference(ReferenceKind::Secret, "s.txt", "s"),
            reference(ReferenceKind::EnvFile, "web.env", "web"),
        ]
    );
}

/// R-IN-5: a secret's content is in no output, not even one that came from a variable.
#[test]
fn secrets_are_never_printed() {
    let text = "services: {a: {image: i, secrets: [s]}}\nsecrets: {s: {environment: TOKEN}}";
    let input = Input {
        env: [("TOKEN".to_owned(), "hunter2".to_owned())].into(),
        env_files: EnvFiles::Nothing,
        ..Input::file("/p/compose.yaml")
    };
    let project = load(&input, &folder(&[("/p/compose.yaml", text)])).unwrap().project;
    let resolved = resolve(&project, None, &local_images()).unwrap();
    for shown in [
        project.model().to_string(),
        project.canonical_yaml(),
        resolved.services["a"].container.canonical.clone(),
    ] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

const EVERYTHING: &str = "
services:
  a:
    image: i
    command: echo '$$HOME'
    environment: {A: 'x: #y', B: null, C: 'no', D: \"1\"}
    ports: ['80:80', '90-91:90-91/udp']
    volumes: ['d:/d', './c:/c:ro']
    configs: [{source: c, mode: 0440}]
    extra_hosts: ['h:::1']
    healthcheck: {test: [CMD, x], interval: 5s}
    deploy: {resources: {limits: {cpus: '0.5', memory: 1g}}}
    ulimits: {nofile: 3}
    gpus: all
    networks: {n: {aliases: [z]}}
    depends_on: {b: {condition: service_healthy, restart: true}}
  b: {image: i}
networks: {n: {driver: overlay}}
volumes: {d: {external: true}}
configs: {c: {content: \"two\\nlines\\t\"}}
x-note: {deep: [1, 1.5, true, null]}
";

/// `jaco config` of its own output is its own output.
#[test]
fn printed_models_load_to_themselves() {
    let project = load_text(EVERYTHING).unwrap().project;
    let yaml = project.canonical_yaml();
    let again = load_text(&yaml).unwrap_or_else(|problems| panic!("{problems}\n{yaml}")).project;
    assert_eq!(again.canonical_yaml(), yaml);
    assert_eq!(again.canonical_json(), project.canonical_json());
}

/// The server takes what a client made, and comes to the same containers.
#[test]
fn sent_models_are_checked_again() {
    let project = load_text(EVERYTHING).unwrap().project;
    let sent = project.model().to_string();
    let received = from_model(sent.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(received.model(), project.model());
    let ours = resolve(&project, None, &local_images()).unwrap();
    let theirs = resolve(&received, None, &local_images()).unwrap();
    assert_eq!(ours.services, theirs.services);
    assert_eq!(received.references(), project.references());

    let refused = |json: &str| from_model(json.as_bytes()).unwrap_err().list[0].code.as_str();
    assert_eq!(refused("{"), "yaml_syntax");
    assert_eq!(refused("[]"), "wrong_type");
    assert_eq!(refused(&"[".repeat(100_000)), "yaml_syntax");
    assert_eq!(refused(r#"{"services":{"a":{"image":"i"}}}"#), "invalid_name");
    assert_eq!(refused(r#"{"name":"x","services":{"a":{}}}"#), "missing_image");
    assert_eq!(
        refused(r#"{"name":"x","services":{"a":{"image":"i","env_file":"/etc/passwd"}}}"#),
        "invalid_value"
    );
    assert_eq!(refused(r#"{"name":"x","include":["/etc/passwd"],"services":{}}"#), "invalid_value");
}

#[test]
fn names_are_normalised_like_the_official_tool() {
    for (text, name) in [("My.App", "myapp"), ("_x-1", "x-1"), ("..", ""), ("Ünï", "n")] {
        assert_eq!(normalise_name(text), name);
    }
}

/// R-IN-2: what the official tool refuses for a service that does not fit together.
#[test]
fn contradictions_are_refused() {
    let code = |inner: &str| {
        let text = format!("services: {{a: {{image: i, {inner}}}}}");
        load_text(&text).map(|_| ()).expect_err(inner).list[0].code.as_str()
    };
    assert_eq!(code("container_name: x, scale: 2"), "conflict");
    assert_eq!(code("scale: 2, deploy: {replicas: 3}"), "conflict");
    assert_eq!(code("network_mode: host, networks: [default]"), "conflict");
    assert_eq!(code("gpus: [{count: 1, device_ids: ['0']}]"), "conflict");
    assert_eq!(code("ports: [{target: 1, host_ip: here}]"), "invalid_value");
    assert_eq!(code("pull_policy: alwys"), "invalid_value");
    assert_eq!(code("healthcheck: {test: [curl, x]}"), "invalid_value");
    assert_eq!(code("volumes: [{type: tmpfs}]"), "missing_key");
    assert_eq!(code("mem_limit: 1g, deploy: {resources: {limits: {memory: 2g}}}"), "conflict");
    assert_eq!(code("secrets: [s]"), "unknown_secret");
    assert_eq!(code("configs: [s]"), "unknown_config");
    assert_eq!(code("networks: [n]"), "unknown_network");
    assert_eq!(code("security_opt: [x, x]"), "duplicate_value");
    assert_eq!(code("log_driver: x"), "legacy_compose_field");
    assert_eq!(code("environment:"), "wrong_type");
}
