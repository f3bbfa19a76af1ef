//! `jaco whatif`

use std::collections::HashMap;

use jaco_proto::v1::{ImaginedNode, ImaginedScale, Preview, WhatifRequest};
use serde_json::Value;

use super::{Context, Done};
use crate::error::CliError;
use crate::ui::{Frame, Show};
use crate::view::plan;

/// Ask what would become of the replicas if the cluster were different; change nothing
///
/// The leader answers with the functions that would act: what moves where, what would have no place,
/// and whether any one node or zone could be lost then. All that is asked holds at once.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco whatif --lose n3
  jaco whatif --lose n3 --lose n4 -o json
  jaco whatif --drain n2
  jaco whatif --add 'n9 zone=c cpu=8 ram=32G' --scale web=12
  jaco whatif --add 'n9 cpu=32 ram=128G gpus=4' --scale train=4
  jaco whatif --scale shop/web=0")]
#[group(required = true, multiple = true)]
pub(crate) struct Args {
    /// A node that would fall silent
    #[arg(long, value_name = "NODE")]
    lose: Vec<String>,
    /// A node that would be drained
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,
    /// A node that would join: its name, then what it has; cpu in cores, ram with M, G or T, os, arch,
    /// gpus as a number or DRIVER:NUMBER (nvidia where none is named), and labels. Without cpu or ram it
    /// declares no limit
    #[arg(long, value_name = "'NODE KEY=VALUE…'", value_parser = added)]
    add: Vec<ImaginedNode>,
    /// How many replicas a service would have; the deployment may be left out where only one has it
    #[arg(long, value_name = "[DEPLOYMENT/]SERVICE=N", value_parser = scaled)]
    scale: Vec<ImaginedScale>,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let Args { lose, drain, add, scale } = args;
    imagine(context, WhatifRequest { lose, add, scale, drain })
        .await
        .and_then(|preview| context.done(&Answered(&preview)))
}

/// What the leader says would become of the replicas.
pub(super) async fn imagine(
    context: &mut Context,
    request: WhatifRequest,
) -> Result<Preview, CliError> {
    let answer = context.client()?.whatif(request).await?;
    answer.preview.ok_or_else(|| {
        CliError::local("the daemon's answer holds no preview", "it is of another version")
    })
}

/// What would become of it.
pub(super) struct Answered<'a>(pub(super) &'a Preview);

impl Show for Answered<'_> {
    fn json(&self) -> Value {
        plan::json(self.0)
    }

    fn text(&self, _: &Frame) -> String {
        plan::text(self.0)
    }
}

/// Reads `n9 zone=c cpu=8 ram=32G`.
fn added(text: &str) -> Result<ImaginedNode, String> {
    let mut words = text.split_whitespace();
    let hostname = words.next().filter(|word| !word.contains('='));
    let hostname = hostname.ok_or("begin with the node's name, as in 'n9 zone=c cpu=8'")?;
    let mut node = ImaginedNode { hostname: hostname.to_owned(), ..ImaginedNode::default() };
    let mut labels = HashMap::new();
    for word in words {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("{word:?} is no KEY=VALUE"))?;
        match key {
            "cpu" => node.cpu_millis = amount(value, 1000).ok_or("cpu is a number of cores")?,
            "ram" | "mem" => {
                node.memory_bytes = memory(value).ok_or("ram is as 512M, 32G or 1T")?;
            }
            "gpus" => {
                let (driver, count) = value.split_once(':').unwrap_or(("nvidia", value));
                node.gpus = count.parse().map_err(|_| "gpus is a number, or as amdgpu:2")?;
                driver.clone_into(&mut node.gpu_driver);
            }
            "os" => value.clone_into(&mut node.os),
            "arch" => value.clone_into(&mut node.arch),
            label => {
                labels.insert(label.to_owned(), value.to_owned());
            }
        }
    }
    node.labels = labels;
    Ok(node)
}

fn memory(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        (at, 'T' | 't') => (&text[..at], 1 << 40),
        _ => (text, 1 << 20),
    };
    amount(number, unit)
}

/// A decimal number times `unit`, rounded down, without going through floats.
fn amount(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(part.len()).ok()?);
    let part = u128::from(part.parse::<u64>().ok()?) * u128::from(unit) / u128::from(scale);
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    u64::try_from(whole + part).ok()
}

/// Reads `web=12` or `shop/web=12`.
fn scaled(text: &str) -> Result<ImaginedScale, String> {
    let (of, replicas) = text.rsplit_once('=').ok_or("write SERVICE=NUMBER, as web=12")?;
    let replicas =
        replicas.parse().map_err(|_| format!("{replicas:?} is no number of replicas"))?;
    let (deployment, service) = of.split_once('/').unwrap_or(("", of));
    Ok(ImaginedScale { deployment: deployment.to_owned(), service: service.to_owned(), replicas })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_as_people_write_them() {
        let node = added("n9 zone=c cpu=0.5  ram=32G arch=arm64").unwrap();
        let facts = (node.hostname.as_str(), node.cpu_millis, node.memory_bytes, &*node.arch);
        assert_eq!(facts, ("n9", 500, 32 << 30, "arm64"));
        assert_eq!(node.labels, [("zone".to_owned(), "c".to_owned())].into());
        let gpus = |text| added(text).map(|node| (node.gpu_driver, node.gpus)).ok();
        assert_eq!(gpus("n9 gpus=4"), Some(("nvidia".to_owned(), 4)));
        assert_eq!(gpus("n9 gpus=amdgpu:2"), Some(("amdgpu".to_owned(), 2)));
        assert_eq!((gpus("n9 gpus=some"), gpus("n9 gpus=nvidia:-1")), (None, None));
        for wrong in ["", "zone=c", "n9 cpu=x", "n9 ram=99999999999T", "n9 word", "n9 cpu=-1"] {
            assert!(added(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_with_or_without_deployment() {
        let show = |text| scaled(text).map(|s| (s.deployment, s.service, s.replicas)).ok();
        assert_eq!(show("web=12"), Some((String::new(), "web".to_owned(), 12)));
        assert_eq!(show("shop/web=0"), Some(("shop".to_owned(), "web".to_owned(), 0)));
        assert_eq!((show("web"), show("web=x")), (None, None));
    }
}
