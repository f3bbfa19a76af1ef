//! Real compose files against what the official tool makes of them.
//!
//! The files keep their own licences and are not part of this repository. `JACO_COMPOSE_CORPUS` names
//! their folder. Where it is absent these tests fail, unless `JACO_COMPOSE_CORPUS=none` says that
//! nothing is to be compared.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the corpus lies on a disk, and differences are printed"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jaco_compose::canonical::without_empty;
use jaco_compose::model::ContainerSpec;
use jaco_compose::support::{self, Rates};
use jaco_compose::{
    Code, EnvFiles, FileError, Files, Input, Loaded, Options, Problems, Project, from_model, load,
    paths, resolve,
};
use serde_json::Value as Json;

/// Share of accepted files whose model must equal the official one, in percent.
const WANTED_PERCENT: usize = 98;

/// Where the golden models say the files lie.
const MOUNT: &str = "/corpus";

/// The corpus; none if the caller asks for no comparison.
pub(crate) fn folder() -> Option<PathBuf> {
    const VARIABLE: &str = "JACO_COMPOSE_CORPUS";
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus/compose");
    let named = std::env::var_os(VARIABLE);
    if named.as_deref() == Some("none".as_ref()) {
        println!("{VARIABLE}=none: nothing is compared");
        return None;
    }
    let folder = named.map_or_else(|| default.into(), PathBuf::from);
    let is_there = folder.join("index.json").is_file();
    let place = folder.display();
    assert!(is_there, "no compose corpus at {place}: set {VARIABLE} to its folder, or to `none`");
    Some(folder)
}

/// One row of the index.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) file: String,
    pub(crate) env: BTreeMap<String, String>,
    overlay: Option<String>,
    empty_env_files: Vec<String>,
    pub(crate) official: String,
    pub(crate) golden: Option<String>,
}

pub(crate) fn cases(folder: &Path) -> Vec<Case> {
    let index: Json =
        serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    let text = |row: &Json, key: &str| row[key].as_str().map(str::to_owned);
    index
        .as_array()
        .unwrap()
        .iter()
        .map(|row| Case {
            file: text(row, "file").unwrap(),
            env: row["env"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            overlay: text(row, "override"),
            empty_env_files: row["empty_env_files"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|value| value.as_str().unwrap().to_owned())
                .collect(),
            official: text(row, "official").unwrap(),
            golden: text(row, "golden"),
        })
        .collect()
}

/// The corpus as files below [`MOUNT`].
struct Corpus<'c> {
    folder: &'c Path,
    case: &'c Case,
}

impl Files for Corpus<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let Some(below) = path.strip_prefix(MOUNT) else {
            return Err(FileError::NotFound);
        };
        let file = format!("files{below}");
        if self.case.empty_env_files.contains(&file) {
            return Ok(Vec::new());
        }
        fs::read(self.folder.join(file)).map_err(|_| FileError::NotFound)
    }
}

pub(crate) fn run(folder: &Path, case: &Case) -> Result<Loaded, Problems> {
    let mounted = |file: &str| format!("{MOUNT}/{}", file.strip_prefix("files/").unwrap());
    let path = mounted(&case.file);
    let input = Input {
        project_dir: paths::parent(&path),
        files: [Some(path), case.overlay.as_deref().map(mounted)].into_iter().flatten().collect(),
        name: None,
        // The official tool ran with this home folder.
        env: [("HOME".to_owned(), "/root".to_owned())]
            .into_iter()
            .chain(case.env.clone())
            .collect(),
        env_files: EnvFiles::Project,
        profiles: Vec::new(),
    };
    load(&input, &Corpus { folder, case })
}

/// How an accepted file compares.
enum Outcome {
    Equal(Box<Project>),
    Different(String),
}

fn outcome(folder: &Path, case: &Case) -> Outcome {
    let golden = fs::read(folder.join(case.golden.as_ref().unwrap())).unwrap();
    let golden = without_empty(serde_json::from_slice(&golden).unwrap());
    match run(folder, case) {
        Err(problems) => Outcome::Different(format!("{}: refused\n{problems}", case.file)),
        Ok(loaded) => {
            let own = without_empty(loaded.project.canonical_json());
            let mut differences = Vec::new();
            compare("", &golden, &own, &mut differences);
            if differences.is_empty() {
                return Outcome::Equal(Box::new(loaded.project));
            }
            Outcome::Different(format!("{}:\n  {}", case.file, differences.join("\n  ")))
        }
    }
}

/// R-IN-2
#[test]
fn accepted_files_equal_the_official_model() {
    let Some(folder) = folder() else { return };
    let cases = cases(&folder);
    let accepted = cases.iter().filter(|case| case.official == "accepted");
    let (mut equal, mut total) = (0, 0);
    for case in accepted {
        total += 1;
        match outcome(&folder, case) {
            Outcome::Equal(_) => equal += 1,
            Outcome::Different(difference) => println!("{difference}"),
        }
    }
    println!("{equal} of {total} accepted files equal the official model");
    assert!(equal * 100 >= total * WANTED_PERCENT, "only {equal} of {total} are equal");
}

/// Printing and loading again gives the same model, and so does sending it (R-IN-2).
#[test]
fn real_models_survive_printing_and_sending() {
    let Some(folder) = folder() else { return };
    for case in cases(&folder).iter().filter(|case| case.official == "accepted") {
        let Ok(loaded) = run(&folder, case) else { continue };
        let project = loaded.project;
        let sent = project.model();
        let received = from_model(sent.to_string().as_bytes())
            .unwrap_or_else(|problems| panic!("{}: {problems}", case.file));
        assert_eq!(received.model(), sent, "{}", case.file);

        let yaml = project.canonical_yaml();
        let input = Input {
            name: Some(project.name().to_owned()),
            env_files: EnvFiles::Nothing,
            ..Input::file("/corpus/printed.yaml")
        };
        let files =
            BTreeMap::from([("/corpus/printed.yaml".to_owned(), yaml.clone().into_bytes())]);
        let again = load(&input, &files)
            .unwrap_or_else(|problems| panic!("{}: {problems}", case.file))
            .project;
        assert_eq!(again.canonical_yaml(), yaml, "{}", case.file);
    }
}

/// Every container text of the corpus has a typed view, and every refusal says what to do instead.
#[test]
fn real_projects_resolve_or_say_why_not() {
    let Some(folder) = folder() else { return };
    for case in cases(&folder).iter().filter(|case| case.official == "accepted") {
        let Ok(loaded) = run(&folder, case) else { continue };
        match resolve(&loaded.project, None, &Options::default()) {
            Ok(resolved) => {
                for service in resolved.services.values() {
                    let canonical = &service.container.canonical;
                    if let Err(error) = ContainerSpec::parse(canonical) {
                        panic!("{}: {error:?} in {canonical}", case.file);
                    }
                }
            }
            Err(problems) => {
                for problem in problems.errors() {
                    let advice = problem.suggestion.is_some() || problem.expected.is_some();
                    assert!(advice, "{}: no advice in {problem}", case.file);
                }
            }
        }
    }
}

/// The page about the keys is what the table and the corpus say. Where they differ the page is
/// written anew and the test fails, so that the change is seen.
#[test]
fn the_page_about_compose_keys_is_current() {
    let Some(folder) = folder() else { return };
    let page = support::markdown(Some(measure(&folder)));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compose-support.md");
    let written = fs::read_to_string(&path).unwrap_or_default();
    if written != page {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &page).unwrap();
        panic!("docs/compose-support.md was out of date and is written anew");
    }
}

fn measure(folder: &Path) -> Rates {
    let mut rates = Rates {
        accepted: 0,
        equal: 0,
        runnable: 0,
        must_be_built: 0,
        unlabelled_privileges: 0,
        refused: 0,
        also_refused: 0,
    };
    for case in &cases(folder) {
        if case.official != "accepted" {
            rates.refused += 1;
            rates.also_refused += usize::from(run(folder, case).is_err());
            continue;
        }
        rates.accepted += 1;
        let Outcome::Equal(project) = outcome(folder, case) else { continue };
        rates.equal += 1;
        match resolve(&project, None, &Options::default()) {
            Ok(_) => rates.runnable += 1,
            Err(problems) => {
                let has = |code| problems.errors().any(|problem| problem.code == code);
                if has(Code::BuildUnsupported) {
                    rates.must_be_built += 1;
                } else if has(Code::ValidationFailed) {
                    rates.unlabelled_privileges += 1;
                } else {
                    println!("{} does not run: {problems}", case.file);
                }
            }
        }
    }
    rates
}

/// R-IN-2, R-IN-3
#[test]
fn refused_files_are_refused() {
    let Some(folder) = folder() else { return };
    let mut taken = Vec::new();
    let mut total = 0;
    for case in cases(&folder).iter().filter(|case| case.official != "accepted") {
        total += 1;
        match run(&folder, case) {
            Ok(_) => taken.push(case.file.clone()),
            Err(problems) => {
                assert!(
                    problems.errors().next().is_some(),
                    "{}: refused without a reason",
                    case.file
                );
            }
        }
    }
    assert!(taken.is_empty(), "{} of {total} were accepted: {taken:#?}", taken.len());
}

fn compare(path: &str, golden: &Json, own: &Json, differences: &mut Vec<String>) {
    match (golden, own) {
        (Json::Object(golden), Json::Object(own)) => {
            for (key, value) in golden {
                match own.get(key) {
                    Some(own) => compare(&format!("{path}.{key}"), value, own, differences),
                    None => differences.push(format!("{path}.{key}: missing, golden {value}")),
                }
            }
            for (key, value) in own {
                if !golden.contains_key(key) {
                    differences.push(format!("{path}.{key}: extra {value}"));
                }
            }
        }
        (Json::Array(golden), Json::Array(own)) if golden.len() == own.len() => {
            for (index, (golden, own)) in golden.iter().zip(own).enumerate() {
                compare(&format!("{path}[{index}]"), golden, own, differences);
            }
        }
        (Json::Number(golden), Json::Number(own)) if golden.as_f64() == own.as_f64() => {}
        (golden, own) if golden == own => {}
        (golden, own) => differences.push(format!("{path}: golden {golden}, own {own}")),
    }
}
