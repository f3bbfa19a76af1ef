//! Laws of loading over any file of the specification: what writes the same thing in another way
//! gives the same model. R-IN-2, R-HASH-1.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::{EnvFiles, Input, Options, Problems, Project, from_model, load, resolve};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::{Map, Value as Json, json};

use crate::schema::values::Keys;
use crate::schema::{FILES, compose_file, input};
use crate::util::{folder, problems_of};

pub(crate) fn loaded(input: &Input, files: &[(&str, String)]) -> Result<Project, Problems> {
    let mut all = folder(&FILES);
    all.extend(files.iter().map(|(name, text)| ((*name).to_owned(), text.clone().into_bytes())));
    load(input, &all).map(|loaded| loaded.project)
}

/// The text of a file without variables.
pub(crate) fn text(file: &Json) -> String {
    doubled(file).to_string()
}

fn doubled(json: &Json) -> Json {
    texts(json, &mut |text| text.replace('$', "$$"))
}

/// The same tree with every text replaced. Keys stay.
fn texts(json: &Json, replace: &mut dyn FnMut(&str) -> String) -> Json {
    match json {
        Json::String(text) => Json::String(replace(text)),
        Json::Array(items) => items.iter().map(|item| texts(item, replace)).collect(),
        Json::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), texts(value, replace)));
            Json::Object(entries.collect())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => json.clone(),
    }
}

pub(crate) fn plain(file: &Json) -> Result<Project, TestCaseError> {
    loaded(&input("compose.yaml"), &[("compose.yaml", text(file))])
        .map_err(|problems| broken(&problems))
}

pub(crate) fn broken(problems: &Problems) -> TestCaseError {
    TestCaseError::fail(problems_of(problems))
}

/// Two projects print alike, and a cluster makes the same of them.
pub(crate) fn alike(one: &Project, other: &Project) -> Result<(), TestCaseError> {
    prop_assert_eq!(one.canonical_yaml(), other.canonical_yaml());
    let run = |project: &Project| match resolve(project, None, &Options::default()) {
        Ok(resolved) => Ok(resolved.services),
        Err(problems) => Err(problems.errors().map(|error| error.code).collect::<BTreeSet<_>>()),
    };
    prop_assert_eq!(run(one), run(other));
    Ok(())
}

/// Tries a law with the same files in each run, a part of what other laws are tried with: each case
/// is a whole file, loaded twice.
pub(crate) fn law(keys: Keys, check: impl Fn(&Json) -> Result<(), TestCaseError>) {
    let cases = Config::default().cases.div_ceil(4);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    if let Err(TestError::Fail(why, file)) = runner.run(&compose_file(keys), |file| check(&file)) {
        panic!("{why}\n{file}");
    }
}

/// A second file that says nothing changes nothing, before the first and after it.
#[test]
fn an_empty_file_changes_nothing() {
    law(Keys::All, |file| {
        let alone = plain(file)?;
        for order in [["compose.yaml", "empty.yaml"], ["empty.yaml", "compose.yaml"]] {
            let files = [("compose.yaml", text(file)), ("empty.yaml", "services: {}\n".to_owned())];
            let input = Input { files: order.map(str::to_owned).to_vec(), ..input("compose.yaml") };
            alike(&alone, &loaded(&input, &files).map_err(|problems| broken(&problems))?)?;
        }
        Ok(())
    });
}

/// Every text may come from a variable: the model is the one of the text itself, whatever it holds.
#[test]
fn any_text_may_be_a_variable() {
    law(Keys::All, |file| {
        let mut variables = BTreeMap::new();
        let with_variables = texts(file, &mut |text| {
            let name = format!("TEXT_{}", variables.len());
            let written = format!("${{{name}}}");
            variables.insert(name, text.to_owned());
            written
        });
        let mut input = input("compose.yaml");
        input.env.extend(variables);
        let other = loaded(&input, &[("compose.yaml", with_variables.to_string())]);
        alike(&plain(file)?, &other.map_err(|problems| broken(&problems))?)
    });
}

/// A default is used where a variable is not set.
#[test]
fn any_text_may_be_a_default() {
    law(Keys::All, |file| {
        let is_plain = |text: &str| !text.contains(['$', '{', '}']);
        let with_defaults = texts(file, &mut |text| match is_plain(text) {
            true => format!("${{NO_SUCH_VARIABLE-{text}}}"),
            false => text.replace('$', "$$"),
        });
        let other = loaded(&input("compose.yaml"), &[("compose.yaml", with_defaults.to_string())]);
        alike(&plain(file)?, &other.map_err(|problems| broken(&problems))?)
    });
}

/// The order of keys means nothing.
#[test]
fn the_order_of_keys_means_nothing() {
    fn reversed(json: &Json, out: &mut String) {
        match json {
            Json::Object(map) => {
                out.push('{');
                for (index, (key, value)) in map.iter().rev().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    out.push_str(&Json::from(key.as_str()).to_string());
                    out.push_str(": ");
                    reversed(value, out);
                }
                out.push('}');
            }
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    reversed(item, out);
                }
                out.push(']');
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
                out.push_str(&json.to_string());
            }
        }
    }
    law(Keys::All, |file| {
        let mut other = String::new();
        reversed(&doubled(file), &mut other);
        let other = loaded(&input("compose.yaml"), &[("compose.yaml", other)]);
        alike(&plain(file)?, &other.map_err(|problems| broken(&problems))?)
    });
}

/// What is included is what is written in the file itself.
#[test]
fn an_included_file_is_as_written() {
    law(Keys::Supported, |file| {
        let mut file = file.clone();
        let map = file.as_object_mut().expect("a file is a mapping");
        for key in ["include", "name", "version", "x-top"] {
            map.remove(key);
        }
        let outer = json!({"include": [{"path": "inner.yaml", "env_file": []}]});
        let files = [("compose.yaml", outer.to_string()), ("inner.yaml", text(&file))];
        let other = loaded(&input("compose.yaml"), &files).map_err(|problems| broken(&problems))?;
        alike(&plain(&file)?, &other)
    });
}

/// A service that is only extended is the service it extends.
#[test]
fn an_extended_service_is_its_base() {
    law(Keys::Supported, |file| {
        let mut base = file.clone();
        let services = base["services"].as_object_mut().expect("there are services");
        // What has a name of its own cannot be there twice, and a base may have its own base.
        for key in ["container_name", "extends", "ports"] {
            services["web"].as_object_mut().expect("a service is a mapping").remove(key);
        }
        let mut twice = base.clone();
        twice["services"]["copy"] = base["services"]["web"].clone();
        let mut extended = base;
        extended["services"]["copy"] = json!({"extends": {"service": "web"}});
        alike(&plain(&twice)?, &plain(&extended)?)
    });
}

/// An anchor is the same as the text that it names.
#[test]
fn an_anchor_is_what_it_names() {
    law(Keys::All, |file| {
        let mut twice = file.clone();
        let web = twice["services"]["web"].as_object_mut().expect("a service is a mapping");
        web.remove("container_name");
        let web = twice["services"]["web"].clone();
        twice["services"]["copy"] = web.clone();
        let mut with_anchor = doubled(&twice);
        let written = doubled(&web).to_string();
        with_anchor["services"]["copy"] = json!("ALIAS");
        with_anchor["services"]["web"] = json!("ANCHOR");
        let all = with_anchor.to_string().replace("\"ALIAS\"", "*web ");
        let all = all.replace("\"ANCHOR\"", &format!("&web {written}"));
        // The alias has to stand behind its anchor.
        let moved = all.replacen("\"copy\":*web ,", "", 1).replacen("\"copy\":*web ", "", 1);
        let moved = match moved.len() == all.len() {
            true => all,
            false => moved.replacen(
                &format!("&web {written}"),
                &format!("&web {written},\"copy\":*web "),
                1,
            ),
        };
        let other = loaded(&input("compose.yaml"), &[("compose.yaml", moved)]);
        alike(&plain(&twice)?, &other.map_err(|problems| broken(&problems))?)
    });
}

/// A service of an inactive profile is as if it were not there.
#[test]
fn an_inactive_service_is_absent() {
    law(Keys::Supported, |file| {
        let mut with = file.clone();
        let services = with["services"].as_object_mut().expect("there are services");
        for (_, service) in services.iter_mut() {
            service.as_object_mut().expect("a service is a mapping").remove("profiles");
        }
        let without = with.clone();
        let mut extra = with["services"]["web"].clone();
        extra["profiles"] = json!(["other"]);
        with["services"]["extra"] = extra;
        let input = Input { profiles: Vec::new(), ..input("compose.yaml") };
        let project = |file: &Json| {
            let project = loaded(&input, &[("compose.yaml", text(file))]);
            project.map_err(|problems| broken(&problems))
        };
        alike(&project(&without)?, &project(&with)?)
    });
}

/// Two files laid over each other are the file of both, for what only one of them has.
#[test]
fn sections_may_stand_in_files_of_their_own() {
    law(Keys::All, |file| {
        let (mut services, mut others) = (Map::new(), Map::new());
        for (key, value) in file.as_object().into_iter().flatten() {
            let part = if key == "services" { &mut services } else { &mut others };
            part.insert(key.clone(), value.clone());
        }
        let files = [
            ("compose.yaml", text(&Json::Object(services))),
            ("others.yaml", text(&Json::Object(others))),
        ];
        let names = vec!["compose.yaml".to_owned(), "others.yaml".to_owned()];
        let input = Input { files: names, ..input("compose.yaml") };
        let other = loaded(&input, &files).map_err(|problems| broken(&problems))?;
        alike(&plain(file)?, &other)
    });
}

/// The folder of a project is no part of what is sent, nor of its hashes.
#[test]
fn the_folder_is_no_part_of_what_is_sent() {
    law(Keys::Supported, |file| {
        let at = |dir: &str| {
            let path = format!("{dir}/compose.yaml");
            let mut files: Vec<(String, String)> = FILES
                .iter()
                .map(|(name, text)| (format!("{dir}/{name}"), (*text).to_owned()))
                .collect();
            files.push((path.clone(), text(file)));
            let files = files
                .into_iter()
                .map(|(name, text)| (name, text.into_bytes()))
                .collect::<BTreeMap<_, _>>();
            let input = Input { project_dir: dir.to_owned(), ..input(&path) };
            load(&input, &files).map(|loaded| loaded.project).map_err(|problems| broken(&problems))
        };
        // Paths above the folder are paths of the node; they differ.
        prop_assume!(!file.to_string().contains("../"));
        // What `develop` watches is on the developer's machine, and no node reads it.
        prop_assume!(!file.to_string().contains("\"develop\""));
        let (one, other) = (at("/home/a/shop")?, at("/srv/shop")?);
        prop_assert_eq!(one.sent_model(), other.sent_model());
        Ok(())
    });
}

/// A model with one value changed is received, or refused with a reason; nothing panics, and what is
/// received is what runs.
#[test]
fn a_changed_model_is_received_or_refused() {
    let wrong = [
        json!(null),
        json!(-1),
        json!("x"),
        json!([1]),
        json!({"a": {}}),
        json!(1e300),
        json!(true),
    ];
    let turn = RefCell::new(0_usize);
    law(Keys::Supported, |file| {
        let sent = plain(file)?.sent_model();
        let mut places = Vec::new();
        pointers(&sent, String::new(), &mut places);
        let mut turn = turn.borrow_mut();
        for step in 0..8 {
            *turn += 1;
            let place = &places[(*turn * 7919 + step) % places.len()];
            let mut changed = sent.clone();
            *changed.pointer_mut(place).expect("it is a place") =
                wrong[*turn % wrong.len()].clone();
            match from_model(changed.to_string().as_bytes()) {
                Ok(project) => {
                    let again = from_model(project.model().to_string().as_bytes());
                    let again = again.map_err(|problems| broken(&problems))?;
                    prop_assert_eq!(again.model(), project.model(), "{}", place);
                }
                Err(problems) => {
                    let first = problems.errors().next();
                    prop_assert!(first.is_some_and(|error| !error.message.is_empty()), "{}", place);
                }
            }
        }
        Ok(())
    });
}

/// The JSON pointers of every value.
fn pointers(json: &Json, path: String, places: &mut Vec<String>) {
    match json {
        Json::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, format!("{path}/{key}"), places);
            }
        }
        Json::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers(value, format!("{path}/{index}"), places);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
    places.push(path);
}

/// The same files give the same model without any env file, and with an empty one.
#[test]
fn an_empty_env_file_changes_nothing() {
    law(Keys::Supported, |file| {
        let files = [("compose.yaml", text(file)), ("empty.env", "# nothing\n".to_owned())];
        let with = Input {
            env_files: EnvFiles::Listed(vec!["empty.env".to_owned()]),
            ..input("compose.yaml")
        };
        let other = loaded(&with, &files).map_err(|problems| broken(&problems))?;
        alike(&plain(file)?, &other)
    });
}
