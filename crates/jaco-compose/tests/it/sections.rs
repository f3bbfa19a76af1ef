//! The sections beside the services: networks, volumes, configs, secrets, names. R-IN-2, R-IN-3.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use jaco_compose::{EnvFiles, Input, from_model, load};
use serde_json::Value as Json;

use crate::util::{folder, problems_of};

fn shown(text: &str, name: Option<&str>, env: &[(&str, &str)], keys: &[&str]) -> String {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let input = Input {
        name: name.map(str::to_owned),
        env: env.iter().map(pair).collect(),
        env_files: EnvFiles::Nothing,
        ..Input::file("/p/compose.yaml")
    };
    match load(&input, &folder(&[("/p/compose.yaml", text)])) {
        Ok(loaded) => {
            let model: Json = loaded.project.model();
            let lines = keys.iter().map(|key| format!("{key} = {}", model[*key]));
            lines.collect::<Vec<_>>().join("\n")
        }
        Err(problems) => problems_of(&problems),
    }
}

/// Loads a service that uses each kind of resource together with `sections`.
fn check(sections: &str, expected: Expect) {
    let uses = "{image: i, networks: [n], volumes: ['vv:/v'], configs: [c], secrets: [s]}";
    let mut all = BTreeMap::from([
        ("networks", "networks: {n: }"),
        ("volumes", "volumes: {vv: }"),
        ("configs", "configs: {c: {content: x}}"),
        ("secrets", "secrets: {s: {environment: S}}"),
    ]);
    let section = sections.split(':').next().unwrap_or_default();
    let section =
        ["networks", "volumes", "configs", "secrets"].into_iter().find(|key| *key == section);
    let section = section.expect("a section is under test");
    all.insert(section, sections);
    let lines = all.into_values().collect::<Vec<_>>().join("\n");
    let text = format!("name: shop\nservices:\n  web: {uses}\n{lines}\n");
    let env = [("S", "secret"), ("C", "config")];
    expected.assert_eq(&shown(&text, None, &env, &[section]));
}

/// Loads a whole file and shows the name of the project.
fn named(text: &str, name: &str, env: &str, expected: Expect) {
    let name = (!name.is_empty()).then_some(name);
    let env: Vec<(&str, &str)> = env.split_once('=').into_iter().collect();
    expected.assert_eq(&shown(text, name, &env, &["name"]));
}

/// Receives a model and shows the problems, or its services.
fn received(model: &str, expected: Expect) {
    expected.assert_eq(&match from_model(model.as_bytes()) {
        Ok(project) => project.service_names().collect::<Vec<_>>().join(" "),
        Err(problems) => problems_of(&problems),
    });
}

/// R-IN-2: networks are named after the project, external ones keep their name.
#[test]
fn networks_get_their_names() {
    check(
        "networks: {n: }",
        expect![[r#"networks = {"default":{"name":"shop_default"},"n":{"name":"shop_n"}}"#]],
    );
    check(
        "networks: {n: {name: other}}",
        expect![[r#"networks = {"default":{"name":"shop_default"},"n":{"name":"other"}}"#]],
    );
    check(
        "networks: {n: {external: true}}",
        expect![[
            r#"networks = {"default":{"name":"shop_default"},"n":{"external":true,"name":"n"}}"#
        ]],
    );
    check(
        "networks: {n: {external: true, name: other}}",
        expect![[
            r#"networks = {"default":{"name":"shop_default"},"n":{"external":true,"name":"other"}}"#
        ]],
    );
    check(
        "networks: {n: {external: {name: old}}}",
        expect![[
            r#"networks = {"default":{"name":"shop_default"},"n":{"external":true,"name":"old"}}"#
        ]],
    );
    check(
        "networks: {n: {internal: true, driver: overlay, attachable: false}}",
        expect![[
            r#"networks = {"default":{"name":"shop_default"},"n":{"driver":"overlay","internal":true,"name":"shop_n"}}"#
        ]],
    );
    check(
        "networks: {n: {ipam: {config: [{subnet: 10.0.0.0/24}]}}}",
        expect![[
            r#"networks = {"default":{"name":"shop_default"},"n":{"ipam":{"config":[{"subnet":"10.0.0.0/24"}]},"name":"shop_n"}}"#
        ]],
    );
    check(
        "networks: {n: {labels: [a=b]}}",
        expect![[
            r#"networks = {"default":{"name":"shop_default"},"n":{"labels":{"a":"b"},"name":"shop_n"}}"#
        ]],
    );
}

/// R-IN-3: unknown keys and wrong types of networks.
#[test]
fn networks_that_are_refused() {
    check(
        "networks: {m: }",
        expect![[r#"
            3:30 error unknown_network: service `web` refers to network `n`, which is not declared
              help declare it: a top-level `networks:` with `n:`"#]],
    );
    check(
        "networks: {n: {drivr: x}}",
        expect![[r#"
        5:16 error unknown_key: `networks.n` has no key `drivr`
          help did you mean `driver`?"#]],
    );
    check(
        "networks: {n: 5}",
        expect![[r#"
        5:15 error wrong_type: `networks.n` is a number
          expected a mapping"#]],
    );
    check(
        "networks: [n]",
        expect![[r#"
            3:30 error unknown_network: service `web` refers to network `n`, which is not declared
              help declare it: a top-level `networks:` with `n:`
            5:11 error wrong_type: `networks` is a list
              expected a mapping"#]],
    );
    check(
        "networks: {n: {internal: maybe}}",
        expect![[r#"
        5:26 error invalid_value: `networks.n.internal` cannot be `maybe`
          expected `true` or `false`"#]],
    );
    check(
        "networks: {n: {external: {nam: x}}}",
        expect!["5:27 error unknown_key: `networks.n.external` has no key `nam`"],
    );
    check(
        "networks: {n: , 'a b': }",
        expect![[r#"
        5:17 error invalid_key: `a b` is not a valid name
          expected letters, digits, `.`, `_` and `-`"#]],
    );
}

/// R-IN-2: volumes are named after the project, external ones keep their name.
#[test]
fn volumes_get_their_names() {
    check("volumes: {vv: }", expect![[r#"volumes = {"vv":{"name":"shop_vv"}}"#]]);
    check("volumes: {vv: {name: other}}", expect![[r#"volumes = {"vv":{"name":"other"}}"#]]);
    check(
        "volumes: {vv: {external: true}}",
        expect![[r#"volumes = {"vv":{"external":true,"name":"vv"}}"#]],
    );
    check(
        "volumes: {vv: {driver: local, driver_opts: {type: none, o: bind, device: ./d}}}",
        expect![[
            r#"volumes = {"vv":{"driver":"local","driver_opts":{"device":"/p/d","o":"bind","type":"none"},"name":"shop_vv"}}"#
        ]],
    );
    check(
        "volumes: {vv: {driver_opts: {size: 5}}}",
        expect![[r#"volumes = {"vv":{"driver_opts":{"size":"5"},"name":"shop_vv"}}"#]],
    );
    check(
        "volumes: {vv: {labels: {a: 1}}}",
        expect![[r#"volumes = {"vv":{"labels":{"a":"1"},"name":"shop_vv"}}"#]],
    );
}

/// R-IN-3: external volumes with other keys, and wrong types.
#[test]
fn volumes_that_are_refused() {
    check(
        "volumes: {w: }",
        expect![[r#"
        3:44 error unknown_volume: service `web` refers to volume `vv`, which is not declared
          help declare it: a top-level `volumes:` with `vv:`"#]],
    );
    check(
        "volumes: {vv: {external: true, driver: local}}",
        expect!["7:32 error conflict: `volumes.vv` is external and cannot have `driver`"],
    );
    check(
        "volumes: {vv: {driver_opts: [a]}}",
        expect![[r#"
            7:29 error wrong_type: `volumes.vv.driver_opts` is a list
              expected a mapping"#]],
    );
    check(
        "volumes: {vv: {driver: 5}}",
        expect![[r#"
            7:24 error wrong_type: `volumes.vv.driver` is a number
              expected a string
              help put the value in quotes"#]],
    );
    check(
        "volumes: {vv: text}",
        expect![[r#"
            7:15 error wrong_type: `volumes.vv` is a string
              expected a mapping"#]],
    );
    check(
        "volumes: {vv: {lables: {}}}",
        expect![[r#"
            7:16 error unknown_key: `volumes.vv` has no key `lables`
              help did you mean `labels`?"#]],
    );
}

/// R-IN-2, R-IN-3: a config has a file, a variable, a content, or is external.
#[test]
fn configs_have_one_source() {
    check(
        "configs: {c: {content: 'a b'}}",
        expect![[r#"configs = {"c":{"content":"a b","name":"shop_c"}}"#]],
    );
    check(
        "configs: {c: {file: ./c.txt}}",
        expect![[r#"configs = {"c":{"file":"/p/c.txt","name":"shop_c"}}"#]],
    );
    check(
        "configs: {c: {environment: C}}",
        expect![[r#"configs = {"c":{"content":"config","environment":"C","name":"shop_c"}}"#]],
    );
    check(
        "configs: {c: {environment: NONE}}",
        expect![[r#"configs = {"c":{"environment":"NONE","name":"shop_c"}}"#]],
    );
    check(
        "configs: {c: {external: true}}",
        expect![[r#"configs = {"c":{"external":true,"name":"c"}}"#]],
    );
    check(
        "configs: {c: {external: true, name: other}}",
        expect![[r#"configs = {"c":{"external":true,"name":"other"}}"#]],
    );
    check(
        "configs: {c: {}}",
        expect![[r#"
        4:11 error missing_key: `configs.c` has no source
          expected one of `file`, `environment`, `content`, or `external: true`"#]],
    );
    check(
        "configs: {c: {file: a, content: b}}",
        expect![[r#"
        4:11 error conflict: `configs.c` has several sources
          expected one of `file`, `environment`, `content`"#]],
    );
    check(
        "configs: {c: {file: a, environment: C}}",
        expect![[r#"
        4:11 error conflict: `configs.c` has several sources
          expected one of `file`, `environment`, `content`"#]],
    );
    check(
        "configs: {c: {fil: a}}",
        expect![[r#"
        4:11 error missing_key: `configs.c` has no source
          expected one of `file`, `environment`, `content`, or `external: true`
        4:15 error unknown_key: `configs.c` has no key `fil`
          help did you mean `file`?"#]],
    );
    check(
        "configs: {c: }",
        expect![[r#"
        4:11 error missing_key: `configs.c` has no source
          expected one of `file`, `environment`, `content`, or `external: true`
        4:12 error wrong_type: `configs.c` is nothing
          expected a mapping"#]],
    );
    check(
        "configs: {d: {content: x}}",
        expect![[r#"
            3:64 error unknown_config: service `web` refers to config `c`, which is not declared
              help declare it: a top-level `configs:` with `c:`"#]],
    );
}

/// R-IN-2, R-IN-3: a secret has a file or a variable, or is external; its text is never in the model.
#[test]
fn secrets_have_one_source() {
    check(
        "secrets: {s: {file: ./s.txt}}",
        expect![[r#"secrets = {"s":{"file":"/p/s.txt","name":"shop_s"}}"#]],
    );
    check(
        "secrets: {s: {environment: S}}",
        expect![[r#"secrets = {"s":{"environment":"S","name":"shop_s"}}"#]],
    );
    check(
        "secrets: {s: {external: true, name: other}}",
        expect![[r#"secrets = {"s":{"external":true,"name":"other"}}"#]],
    );
    check(
        "secrets: {s: {content: x}}",
        expect![[r#"
        6:11 error missing_key: `secrets.s` has no source
          expected one of `file`, `environment`, or `external: true`
        6:15 error unknown_key: `secrets.s` has no key `content`"#]],
    );
    check(
        "secrets: {s: {}}",
        expect![[r#"
        6:11 error missing_key: `secrets.s` has no source
          expected one of `file`, `environment`, or `external: true`"#]],
    );
    check(
        "secrets: {s: {file: a, environment: S}}",
        expect![[r#"
        6:11 error conflict: `secrets.s` has several sources
          expected one of `file`, `environment`"#]],
    );
    check(
        "secrets: {s: {driver: vault}}",
        expect![[r#"secrets = {"s":{"driver":"vault","name":"shop_s"}}"#]],
    );
    check(
        "secrets: {t: {environment: S}}",
        expect![[r#"
            3:78 error unknown_secret: service `web` refers to secret `s`, which is not declared
              help declare it: a top-level `secrets:` with `s:`"#]],
    );
}

/// R-IN-2: the name comes from the caller, the environment, the file or the folder.
#[test]
fn projects_get_their_name() {
    named("services: {web: {image: i}}\n", "", "", expect![[r#"name = "p""#]]);
    named("name: shop\nservices: {web: {image: i}}\n", "", "", expect![[r#"name = "shop""#]]);
    named("name: shop\nservices: {web: {image: i}}\n", "other", "", expect![[r#"name = "other""#]]);
    named(
        "name: shop\nservices: {web: {image: i}}\n",
        "",
        "COMPOSE_PROJECT_NAME=env",
        expect![[r#"name = "env""#]],
    );
    named(
        "name: Shop One\nservices: {web: {image: i}}\n",
        "",
        "",
        expect![[r#"name = "shopone""#]],
    );
    named("name: ${N:-d}\nservices: {web: {image: i}}\n", "", "", expect![[r#"name = "d""#]]);
    named("name: ${N}\nservices: {web: {image: i}}\n", "", "N=var", expect![[r#"name = "var""#]]);
    named(
        "services: {web: {image: i}}\n",
        "Other",
        "",
        expect![[r#"
        0:0 error invalid_name: `Other` is not a valid project name
          expected lower-case letters, digits, `-` and `_`, starting with a letter or digit"#]],
    );
    named(
        "services: {web: {image: i}}\n",
        "-x",
        "",
        expect![[r#"
        0:0 error invalid_name: `-x` is not a valid project name
          expected lower-case letters, digits, `-` and `_`, starting with a letter or digit"#]],
    );
    named(
        "services: {web: {image: i}}\n",
        "",
        "COMPOSE_PROJECT_NAME=Bad Name",
        expect![[r#"
        0:0 error invalid_name: `Bad Name` is not a valid project name
          expected lower-case letters, digits, `-` and `_`, starting with a letter or digit"#]],
    );
    named(
        "name: 5\nservices: {web: {image: i}}\n",
        "",
        "",
        expect![[r#"
        1:7 error wrong_type: `name` is a number
          expected a string
          help put the value in quotes"#]],
    );
}

/// R-IN-3: empty files, other types and unknown sections.
#[test]
fn files_that_are_no_projects() {
    named("", "", "", expect!["0:0 error empty_document: /p/compose.yaml is empty"]);
    named("# nothing\n", "", "", expect!["0:0 error empty_document: /p/compose.yaml is empty"]);
    named(
        "just text",
        "",
        "",
        expect!["1:1 error wrong_type: a compose file must be a mapping, found a string"],
    );
    named(
        "[1]",
        "",
        "",
        expect!["1:1 error wrong_type: a compose file must be a mapping, found a list"],
    );
    named(
        "servics: {}\n",
        "",
        "",
        expect![[r#"
        1:1 error unknown_key: a compose file has no key `servics`
          help did you mean `services`?"#]],
    );
    named(
        "services: []\n",
        "",
        "",
        expect![[r#"
        1:11 error wrong_type: `services` is a list
          expected a mapping"#]],
    );
    named(
        "services: {web: i}\n",
        "",
        "",
        expect![[r#"
        1:17 error wrong_type: `services.web` is a string
          expected a mapping"#]],
    );
    named(
        "services: {web: }\n",
        "",
        "",
        expect![[r#"
        1:15 error wrong_type: `services.web` is nothing
          expected a mapping"#]],
    );
    named(
        "services: {'a b': {image: i}}\n",
        "",
        "",
        expect![[r#"
        1:12 error invalid_key: `a b` is not a valid name
          expected letters, digits, `.`, `_` and `-`"#]],
    );
    named(
        "services: {web: {}}\n",
        "",
        "",
        expect![[r#"
        1:12 error missing_image: service `web` has neither `image` nor `build`
          help add `image:`"#]],
    );
    named("version: '3'\nservices: {web: {image: i}}\n", "", "", expect![[r#"name = "p""#]]);
    named("x-a: 1\nservices: {web: {image: i}}\n", "", "", expect![[r#"name = "p""#]]);
    named(
        "models: {m: {}}\nservices: {web: {image: i}}\n",
        "",
        "",
        expect!["1:13 error missing_key: `models.m` has no `model`"],
    );
    named(
        "services: {web: {image: ''}}\n",
        "",
        "",
        expect![[r#"
        1:12 error missing_image: service `web` has neither `image` nor `build`
          help add `image:`"#]],
    );
}

/// R-IN-3: a sent model is checked like a file, and must be resolved already.
#[test]
fn models_that_are_received() {
    received("{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\"}}}", expect!["web"]);
    received("{}", expect!["0:0 error invalid_name: `` is not a valid project name"]);
    received(
        "[]",
        expect![[r#"
            0:0 error wrong_type: the model is a list
              expected a mapping"#]],
    );
    received(
        "{",
        expect![
            "0:0 error yaml_syntax: the model is not valid JSON: EOF while parsing an object at line 1 column 1"
        ],
    );
    received(
        "{\"services\":{\"web\":{\"image\":\"i\"}}}",
        expect!["0:0 error invalid_name: `` is not a valid project name"],
    );
    received(
        "{\"name\":\"Shop\",\"services\":{}}",
        expect!["0:0 error invalid_name: `Shop` is not a valid project name"],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\",\"extends\":{\"service\":\"a\"}}}}",
        expect![
            "0:0 error invalid_value: `services.web.extends` must be resolved by the client before the model is sent"
        ],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\",\"env_file\":[\"a\"]}}}",
        expect![
            "0:0 error invalid_value: `services.web.env_file` must be resolved by the client before the model is sent"
        ],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\",\"label_file\":[\"a\"]}}}",
        expect![
            "0:0 error invalid_value: `services.web.label_file` must be resolved by the client before the model is sent"
        ],
    );
    received(
        "{\"name\":\"shop\",\"include\":[{\"path\":[\"a\"]}],\"services\":{}}",
        expect![
            "0:0 error invalid_value: `include` must be resolved by the client before the model is sent"
        ],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"imagee\":\"i\"}}}",
        expect![[r#"
        0:0 error unknown_key: `services.web` has no key `imagee`
          help did you mean `image`?"#]],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\",\"ports\":[\"80:80\"],\"environment\":[\"A=1\"]}}}",
        expect!["web"],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\",\"depends_on\":[\"db\"]}}}",
        expect![
            "0:0 error unknown_depends_on_service: service `web` depends on `db`, which does not exist"
        ],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"a\":{\"image\":\"i\",\"depends_on\":[\"b\"]},\"b\":{\"image\":\"i\",\"depends_on\":[\"a\"]}}}",
        expect![[r#"
            0:0 error invalid_depends_on: `a` depends on itself
              help dependency cycle: a → b → a"#]],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\",\"volumes\":[\"data:/d\"]}}}",
        expect![[r#"
            0:0 error unknown_volume: service `web` refers to volume `data`, which is not declared
              help declare it: a top-level `volumes:` with `data:`"#]],
    );
    received(
        "{\"name\":\"shop\",\"services\":{\"web\":{\"image\":\"i\",\"scale\":1e400}}}",
        expect![
            "0:0 error yaml_syntax: the model is not valid JSON: number out of range at line 1 column 59"
        ],
    );
}
