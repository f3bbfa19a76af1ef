//! Laws of any file of the specification: what is printed loads to the same model and the same
//! containers, and so does what is sent. R-IN-2.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::facts::NetworkFacts;
use jaco_compose::model::ContainerSpec;
use jaco_compose::{Input, Options, Problems, Project, ResolvedService, from_model, load, resolve};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::Value as Json;

use crate::schema::values::Keys;
use crate::schema::{FILES, all_paths, compose_file, input, paths_of};
use crate::util::{folder, problems_of};

fn loaded(input: &Input, text: &str) -> Result<Project, Problems> {
    let mut files = folder(&FILES);
    files.insert(input.files[0].clone(), text.as_bytes().to_vec());
    load(input, &files).map(|loaded| loaded.project)
}

/// What a cluster runs of a project.
type Runs = (BTreeMap<String, ResolvedService>, BTreeMap<String, NetworkFacts>);

/// What a cluster makes of a project: its services and networks, or its errors without their places,
/// which what is sent does not have.
fn resolved(project: &Project) -> Result<Runs, BTreeSet<String>> {
    match resolve(project, None, &Options::default()) {
        Ok(resolved) => Ok((resolved.services, resolved.networks)),
        Err(problems) => Err(problems.errors().map(|error| error.message.clone()).collect()),
    }
}

fn fail(what: &str, detail: impl std::fmt::Display) -> TestCaseError {
    TestCaseError::fail(format!("{what}: {detail}"))
}

/// The lines that only one of two texts has.
fn difference(one: &str, other: &str) -> String {
    let only = |sign: char, one: &str, other: &str| {
        let known: BTreeSet<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !known.contains(line));
        lines.map(|line| format!("{sign} {line}\n")).collect::<String>()
    };
    only('-', one, other) + &only('+', other, one)
}

/// Compares two models, and what a cluster makes of them.
fn same(what: &str, one: &Project, other: &Project) -> Result<(), TestCaseError> {
    if one.canonical_json() != other.canonical_json() {
        let (one, other) = (one.canonical_yaml(), other.canonical_yaml());
        return Err(fail(what, format!("the models differ\n{}", difference(&one, &other))));
    }
    let (one, other) = (resolved(one), resolved(other));
    if one != other {
        let (one, other) = (format!("{one:#?}"), format!("{other:#?}"));
        return Err(fail(what, format!("the services differ\n{}", difference(&one, &other))));
    }
    Ok(())
}

/// Doubles the dollars of every text, but not of keys, which have no variables.
fn doubled(json: &Json) -> Json {
    match json {
        Json::String(text) => Json::String(text.replace('$', "$$")),
        Json::Array(items) => items.iter().map(doubled).collect(),
        Json::Object(map) => map.iter().map(|(key, value)| (key.clone(), doubled(value))).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) => json.clone(),
    }
}

/// The law for one file. Returns whether a cluster runs it.
fn survives(file: &Json) -> Result<bool, TestCaseError> {
    let text = doubled(file).to_string();
    let project = loaded(&input("compose.yaml"), &text).map_err(|problems| {
        fail("it does not load", format!("{}\n{file:#}", problems_of(&problems)))
    })?;
    for printed in [project.canonical_yaml(), project.canonical_json().to_string()] {
        let again = loaded(&input("printed.yaml"), &printed).map_err(|problems| {
            fail("printed", format!("{}\n{printed}", problems_of(&problems)))
        })?;
        same("printed and loaded", &project, &again)?;
    }
    let sent = project.sent_model();
    let received = from_model(sent.to_string().as_bytes())
        .map_err(|problems| fail("sent", format!("{}\n{sent:#}", problems_of(&problems))))?;
    if received.model() != sent {
        let (model, sent) = (format!("{:#}", received.model()), format!("{sent:#}"));
        return Err(fail("received", difference(&model, &sent)));
    }
    same("sent and received", &project, &received)?;
    let resolved = resolved(&project);
    for service in resolved.iter().flat_map(|(services, _)| services.values()) {
        let canonical = &service.container.canonical;
        ContainerSpec::parse(canonical)
            .map_err(|error| fail("the container", format!("{error:?}: {canonical}")))?;
    }
    Ok(resolved.is_ok())
}

/// Tries as many files as a law is tried with; returns how many of them run, and which keys occurred.
/// They are the same ones in each run, so that no key is left out by chance.
fn try_files(keys: Keys) -> (u32, BTreeSet<String>) {
    let (runs, seen) = (Cell::new(0), RefCell::new(BTreeSet::new()));
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&compose_file(keys), |file| {
        seen.borrow_mut().extend(paths_of(&file));
        runs.set(runs.get() + u32::from(survives(&file)?));
        Ok(())
    });
    if let Err(TestError::Fail(why, file)) = result {
        panic!("{why}\n{file}");
    }
    (runs.get(), seen.into_inner())
}

/// R-IN-2: law: load(print(load(x))) = load(x) for every key of the specification, in its short and
/// its long form, and so is what is sent.
#[test]
fn any_file_of_the_specification_survives_printing_and_sending() {
    let (_, seen) = try_files(Keys::All);
    let missing: Vec<_> = all_paths().difference(&seen).cloned().collect();
    // Extensions of ours are no part of the specification.
    let missing: Vec<_> = missing.iter().filter(|path| !path.contains(".x-jaco")).collect();
    assert!(missing.is_empty(), "keys that no file had: {missing:#?}");
}

/// R-IN-2, R-HASH-1: law: what a cluster runs is the same for the written, the printed and the sent
/// model: every fact and the hash of every container.
#[test]
fn any_file_that_runs_has_the_same_containers_when_printed_or_sent() {
    let (runs, _) = try_files(Keys::Supported);
    let all = Config::default().cases;
    assert!(runs > all / 2, "only {runs} of {all} files run, so the law says little");
}
