//! Questions to the planner as users write them: in the options of `jaco whatif` and in the fields of the page.

use std::collections::HashMap;

use jaco_proto::v1::{HypotheticalNode, HypotheticalScale, WhatifRequest};

/// The command that asks this. Numbers of added nodes are as they were understood.
#[must_use]
pub fn command(request: &WhatifRequest) -> String {
    let mut command = "jaco whatif".to_owned();
    let mut option = |name: &str, value: &str| {
        command.push_str(&format!(" --{name} {}", quoted(value)));
    };
    request.lose.iter().for_each(|node| option("lose", node));
    request.drain.iter().for_each(|node| option("drain", node));
    for scale in &request.scale {
        let HypotheticalScale { deployment, service, replicas } = scale;
        match deployment.as_str() {
            "" => option("scale", &format!("{service}={replicas}")),
            deployment => option("scale", &format!("{deployment}/{service}={replicas}")),
        }
    }
    request.add.iter().for_each(|added| option("add", &written(added)));
    command
}

/// An added node as an option has it.
fn written(added: &HypotheticalNode) -> String {
    let mut labels: Vec<_> = added.labels.iter().collect();
    labels.sort();
    let mut words = vec![added.hostname.clone()];
    words.extend(labels.into_iter().map(|(key, value)| format!("{key}={value}")));
    if added.cpu_millis > 0 {
        let (whole, part) = (added.cpu_millis / 1000, added.cpu_millis % 1000);
        let part = format!("{part:03}");
        match part.trim_end_matches('0') {
            "" => words.push(format!("cpu={whole}")),
            part => words.push(format!("cpu={whole}.{part}")),
        }
    }
    if added.memory_bytes > 0 {
        words.push(format!("ram={}M", added.memory_bytes >> 20));
    }
    let facts = [("os", &added.os), ("arch", &added.arch)];
    let facts = facts.iter().filter(|(_, value)| !value.is_empty());
    words.extend(facts.map(|(key, value)| format!("{key}={value}")));
    if added.gpus > 0 {
        words.push(format!("gpus={}:{}", added.gpu_driver, added.gpus));
    }
    words.join(" ")
}

/// A word as shells take it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/=:".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Reads `n9 zone=c cpu=8 ram=32G`.
///
/// # Errors
/// What is wrong, and how it is written.
pub fn node(text: &str) -> Result<HypotheticalNode, String> {
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

/// Reads `web=12` or `shop/web=12`.
///
/// # Errors
/// What is wrong, and how it is written.
pub fn scale(text: &str) -> Result<HypotheticalScale, String> {
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
        let node = super::node("n9 zone=c cpu=0.5  ram=32G arch=arm64").unwrap();
        let facts = (node.hostname.as_str(), node.cpu_millis, node.memory_bytes, &*node.arch);
        assert_eq!(facts, ("n9", 500, 32 << 30, "arm64"));
        assert_eq!(node.labels, [("zone".to_owned(), "c".to_owned())].into());
        let gpus = |text| super::node(text).map(|node| (node.gpu_driver, node.gpus)).ok();
        assert_eq!(gpus("n9 gpus=4"), Some(("nvidia".to_owned(), 4)));
        assert_eq!(gpus("n9 gpus=amdgpu:2"), Some(("amdgpu".to_owned(), 2)));
        assert_eq!((gpus("n9 gpus=some"), gpus("n9 gpus=nvidia:-1")), (None, None));
        for wrong in ["", "zone=c", "n9 cpu=x", "n9 ram=99999999999T", "n9 word", "n9 cpu=-1"] {
            assert!(super::node(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn scale_options_are_parsed_with_or_without_deployment() {
        let show = |text| scale(text).map(|s| (s.deployment, s.service, s.replicas)).ok();
        assert_eq!(show("web=12"), Some((String::new(), "web".to_owned(), 12)));
        assert_eq!(show("shop/web=0"), Some(("shop".to_owned(), "web".to_owned(), 0)));
        assert_eq!((show("web"), show("web=x")), (None, None));
    }

    /// The command asks the same again.
    #[test]
    fn commands_are_written_as_they_are_read() {
        let read = |text: &str| super::node(text).unwrap();
        let request = WhatifRequest {
            lose: vec!["n1".to_owned(), "it's".to_owned()],
            drain: vec!["n2".to_owned()],
            scale: vec![scale("web=2").unwrap(), scale("shop/web=0").unwrap()],
            add: vec![read("n9 zone=c a=b cpu=0.5 ram=2G gpus=2"), read("n8")],
        };
        assert_eq!(
            command(&request),
            "jaco whatif --lose n1 --lose 'it'\\''s' --drain n2 --scale web=2 --scale shop/web=0 \
             --add 'n9 a=b zone=c cpu=0.5 ram=2048M gpus=nvidia:2' --add n8"
        );
        let again = written(&request.add[0]);
        assert_eq!(super::node(&again).unwrap(), request.add[0]);
    }
}
