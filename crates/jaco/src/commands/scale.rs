//! `jaco scale`

use std::time::Duration;

use jaco_compose::JacoYaml;
use jaco_proto::v1::GetDeploymentResponse;
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::apply::{Then, reapply};
use super::{Context, Done};
use crate::error::CliError;
use crate::when;

/// Change how many replicas a service has
///
/// Applies the stored spec again with another number; it is a new revision. The next `jaco apply` of
/// the files brings their number back.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco scale shop/web 5
  jaco scale shop/web 0 --detach")]
pub(crate) struct Args {
    /// The service
    #[arg(value_name = "DEPLOYMENT/SERVICE")]
    of: String,
    /// How many replicas it should have
    replicas: u32,
    /// Return as soon as the cluster has agreed
    #[arg(long)]
    detach: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = when::duration)]
    timeout: Duration,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let Some((name, service)) = args.of.split_once('/') else {
        let message = format!("{:?} names no service", args.of);
        return Err(CliError::usage(message, "write DEPLOYMENT/SERVICE"));
    };
    let then = if args.detach { Then::Return } else { Then::Wait(args.timeout) };
    let change = |stored: &GetDeploymentResponse| {
        check_overlay(stored, service)?;
        scaled(stored, service, args.replicas)
    };
    reapply(context, name, change, then).await
}

/// What jaco.yaml says about the number wins over compose, and it is a text that people wrote: it is
/// theirs to change.
fn check_overlay(stored: &GetDeploymentResponse, service: &str) -> Result<(), CliError> {
    if stored.overlay_yaml.is_empty() {
        return Ok(());
    }
    let overlay = JacoYaml::parse("jaco.yaml", stored.overlay_yaml.as_bytes())
        .map_err(|problems| CliError::Manifest { problems })?;
    match overlay.service(service).and_then(|service| service.replicas) {
        None => Ok(()),
        Some(replicas) => Err(CliError::Refused {
            code: ErrorCode::InvalidRequest,
            message: format!("jaco.yaml says that {service} has {replicas} replicas"),
            help: Some("change the number there and apply it".to_owned()),
        }),
    }
}

/// The stored model with another number.
fn scaled(
    stored: &GetDeploymentResponse,
    service: &str,
    replicas: u32,
) -> Result<String, CliError> {
    let mut model: Value = serde_json::from_str(&stored.compose_json)
        .map_err(|error| CliError::local("the cluster's compose model is not understood", error))?;
    let found = model.pointer_mut(&format!("/services/{service}")).and_then(Value::as_object_mut);
    let found = found.ok_or_else(|| CliError::Refused {
        code: ErrorCode::ServiceNotFound,
        message: format!("{} has no service {service}", stored.name),
        help: None,
    })?;
    let deploy = found.entry("deploy").or_insert_with(|| json!({}));
    deploy["replicas"] = replicas.into();
    // The older way of saying it would contradict.
    found.remove("scale");
    Ok(model.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(compose: &str, overlay: &str) -> GetDeploymentResponse {
        GetDeploymentResponse {
            name: "shop".to_owned(),
            compose_json: compose.to_owned(),
            overlay_yaml: overlay.to_owned(),
            ..GetDeploymentResponse::default()
        }
    }

    #[test]
    fn only_the_number_changes() {
        let stored =
            stored(r#"{"services":{"web":{"image":"w","scale":2},"db":{"image":"d"}}}"#, "");
        let expected = json!({ "services": {
            "web": { "image": "w", "deploy": { "replicas": 5 } },
            "db": { "image": "d" },
        }});
        let model: Value = serde_json::from_str(&scaled(&stored, "web", 5).unwrap()).unwrap();
        assert_eq!(model, expected);
        assert!(scaled(&stored, "wbe", 5).is_err());
    }

    #[test]
    fn a_number_in_the_overlay_is_left_to_its_writer() {
        let with = "deployment: shop\nservices:\n  - name: web\n    replicas: 3\n";
        let without = "deployment: shop\nservices:\n  - name: web\n    placement: spread\n";
        let check = |overlay, service| check_overlay(&stored("{}", overlay), service).is_ok();
        assert!(
            !check(with, "web") && check(with, "db") && check(without, "web") && check("", "web")
        );
    }
}
