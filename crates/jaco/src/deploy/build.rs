//! `jaco apply --build`: services with `build` get images that are built here and pushed into the cluster.

use std::collections::BTreeMap;
use std::path::Path;

use jaco_types::{BlobDigest, ErrorCode, ImageTag};
use serde_json::{Map, Value};

use crate::error::CliError;
use crate::image::{Build, Push, Source, build, on_thread, push};
use crate::manifest::{Manifest, ManifestArgs};
use crate::session::Session;

/// What stands for an image until it is built, so that a manifest with problems is refused before.
const PLACEHOLDER: &str = "jaco-build/placeholder:1";

/// Digits of an id in a tag.
const TAG_DIGITS: usize = 16;

/// A service that is to be built.
#[derive(Debug)]
struct Service {
    name: String,
    /// Its `image`.
    image: Option<ImageTag>,
    build: Build,
}

/// The manifest with the images that were built for it.
///
/// # Errors
/// All problems of the manifest; what cannot be built or pushed.
pub(crate) async fn built(
    session: &mut Session,
    args: &ManifestArgs,
) -> Result<Manifest, CliError> {
    let mut manifest = Manifest::load(args)?;
    let services = services(&manifest.project.model(), manifest.dir())?;
    for service in &services {
        manifest.project.run_built(&service.name, PLACEHOLDER);
    }
    manifest.check(args)?;
    for service in services {
        let image = image(session, manifest.project.name(), &service).await?;
        manifest.project.run_built(&service.name, &image);
    }
    Ok(manifest)
}

/// Builds and pushes one image. Returns it by its id.
async fn image(
    session: &mut Session,
    deployment: &str,
    service: &Service,
) -> Result<String, CliError> {
    session.ui.note(&format!("building {}", service.name));
    let wanted = service.build.clone();
    let local = match &service.image {
        Some(image) => image.clone(),
        None => local_name(deployment, &service.name)?,
    };
    let id = on_thread(move || build(&wanted, &local)).await??;
    let name = match &service.image {
        Some(image) => image.clone(),
        None => own_name(deployment, &service.name, &id)?,
    };
    let wanted =
        Push { name: name.clone(), source: Source::Engine(id), copies: 0, keep_unused_ms: 0 };
    let pushed = Box::pin(push(session, &wanted)).await?;
    session.ui.note(&format!("{name} pushed, held by {}", pushed.image.nodes.join(", ")));
    let id = BlobDigest::parse(&pushed.image.id);
    let pinned = id.and_then(|id| name.pinned(id)).map(|image| image.to_string());
    pinned.ok_or_else(|| {
        CliError::usage(format!("{name} is too long a name for an image"), "set a shorter `image`")
    })
}

/// The name that an image without one has in the engine: as `docker compose build` calls it.
fn local_name(deployment: &str, service: &str) -> Result<ImageTag, CliError> {
    named(service, &format!("{deployment}-{service}:latest").to_lowercase())
}

/// The name that an image without one has in the cluster.
fn own_name(deployment: &str, service: &str, id: &str) -> Result<ImageTag, CliError> {
    let hex: String = id.strip_prefix("sha256:").unwrap_or(id).chars().take(TAG_DIGITS).collect();
    named(service, &format!("{deployment}/{service}:{hex}").to_lowercase())
}

fn named(service: &str, name: &str) -> Result<ImageTag, CliError> {
    ImageTag::parse(name).map_err(|_| {
        let message = format!("{name} is no name of an image, so service {service} needs one");
        CliError::usage(message, "set `image:` beside `build:`")
    })
}

/// The services with `build`.
fn services(model: &Value, dir: &Path) -> Result<Vec<Service>, CliError> {
    let all = model["services"].as_object().into_iter().flatten();
    let with_build = all.filter_map(|(name, service)| {
        service["build"].as_object().map(|build| (name, service, build))
    });
    with_build.map(|(name, service, build)| read(name, service, build, dir)).collect()
}

fn read(
    name: &str,
    service: &Value,
    build: &Map<String, Value>,
    dir: &Path,
) -> Result<Service, CliError> {
    let refused = |message: String, help: &str| CliError::Refused {
        code: ErrorCode::InvalidManifest,
        message,
        help: Some(help.to_owned()),
    };
    let image = service["image"].as_str().map(ImageTag::parse).transpose();
    let image = image.map_err(|invalid| {
        refused(format!("service {name}: `image` cannot be built: {invalid}"), invalid.rule)
    })?;
    let text = |key: &str| build.get(key).and_then(Value::as_str).map(str::to_owned);
    let flag = |key: &str| build.get(key).and_then(Value::as_bool).unwrap_or_default();
    let mut foreign =
        build.keys().filter(|key| !PASSED.contains(&key.as_str()) && !key.starts_with("x-"));
    if let Some(key) = foreign.next() {
        let help =
            "take it out, or build the image yourself: docker build, jaco image push, `image:`";
        let message = format!("service {name}: `build.{key}` is not forwarded by --build");
        return Err(refused(message, help));
    }
    let context = text("context").unwrap_or_else(|| ".".to_owned());
    // A repository or an archive elsewhere is the engine's to fetch.
    let context = match context.contains("://") || context.starts_with("git@") {
        true => context,
        false => dir.join(context).display().to_string(),
    };
    Ok(Service {
        name: name.to_owned(),
        image,
        build: Build {
            context,
            dockerfile: text("dockerfile"),
            inline: text("dockerfile_inline"),
            args: pairs(build.get("args")),
            labels: pairs(build.get("labels")),
            target: text("target"),
            network: text("network"),
            no_cache: flag("no_cache"),
            pull: flag("pull"),
        },
    })
}

/// Keys of `build` that are passed to the engine.
const PASSED: [&str; 9] = [
    "args",
    "context",
    "dockerfile",
    "dockerfile_inline",
    "labels",
    "network",
    "no_cache",
    "pull",
    "target",
];

fn pairs(section: Option<&Value>) -> BTreeMap<String, String> {
    let all = section.and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    all.map(|(key, value)| (key.clone(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_all(build: &Value) -> Result<Vec<Service>, CliError> {
        let model = json!({ "services": { "web": { "build": build }, "db": { "image": "db:1" } } });
        services(&model, Path::new("/p"))
    }

    /// R-OPS-1: what a build section says reaches the engine, and what is not forwarded is refused by name.
    #[test]
    fn build_sections_are_read() {
        let full = json!({
            "context": "app", "dockerfile": "Dockerfile.web", "target": "run",
            "args": { "A": "1", "B": 2 }, "no_cache": true, "x-note": 1,
        });
        let services = read_all(&full).unwrap();
        let [web] = services.as_slice() else { panic!("{services:?}") };
        assert_eq!((web.name.as_str(), web.build.context.as_str()), ("web", "/p/app"));
        assert_eq!(
            web.build.args,
            [("A", "1"), ("B", "2")].map(|(a, b)| (a.into(), b.into())).into()
        );
        assert!(web.build.no_cache && !web.build.pull);
        let remote = read_all(&json!({ "context": "https://example.org/x.git" })).unwrap();
        assert_eq!(remote[0].build.context, "https://example.org/x.git");
        let error = read_all(&json!({ "context": ".", "ssh": ["default"] })).unwrap_err();
        assert!(error.to_string().contains("service web: `build.ssh` is not forwarded"), "{error}");
    }

    /// R-OPS-1: an image without a name gets one that changes with it.
    #[test]
    fn images_without_a_name_get_one() {
        let id = format!("sha256:{}", "0a".repeat(32));
        let name = own_name("shop", "web", &id).unwrap();
        assert_eq!(name.as_str(), "shop/web:0a0a0a0a0a0a0a0a");
        assert_eq!(local_name("Shop", "web").unwrap().as_str(), "shop-web:latest");
        let error = own_name("shop", "web__.x", &id).unwrap_err();
        assert!(error.to_string().contains("needs one"), "{error}");
    }
}
