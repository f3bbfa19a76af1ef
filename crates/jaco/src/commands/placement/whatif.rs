//! `jaco whatif`

use std::collections::HashMap;

use jaco_proto::v1::{HypotheticalNode, HypotheticalScale, WhatifRequest};

use crate::deploy::whatif::whatif;
use crate::session::{CommandResult, Session};

/// Show what would change in a hypothetical cluster
///
/// The leader runs the planner on a copy of the state with the changes given: which replicas would move
/// where, which would be pending, and whether any one node or zone could then be lost. All options apply
/// together. Nothing is changed.
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
    /// Lose this node
    #[arg(long, value_name = "NODE")]
    lose: Vec<String>,
    /// Drain this node
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,
    /// Add this node: its name and resources; cpu in cores, ram with M, G or T, os, arch, gpus as a number
    /// or DRIVER:NUMBER (default driver nvidia), and labels. Without cpu or ram its capacity is unlimited
    #[arg(long, value_name = "'NODE KEY=VALUE…'", value_parser = parse_node)]
    add: Vec<HypotheticalNode>,
    /// Scale this service; the deployment may be omitted if the name is unambiguous
    #[arg(long, value_name = "[DEPLOYMENT/]SERVICE=N", value_parser = parse_scale)]
    scale: Vec<HypotheticalScale>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let Args { lose, drain, add, scale } = args;
    let plan = whatif(session, WhatifRequest { lose, add, scale, drain }).await?;
    session.done(&plan)
}

/// Parses `n9 zone=c cpu=8 ram=32G`.
fn parse_node(text: &str) -> Result<HypotheticalNode, String> {
    let mut words = text.split_whitespace();
    let hostname = words.next().filter(|word| !word.contains('='));
    let hostname = hostname.ok_or("start with the node's name, as in 'n9 zone=c cpu=8'")?;
    let mut node =
        HypotheticalNode { hostname: hostname.to_owned(), ..HypotheticalNode::default() };
    let mut labels = HashMap::new();
    for word in words {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("{word:?} is not KEY=VALUE"))?;
        match key {
            "cpu" => {
                node.cpu_millis =
                    amount(value, 1000).ok_or("cpu is a number of cores, as in 0.5")?;
            }
            "ram" | "mem" => {
                node.memory_bytes = memory(value).ok_or("ram has a unit, as in 512M, 32G or 1T")?;
            }
            "gpus" => {
                let (driver, count) = value.split_once(':').unwrap_or(("nvidia", value));
                node.gpus = count
                    .parse()
                    .map_err(|_| "gpus is a number or DRIVER:NUMBER, as in amdgpu:2")?;
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

/// A decimal number times `unit`, rounded down, in integer arithmetic.
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

/// Parses `web=12` or `shop/web=12`.
fn parse_scale(text: &str) -> Result<HypotheticalScale, String> {
    let (of, replicas) = text.rsplit_once('=').ok_or("give SERVICE=NUMBER, as in web=12")?;
    let replicas =
        replicas.parse().map_err(|_| format!("{replicas:?} is not a number of replicas"))?;
    let (deployment, service) = of.split_once('/').unwrap_or(("", of));
    Ok(HypotheticalScale {
        deployment: deployment.to_owned(),
        service: service.to_owned(),
        replicas,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_options_are_parsed() {
        let node = parse_node("n9 zone=c cpu=0.5  ram=32G arch=arm64").unwrap();
        let facts = (node.hostname.as_str(), node.cpu_millis, node.memory_bytes, &*node.arch);
        assert_eq!(facts, ("n9", 500, 32 << 30, "arm64"));
        assert_eq!(node.labels, [("zone".to_owned(), "c".to_owned())].into());
        let gpus = |text| parse_node(text).map(|node| (node.gpu_driver, node.gpus)).ok();
        assert_eq!(gpus("n9 gpus=4"), Some(("nvidia".to_owned(), 4)));
        assert_eq!(gpus("n9 gpus=amdgpu:2"), Some(("amdgpu".to_owned(), 2)));
        assert_eq!((gpus("n9 gpus=some"), gpus("n9 gpus=nvidia:-1")), (None, None));
        for wrong in ["", "zone=c", "n9 cpu=x", "n9 ram=99999999999T", "n9 word", "n9 cpu=-1"] {
            assert!(parse_node(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn scale_options_are_parsed_with_or_without_deployment() {
        let show = |text| parse_scale(text).map(|s| (s.deployment, s.service, s.replicas)).ok();
        assert_eq!(show("web=12"), Some((String::new(), "web".to_owned(), 12)));
        assert_eq!(show("shop/web=0"), Some(("shop".to_owned(), "web".to_owned(), 0)));
        assert_eq!((show("web"), show("web=x")), (None, None));
    }
}
