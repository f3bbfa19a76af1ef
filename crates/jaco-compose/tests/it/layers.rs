//! Several files: overrides, `extends`, `include`, profiles, merge keys and merge tags. R-IN-2.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use jaco_compose::{EnvFiles, Input, Loaded, Problems, load};
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::util::{folder, problems_of};

fn load_all(texts: &[&str]) -> Result<Loaded, Problems> {
    let names: Vec<String> = (0..texts.len()).map(|index| format!("/p/{index}.yaml")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().copied()).collect();
    let input = Input {
        files: names.clone(),
        name: Some("shop".to_owned()),
        env_files: EnvFiles::Nothing,
        ..Input::file("/p/0.yaml")
    };
    load(&input, &folder(&files))
}

fn service(members: &str) -> String {
    format!(
        "services:\n  web:\n    {}\nvolumes: {{data: {{}}, vol: {{}}}}\nnetworks: {{n: {{}}, m: {{}}}}\n\
         configs: {{c: {{content: x}}}}\n",
        members.replace('\n', "\n    ")
    )
}

fn keys(model: &Json) -> String {
    let web = model["services"]["web"].as_object().expect("the service is there");
    let is_default = |value: &Json| {
        let only = value.as_object().filter(|all| all.len() == 1);
        only.and_then(|all| all.get("default")).is_some_and(Json::is_null)
    };
    let shown = web.iter().filter(|(key, value)| {
        let says_nothing = value.is_null() || key.as_str() == "networks" && is_default(value);
        *key != "image" && !says_nothing
    });
    shown.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join("\n")
}

/// Lays `over` over `base`, both members of a service, and shows the keys of the result.
fn merged(base: &str, over: &str, expected: Expect) {
    let (base, over) = (service(&format!("image: i\n{base}")), service(over));
    expected.assert_eq(&match load_all(&[&base, &over]) {
        Ok(loaded) => keys(&loaded.project.canonical_json()),
        Err(problems) => problems_of(&problems),
    });
}

/// Loads `/p/compose.yaml` of several files and shows the keys of `web`, or the problems.
fn files(files: &[(&str, &str)], expected: Expect) {
    let input = Input { env_files: EnvFiles::Nothing, ..Input::file("/p/compose.yaml") };
    expected.assert_eq(&match load(&input, &folder(files)) {
        Ok(loaded) => keys(&loaded.project.canonical_json()),
        Err(problems) => problems_of(&problems),
    });
}

/// R-IN-2: mappings merge, and the later value of a key stays.
#[test]
fn mappings_merge_key_by_key() {
    merged(
        "environment: {A: 1, B: 2}",
        "environment: {B: 3, C: 4}",
        expect![[r#"environment = {"A":"1","B":"3","C":"4"}"#]],
    );
    merged("environment: [A=1]", "environment: {A: 2}", expect![[r#"environment = {"A":"2"}"#]]);
    merged("labels: {a: b}", "labels: [a=c]", expect![[r#"labels = {"a":"c"}"#]]);
    merged(
        "deploy: {replicas: 2, resources: {limits: {memory: 1g}}}",
        "deploy: {resources: {limits: {cpus: 1}}}",
        expect![[
            r#"deploy = {"replicas":2,"resources":{"limits":{"cpus":1,"memory":"1073741824"}}}"#
        ]],
    );
    merged(
        "healthcheck: {test: a, retries: 3}",
        "healthcheck: {interval: 5s}",
        expect![[r#"healthcheck = {"interval":"5s","retries":3,"test":["CMD-SHELL","a"]}"#]],
    );
    merged(
        "extra_hosts: ['a=1.1.1.1']",
        "extra_hosts: ['b=2.2.2.2']",
        expect![[r#"extra_hosts = ["a=1.1.1.1","b=2.2.2.2"]"#]],
    );
    merged(
        "networks: [n]",
        "networks: {m: {aliases: [x]}}",
        expect![[r#"networks = {"m":{"aliases":["x"]},"n":null}"#]],
    );
    merged(
        "networks: {n: {aliases: [a]}}",
        "networks: {n: {aliases: [b], priority: 1}}",
        expect![[r#"networks = {"n":{"aliases":["a","b"],"priority":1}}"#]],
    );
    merged("depends_on: []", "depends_on: []", expect![[""]]);
    merged("sysctls: {a: 1}", "sysctls: {a: 2, b: 3}", expect![[r#"sysctls = {"a":"2","b":"3"}"#]]);
    merged(
        "ulimits: {nofile: 1}",
        "ulimits: {nofile: {soft: 1, hard: 2}, nproc: 5}",
        expect![[r#"ulimits = {"nofile":{"hard":2,"soft":1},"nproc":5}"#]],
    );
    merged(
        "annotations: {a: b}",
        "annotations: {c: d}",
        expect![[r#"annotations = {"a":"b","c":"d"}"#]],
    );
}

/// R-IN-2: lists append; the later of two equal items stays.
#[test]
fn lists_append_without_repetition() {
    merged(
        "dns: [1.1.1.1]",
        "dns: [8.8.8.8, 1.1.1.1]",
        expect![[r#"dns = ["1.1.1.1","8.8.8.8"]"#]],
    );
    merged("cap_add: [A]", "cap_add: [B, A]", expect![[r#"cap_add = ["A","B"]"#]]);
    merged(
        "ports: ['80:80']",
        "ports: ['80:80', '81:81']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"tcp","published":"80","target":80},{"mode":"ingress","protocol":"tcp","published":"81","target":81}]"#
        ]],
    );
    merged(
        "ports: ['80:80']",
        "ports: ['80:80/udp']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"tcp","published":"80","target":80},{"mode":"ingress","protocol":"udp","published":"80","target":80}]"#
        ]],
    );
    merged(
        "volumes: ['data:/d']",
        "volumes: ['vol:/d']",
        expect![[r#"volumes = [{"source":"vol","target":"/d","type":"volume"}]"#]],
    );
    merged(
        "volumes: ['data:/d']",
        "volumes: ['vol:/e']",
        expect![[
            r#"volumes = [{"source":"data","target":"/d","type":"volume"},{"source":"vol","target":"/e","type":"volume"}]"#
        ]],
    );
    merged(
        "configs: [c]",
        "configs: [{source: c, mode: 0400}]",
        expect![[r#"configs = [{"mode":"0400","source":"c"}]"#]],
    );
    merged(
        "devices: ['/dev/a']",
        "devices: ['/dev/b:/dev/a']",
        expect![[r#"devices = [{"permissions":"rwm","source":"/dev/b","target":"/dev/a"}]"#]],
    );
    merged("expose: [80]", "expose: ['80', 81]", expect![[r#"expose = ["80","81"]"#]]);
    merged("tmpfs: /a", "tmpfs: [/b]", expect![[r#"tmpfs = ["/a","/b"]"#]]);
    merged("profiles: []", "profiles: []", expect![[""]]);
    merged("security_opt: [a]", "security_opt: [a, b]", expect![[r#"security_opt = ["a","b"]"#]]);
    merged("group_add: [1]", "group_add: [2]", expect![[r#"group_add = ["1","2"]"#]]);
}

/// R-IN-2: scalars, commands and tests replace what was there.
#[test]
fn scalars_and_commands_replace() {
    merged("user: a", "user: b", expect![[r#"user = "b""#]]);
    merged("command: [a, b]", "command: [c]", expect![[r#"command = ["c"]"#]]);
    merged("entrypoint: a", "entrypoint: []", expect!["entrypoint = []"]);
    merged(
        "healthcheck: {test: [CMD, a]}",
        "healthcheck: {test: [CMD, b]}",
        expect![[r#"healthcheck = {"test":["CMD","b"]}"#]],
    );
    merged(
        "stop_grace_period: 5s",
        "stop_grace_period: 1m",
        expect![[r#"stop_grace_period = "1m0s""#]],
    );
    merged("init: true", "init: false", expect!["init = false"]);
    merged("scale: 2", "scale: 3", expect!["scale = 3"]);
    merged("mem_limit: 1g", "mem_limit: 2g", expect![[r#"mem_limit = "2147483648""#]]);
    merged(
        "logging: {driver: a, options: {x: y}}",
        "logging: {driver: b}",
        expect![[r#"logging = {"driver":"b"}"#]],
    );
    merged(
        "logging: {driver: a, options: {x: y}}",
        "logging: {options: {z: w}}",
        expect![[r#"logging = {"driver":"a","options":{"x":"y","z":"w"}}"#]],
    );
    merged(
        "build: a",
        "image: other",
        expect![[r#"build = {"context":"/p/a","dockerfile":"Dockerfile"}"#]],
    );
}

/// R-IN-2: `!reset` removes and `!override` replaces.
#[test]
fn merge_tags_reset_and_override() {
    merged("ports: ['80:80']", "ports: !reset []", expect![[""]]);
    merged(
        "ports: ['80:80']",
        "ports: !override ['81:81']",
        expect![[r#"ports = [{"mode":"ingress","protocol":"tcp","published":"81","target":81}]"#]],
    );
    merged(
        "environment: {A: 1, B: 2}",
        "environment: {A: !reset null}",
        expect![[r#"environment = {"B":"2"}"#]],
    );
    merged(
        "environment: {A: 1}",
        "environment: !override {B: 2}",
        expect![[r#"environment = {"B":"2"}"#]],
    );
    merged("command: a", "command: !reset null", expect![[""]]);
    merged("networks: [n]", "networks: !reset {}", expect![[""]]);
    merged("labels: {a: b}", "labels: !override {}", expect![[""]]);
    merged(
        "deploy: {replicas: 2, labels: {a: b}}",
        "deploy: {replicas: !reset null}",
        expect![[r#"deploy = {"labels":{"a":"b"}}"#]],
    );
}

/// R-IN-2: a service extends one of the same file, of another file, and over several steps.
#[test]
fn extended_services_start_from_their_base() {
    files(
        &[(
            "/p/compose.yaml",
            "services:\n  base: {image: i, environment: {A: 1, B: 2}, ports: ['80:80']}\n  web: {extends: base, environment: {B: 3}}\n",
        )],
        expect![[r#"
            environment = {"A":"1","B":"3"}
            ports = [{"mode":"ingress","protocol":"tcp","published":"80","target":80}]"#]],
    );
    files(
        &[
            (
                "/p/compose.yaml",
                "services:\n  web: {extends: {file: sub/b.yaml, service: base}, command: x}\n",
            ),
            (
                "/p/sub/b.yaml",
                "services:\n  base: {image: i, volumes: ['./d:/d'], env_file: e.env}\n",
            ),
            ("/p/sub/e.env", "A=1\n"),
        ],
        expect![[r#"
            command = ["x"]
            environment = {"A":"1"}
            volumes = [{"bind":{"create_host_path":true},"source":"/p/sub/d","target":"/d","type":"bind"}]"#]],
    );
    files(
        &[(
            "/p/compose.yaml",
            "services:\n  a: {image: i, dns: [1.1.1.1]}\n  b: {extends: a, dns: [2.2.2.2]}\n  web: {extends: {service: b}, dns: [3.3.3.3]}\n",
        )],
        expect![[r#"dns = ["1.1.1.1","2.2.2.2","3.3.3.3"]"#]],
    );
    files(
        &[("/p/compose.yaml", "services:\n  web: {extends: web, image: i}\n")],
        expect![[r#"
        2:18 error extends_cycle: `web` extends itself
          help extends chain: web → web"#]],
    );
    files(
        &[("/p/compose.yaml", "services:\n  a: {extends: web}\n  web: {extends: a, image: i}\n")],
        expect![[r#"
            3:18 error extends_cycle: `a` extends itself
              help extends chain: a → web → a"#]],
    );
    files(
        &[("/p/compose.yaml", "services:\n  base: {image: i}\n  web: {extends: bse}\n")],
        expect![[r#"
            3:18 error unknown_service: /p/compose.yaml has no service `bse`
              help did you mean `base`?"#]],
    );
    files(
        &[("/p/compose.yaml", "services:\n  web: {extends: {file: none.yaml, service: base}}\n")],
        expect!["2:25 error file_not_found: /p/none.yaml: there is no such file"],
    );
    files(
        &[
            ("/p/compose.yaml", "services:\n  web: {extends: {file: b.yaml, service: base}}\n"),
            ("/p/b.yaml", "networks: {}\n"),
        ],
        expect!["2:25 error unknown_service: /p/b.yaml has no services"],
    );
    files(
        &[
            ("/p/compose.yaml", "services:\n  web: {extends: {file: b.yaml, service: base}}\n"),
            ("/p/b.yaml", "services:\n  base: {imagee: i}\n"),
        ],
        expect![[r#"
            2:3 error missing_image: service `web` has neither `image` nor `build`
              help add `image:`
            2:10 error unknown_key: `services.base` has no key `imagee`
              help did you mean `image`?"#]],
    );
    files(
        &[(
            "/p/compose.yaml",
            "services:\n  web: {extends: {service: base, flie: b.yaml}}\n  base: {image: i}\n",
        )],
        expect![[r#"
            2:34 error unknown_key: `services.web.extends` has no key `flie`
              help did you mean `file`?"#]],
    );
}

/// R-IN-2: included files have their own folder and add what they declare.
#[test]
fn included_files_add_what_they_declare() {
    files(
        &[
            (
                "/p/compose.yaml",
                "include: [db.yaml]\nservices:\n  web: {image: i, depends_on: [db]}\n",
            ),
            ("/p/db.yaml", "services:\n  db: {image: d}\n"),
        ],
        expect![[r#"depends_on = {"db":{"condition":"service_started","required":true}}"#]],
    );
    files(
        &[
            (
                "/p/compose.yaml",
                "include: [{path: sub/db.yaml, project_directory: sub}]\nservices:\n  web: {image: i, volumes: ['data:/d']}\n",
            ),
            (
                "/p/sub/db.yaml",
                "services:\n  db: {image: d, volumes: ['./x:/x']}\nvolumes: {data: }\n",
            ),
        ],
        expect![[r#"volumes = [{"source":"data","target":"/d","type":"volume"}]"#]],
    );
    files(
        &[
            ("/p/compose.yaml", "include: [sub/web.yaml]\n"),
            (
                "/p/sub/web.yaml",
                "services:\n  web: {image: i, user: \"${U}\", volumes: ['./x:/x']}\n",
            ),
            ("/p/sub/.env", "U=from-sub\n"),
        ],
        expect![[r#"
            user = "from-sub"
            volumes = [{"bind":{"create_host_path":true},"source":"/p/sub/x","target":"/x","type":"bind"}]"#]],
    );
    files(
        &[
            ("/p/compose.yaml", "include: [{path: web.yaml, env_file: x.env}]\n"),
            ("/p/web.yaml", "services:\n  web: {image: i, user: \"${U}\"}\n"),
            ("/p/x.env", "U=x\n"),
        ],
        expect![[r#"user = "x""#]],
    );
    files(
        &[
            ("/p/compose.yaml", "include: [{path: [web.yaml, over.yaml]}]\n"),
            ("/p/web.yaml", "services:\n  web: {image: i, user: a}\n"),
            ("/p/over.yaml", "services:\n  web: {user: b}\n"),
        ],
        expect![[r#"user = "b""#]],
    );
    files(
        &[
            ("/p/compose.yaml", "include: [a.yaml]\nservices: {web: {image: i}}\n"),
            ("/p/a.yaml", "include: [compose.yaml]\n"),
        ],
        expect![[r#"
            1:11 error include_cycle: `/p/compose.yaml` includes itself
              help include chain: /p/compose.yaml → /p/a.yaml"#]],
    );
    files(
        &[
            ("/p/compose.yaml", "include: [a.yaml]\nservices: {web: {image: i}}\n"),
            ("/p/a.yaml", "services: {web: {image: other}}\n"),
        ],
        expect![
            "2:17 error conflict: `services.web` is also declared differently by an included file"
        ],
    );
    files(
        &[
            ("/p/compose.yaml", "include: [a.yaml]\nservices: {web: {image: i}}\n"),
            ("/p/a.yaml", "services: {web: {image: i}}\n"),
        ],
        expect![[""]],
    );
    files(
        &[("/p/compose.yaml", "include: [none.yaml]\nservices: {web: {image: i}}\n")],
        expect!["1:11 error file_not_found: /p/none.yaml: there is no such file"],
    );
    files(
        &[("/p/compose.yaml", "include: [{paht: a.yaml}]\nservices: {web: {image: i}}\n")],
        expect![[r#"
            1:12 error unknown_key: `include[0]` has no key `paht`
              help did you mean `path`?"#]],
    );
}

/// R-IN-2: YAML merge keys fill in what is missing, and the first of several wins.
#[test]
fn merge_keys_fill_in_what_is_missing() {
    files(
        &[(
            "/p/compose.yaml",
            "x-a: &a {user: a, tty: true}\nservices:\n  web:\n    <<: *a\n    image: i\n    user: b\n",
        )],
        expect![[r#"
            tty = true
            user = "b""#]],
    );
    files(
        &[(
            "/p/compose.yaml",
            "x-a: &a {user: a}\nx-b: &b {user: b, tty: true}\nservices:\n  web:\n    <<: [*a, *b]\n    image: i\n",
        )],
        expect![[r#"
            tty = true
            user = "a""#]],
    );
    files(
        &[(
            "/p/compose.yaml",
            "x-e: &e {A: 1}\nservices:\n  web:\n    image: i\n    environment:\n      <<: *e\n      B: 2\n",
        )],
        expect![[r#"environment = {"A":"1","B":"2"}"#]],
    );
    files(
        &[("/p/compose.yaml", "x-a: &a [1]\nservices:\n  web:\n    <<: *a\n    image: i\n")],
        expect![[r#"
            1:6 error wrong_type: `<<` can only merge mappings
              expected an alias of a mapping, or a list of such aliases"#]],
    );
    files(
        &[(
            "/p/compose.yaml",
            "services:\n  db: &db {image: d}\n  web:\n    <<: *db\n    user: x\n",
        )],
        expect![[r#"user = "x""#]],
    );
    files(
        &[("/p/compose.yaml", "services:\n  web:\n    image: &i i\n    user: *i\n")],
        expect![[r#"user = "i""#]],
    );
}

fn names(profiles: &[&str], env: &[(&str, &str)]) -> String {
    let text = "services:\n  web: {image: i}\n  a: {image: i, profiles: [a]}\n  b: {image: i, profiles: [b, a]}\n";
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let input = Input {
        profiles: profiles.iter().map(|name| (*name).to_owned()).collect(),
        env: env.iter().map(pair).collect(),
        ..Input::file("/p/compose.yaml")
    };
    let project = load(&input, &folder(&[("/p/compose.yaml", text)])).expect("it loads").project;
    project.service_names().collect::<Vec<_>>().join(" ")
}

/// R-IN-2: profiles come from the caller and from `COMPOSE_PROFILES`; `*` activates all.
#[test]
fn inactive_profiles_are_left_out() {
    assert_eq!(names(&[], &[]), "web");
    assert_eq!(names(&["a"], &[]), "a b web");
    assert_eq!(names(&["b"], &[]), "b web");
    assert_eq!(names(&["*"], &[]), "a b web");
    assert_eq!(names(&["none"], &[]), "web");
    assert_eq!(names(&[], &[("COMPOSE_PROFILES", "b, none")]), "b web");
    assert_eq!(names(&["b"], &[("COMPOSE_PROFILES", "a")]), "a b web");
}

/// Members of a service that merge by the rules of their key, not by replacing everything.
const MEMBERS: [&str; 16] = [
    "environment: {A: '1', B: x}",
    "environment: {B: y, C: z}",
    "labels: [a=b]",
    "labels: {a: c, d: e}",
    "command: [a, b]",
    "command: c",
    "ports: ['80:80']",
    "ports: ['80:80', '81:81/udp']",
    "volumes: ['data:/d']",
    "volumes: ['vol:/d', './a:/b']",
    "dns: [1.1.1.1]",
    "dns: 8.8.8.8",
    "deploy: {replicas: 2, resources: {limits: {memory: 64m}}}",
    "deploy: {resources: {limits: {memory: 32m, cpus: 1}}}",
    "networks: {n: {aliases: [a]}}",
    "networks: {m: {}, n: {aliases: [b]}}",
];

fn layer(chosen: &[usize]) -> String {
    let mut seen = BTreeMap::new();
    for member in chosen.iter().map(|index| MEMBERS[*index]) {
        seen.entry(member.split(':').next().expect("a key")).or_insert(member);
    }
    // Without a network of its own, a printed service is attached to the default one.
    seen.entry("networks").or_insert("networks: {n: {}}");
    service(&format!("image: i\n{}", seen.into_values().collect::<Vec<_>>().join("\n")))
}

fn layers() -> impl Strategy<Value = String> {
    proptest::collection::vec(0..MEMBERS.len(), 0..6).prop_map(|chosen| layer(&chosen))
}

proptest! {
    /// R-IN-2: law: merging is associative. What two files give, printed, takes a third like the two
    /// files themselves.
    #[test]
    fn merging_is_associative(a in layers(), b in layers(), c in layers()) {
        let all = load_all(&[&a, &b, &c]).expect("all layers are good").project;
        let first = load_all(&[&a, &b]).expect("two layers are good").project.canonical_yaml();
        let then = load_all(&[&first, &c]).expect("a printed model takes a layer").project;
        let last = load_all(&[&b, &c]).expect("two layers are good").project.canonical_yaml();
        let before = load_all(&[&a, &last]).expect("a printed model is a layer").project;
        prop_assert_eq!(then.canonical_yaml(), all.canonical_yaml());
        prop_assert_eq!(before.canonical_yaml(), all.canonical_yaml());
    }

    /// R-IN-2: law: a file laid over itself changes nothing.
    #[test]
    fn merging_is_idempotent(a in layers()) {
        let once = load_all(&[&a]).expect("the layer is good").project;
        let twice = load_all(&[&a, &a]).expect("the layer is good").project;
        prop_assert_eq!(twice.canonical_yaml(), once.canonical_yaml());
    }

    /// R-IN-2: law: an empty file over another changes nothing, nor does it below another.
    #[test]
    fn an_empty_layer_changes_nothing(a in layers()) {
        let alone = load_all(&[&a]).expect("the layer is good").project.canonical_yaml();
        let empty = "services: {}\n";
        let over = load_all(&[&a, empty]).expect("the layer is good").project.canonical_yaml();
        let below = load_all(&[empty, &a]).expect("the layer is good").project.canonical_yaml();
        prop_assert_eq!(&over, &alone);
        prop_assert_eq!(&below, &alone);
    }
}
