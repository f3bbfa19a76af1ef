//! Whether the cluster would take what was imported: by the same checks as `jaco validate`, before anything is written. Pure.

use std::collections::BTreeMap;

use jaco_compose::{EnvFiles, Input, Loaded, Options, Problems};

use super::found::Imported;

/// The name of the compose file.
pub(crate) const COMPOSE: &str = "compose.yaml";

/// The problems of a compose file, errors and warnings.
pub(crate) fn check(text: &str, imported: &Imported) -> Problems {
    let mut files: BTreeMap<String, Vec<u8>> = imported.files.clone();
    files.insert(COMPOSE.to_owned(), text.as_bytes().to_vec());
    let input = Input { env_files: EnvFiles::Nothing, ..Input::file(COMPOSE) };
    let Loaded { project, warnings } = match jaco_compose::load(&input, &files) {
        Ok(loaded) => loaded,
        Err(problems) => return problems,
    };
    match jaco_compose::resolve(&project, None, &Options::default()) {
        Ok(resolved) => warnings.and(resolved.warnings),
        Err(problems) => warnings.and(problems),
    }
}
