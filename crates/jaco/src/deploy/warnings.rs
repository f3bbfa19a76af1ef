//! The warnings of a stored revision, so that a change says only what is new.

use std::collections::BTreeSet;

use jaco_compose::{Environment, Images, JacoYaml, Options, environment, from_model, resolve};
use jaco_proto::v1::GetDeploymentResponse;

/// The messages of all warnings that the stored files have. None where they cannot be read any more, as those of
/// an older version.
pub(crate) fn of_stored(stored: &GetDeploymentResponse) -> BTreeSet<String> {
    read(stored).unwrap_or_default()
}

fn read(stored: &GetDeploymentResponse) -> Option<BTreeSet<String>> {
    let project = from_model(stored.compose_json.as_bytes()).ok()?;
    let overlay = match stored.overlay_yaml.as_str() {
        "" => None,
        text => Some(JacoYaml::parse("jaco.yaml", text.as_bytes()).ok()?),
    };
    let name = environment::file_name(None);
    let environment = Environment::parse(&name, stored.environment_toml.as_bytes()).ok()?;
    let options = Options {
        images: Images::AllowLocal,
        overrides: environment.overrides(),
        ..Options::default()
    };
    let resolved = resolve(&project, overlay.as_ref(), &options).ok()?;
    Some(resolved.warnings.list.into_iter().map(|problem| problem.message).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_files_have_the_warnings_of_the_users_files() {
        let stored = |compose: &str| GetDeploymentResponse {
            compose_json: compose.to_owned(),
            ..GetDeploymentResponse::default()
        };
        let compose = r#"{"name":"shop","services":{"web":{"image":"w","restart":"always"}}}"#;
        let warnings = of_stored(&stored(compose));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains("restart")), "{warnings:?}");
        assert_eq!(of_stored(&stored("nonsense")), BTreeSet::new());
    }
}
