//! What the tests share: files as maps, and texts to load.

use std::collections::BTreeMap;

use jaco_compose::{
    EnvFiles, Images, Input, JacoYaml, Loaded, Options, Problem, Problems, Resolved, load, resolve,
};

/// A folder of texts.
pub(crate) fn folder(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

/// Loads `/p/compose.yaml` out of `files`.
pub(crate) fn load_files(files: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let input = Input { env_files: EnvFiles::Project, ..Input::file("/p/compose.yaml") };
    load(&input, &folder(files))
}

/// Loads one text as a project whose paths are relative.
pub(crate) fn load_text(text: &str) -> Result<Loaded, Problems> {
    let input = Input {
        project_dir: ".".to_owned(),
        name: Some("shop".to_owned()),
        ..Input::file("compose.yaml")
    };
    load(&input, &folder(&[("compose.yaml", text)]))
}

/// Loads and resolves, with or without an overlay.
pub(crate) fn resolve_text(text: &str, overlay: Option<&str>) -> Result<Resolved, Problems> {
    let project = load_text(text)?.project;
    let overlay = overlay.map(|text| JacoYaml::parse("jaco.yaml", text.as_bytes())).transpose()?;
    resolve(&project, overlay.as_ref(), &Options::default())
}

/// Options that take local images.
pub(crate) fn local_images() -> Options {
    Options { images: Images::AllowLocal, ..Options::default() }
}

/// Problems one a line: position, severity and code, message, expectation, suggestion.
pub(crate) fn problems_of(problems: &Problems) -> String {
    let line = |problem: &Problem| {
        let Problem { line, column, message, .. } = problem;
        let code = problem.code.as_str();
        let severity = problem.severity.as_str();
        let expected = problem.expected.iter().map(|text| format!("\n  expected {text}"));
        let help = problem.suggestion.iter().map(|text| format!("\n  help {text}"));
        let advice: String = expected.chain(help).collect();
        format!("{line}:{column} {severity} {code}: {message}{advice}")
    };
    problems.list.iter().map(line).collect::<Vec<_>>().join("\n")
}
