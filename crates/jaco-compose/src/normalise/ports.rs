//! Published ports: the short form with addresses, ranges and protocols.
//!
//! Only notation; which host ports collide is decided where services meet.

use std::net::IpAddr;

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::source::Pos;
use crate::normalise::checker::Checker;
use crate::yaml::access::map_of;
use crate::yaml::node::{Node, Value};

/// Most ports of a project: half of what one host has, and 20 MB of tree.
const MAX_PORTS: usize = 32_768;

const EXPECTED: &str = "`[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535";

/// Turns a list of short and long ports into long ones; one text can be many ports.
pub(crate) fn expand(checker: &mut Checker<'_>, node: &mut Node, path: Path<'_>) -> bool {
    let Value::Seq(items) = &mut node.value else {
        checker.wrong_type(node, path, "a list of ports");
        return false;
    };
    let mut ports = Vec::with_capacity(items.len());
    for item in std::mem::take(items) {
        let text = match &item.value {
            Value::Int(number) => number.to_string(),
            Value::Str(text) => text.to_string(),
            Value::Map(_) => {
                ports.push(item);
                continue;
            }
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Seq(_) => {
                checker.wrong_type(&item, path, EXPECTED);
                continue;
            }
        };
        match parse(&text, item.pos) {
            Some(parsed) => {
                *checker.ports += parsed.len();
                if *checker.ports > MAX_PORTS {
                    checker
                        .report
                        .error(item.pos, Code::TooLarge, "the project publishes too many ports")
                        .expected(format!("at most {MAX_PORTS}"));
                    break;
                }
                ports.extend(parsed);
            }
            None => {
                checker.invalid(item.pos, path, &text, EXPECTED);
            }
        }
    }
    *items = ports;
    true
}

/// An inclusive range of ports.
type Range = (u16, u16);

fn parse(text: &str, pos: Pos) -> Option<Vec<Node>> {
    let (rest, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = protocol.to_ascii_lowercase();
    if !["tcp", "udp", "sctp"].contains(&protocol.as_str()) {
        return None;
    }
    let (host, container) = rest.rsplit_once(':').unwrap_or(("", rest));
    let (address, published) = split_address(host)?;
    let container = parse_range(container)?;
    let published = if published.is_empty() { None } else { Some(parse_range(published)?) };
    let width = container.1 - container.0;
    let mut ports = Vec::with_capacity(usize::from(width) + 1);
    for offset in 0..=width {
        let published = match published {
            None => None,
            Some((first, last)) if last - first == width => Some((first + offset).to_string()),
            // The engine chooses one of the range for a single container port.
            Some((first, last)) if width == 0 => Some(format!("{first}-{last}")),
            Some(_) => return None,
        };
        ports.push(long(address, published, container.0 + offset, &protocol, pos));
    }
    Some(ports)
}

/// Splits `ADDRESS:PUBLISHED`; the address may be IPv6 in brackets.
fn split_address(host: &str) -> Option<(Option<&str>, &str)> {
    let Some((address, published)) = host.rsplit_once(':') else {
        return Some((None, host));
    };
    if address.is_empty() {
        return Some((None, published));
    }
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bare = bare.unwrap_or(address);
    bare.parse::<IpAddr>().ok().map(|_| (Some(bare), published))
}

fn parse_range(text: &str) -> Option<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse_port(first)?, parse_port(last)?);
    (first <= last).then_some((first, last))
}

fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn long(
    address: Option<&str>,
    published: Option<String>,
    target: u16,
    protocol: &str,
    pos: Pos,
) -> Node {
    let mut pairs =
        vec![("protocol", Value::Str(protocol.into())), ("target", Value::Int(i64::from(target)))];
    if let Some(address) = address {
        pairs.push(("host_ip", Value::Str(address.into())));
    }
    if let Some(published) = published {
        pairs.push(("published", Value::Str(published.into())));
    }
    map_of(pos, pairs)
}
