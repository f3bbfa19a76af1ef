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
        let Some(written) = Written::parse(&text) else {
            checker.invalid(item.pos, path, &text, EXPECTED);
            continue;
        };
        // Counted before they are made: each takes 600 bytes.
        let had_room = *checker.ports <= MAX_PORTS;
        *checker.ports = checker.ports.saturating_add(written.count());
        if *checker.ports <= MAX_PORTS {
            ports.extend(written.ports(item.pos));
        } else if had_room {
            checker
                .report
                .error(item.pos, Code::TooLarge, "the project publishes too many ports")
                .expected(format!("at most {MAX_PORTS}"));
        }
    }
    *items = ports;
    true
}

/// An inclusive range of ports.
type Range = (u16, u16);

/// One text of the short form, not expanded yet.
#[derive(Debug)]
struct Written<'a> {
    address: Option<&'a str>,
    published: Option<Range>,
    container: Range,
    protocol: String,
}

impl<'a> Written<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (rest, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let protocol = protocol.to_ascii_lowercase();
        if !["tcp", "udp", "sctp"].contains(&protocol.as_str()) {
            return None;
        }
        let (host, container) = rest.rsplit_once(':').unwrap_or(("", rest));
        let (address, published) = split_address(host)?;
        let container = parse_range(container)?;
        let published = if published.is_empty() { None } else { Some(parse_range(published)?) };
        let fits = published
            .is_none_or(|published| width(container) == 0 || width(published) == width(container));
        fits.then_some(Self { address, published, container, protocol })
    }

    /// How many ports it is.
    fn count(&self) -> usize {
        usize::from(width(self.container)) + 1
    }

    fn ports(&self, pos: Pos) -> impl Iterator<Item = Node> {
        let Self { address, published, container, protocol } = self;
        let width = width(*container);
        (0..=width).map(move |offset| {
            let published = published.map(|(first, last)| match last - first == width {
                true => (first + offset).to_string(),
                // The engine chooses one of the range for a single container port.
                false => format!("{first}-{last}"),
            });
            long(*address, published, container.0 + offset, protocol, pos)
        })
    }
}

/// How many ports follow the first.
fn width((first, last): Range) -> u16 {
    last - first
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
