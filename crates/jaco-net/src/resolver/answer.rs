//! From a question to its answer, as far as the cluster knows it. Pure: chance comes in as a seed.

use std::net::Ipv4Addr;

use hickory_proto::op::{Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, PTR};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use jaco_dataplane::{Addresses, Asker, Lookup, Names, lookup, lookup_address};
use jaco_types::NetworkReach;

/// Seconds that an answer may be remembered (ADR 0162): none, as addresses change with every rollout. Who counts in whole seconds,
/// as nginx does, remembers it to the end of one.
const TTL: u32 = 0;

/// What becomes of a question.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is answered.
    Answer(Message),
    /// It is for the resolvers outside.
    Forward,
}

/// Answers a question of `asker`; addresses of equal rank are in an order that `seed` decides.
pub(super) fn answer(names: &Names, asker: &Asker, question: &Message, seed: u64) -> Outcome {
    let mut response = Message::new(0, MessageType::Response, OpCode::Query);
    response.metadata = Metadata::response_from_request(&question.metadata);
    response.metadata.recursion_available = true;
    response.add_queries(question.queries.iter().cloned());
    if question.edns.is_some() {
        response.set_edns(hickory_proto::op::Edns::new());
    }
    let [query] = question.queries.as_slice() else {
        response.metadata.response_code = ResponseCode::FormErr;
        return Outcome::Answer(response);
    };
    let query_op = question.metadata.op_code == OpCode::Query
        && question.metadata.message_type == MessageType::Query;
    if !query_op || query.query_class() != DNSClass::IN {
        response.metadata.response_code = ResponseCode::NotImp;
        return Outcome::Answer(response);
    }
    let name = query.name();
    let found = match pool_address(names, name) {
        Some(address) => reverse(names, asker, address),
        None => forward(names, asker, name, query.query_type(), seed),
    };
    match found {
        Found::Records(records) => {
            response.metadata.authoritative = true;
            let records = records.into_iter();
            response.add_answers(records.map(|data| Record::from_rdata(name.clone(), TTL, data)));
        }
        Found::NoSuchName => {
            response.metadata.authoritative = true;
            response.metadata.response_code = ResponseCode::NXDomain;
        }
        Found::Foreign if asker.reach == NetworkReach::Outside => return Outcome::Forward,
        Found::Foreign => response.metadata.response_code = ResponseCode::Refused,
    }
    Outcome::Answer(response)
}

enum Found {
    /// The name exists; there may be no record of the wanted type.
    Records(Vec<RData>),
    NoSuchName,
    Foreign,
}

fn forward(names: &Names, asker: &Asker, name: &Name, kind: RecordType, seed: u64) -> Found {
    let text = name.to_ascii().to_ascii_lowercase();
    match lookup(names, asker, text.trim_end_matches('.')) {
        // A name that has addresses of one family exists in the other one too: musl gives up otherwise.
        Lookup::Known(addresses) if matches!(kind, RecordType::A | RecordType::ANY) => {
            let ordered = order(&addresses, seed).into_iter();
            Found::Records(ordered.map(|address| RData::A(A(address))).collect())
        }
        Lookup::Known(_) => Found::Records(Vec::new()),
        Lookup::Unknown => Found::NoSuchName,
        Lookup::Foreign => Found::Foreign,
    }
}

fn reverse(names: &Names, asker: &Asker, address: Ipv4Addr) -> Found {
    let name = lookup_address(names, asker, address);
    match name.and_then(|name| Name::from_ascii(format!("{name}.")).ok()) {
        Some(name) => Found::Records(vec![RData::PTR(PTR(name))]),
        None => Found::NoSuchName,
    }
}

/// The address of the pool that a name below `in-addr.arpa` stands for.
fn pool_address(names: &Names, name: &Name) -> Option<Ipv4Addr> {
    let text = name.to_ascii().to_ascii_lowercase();
    let digits = text.trim_end_matches('.').strip_suffix(".in-addr.arpa")?;
    let parts: Vec<u8> = digits.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [d, c, b, a] = parts[..] else { return None };
    let address = Ipv4Addr::new(a, b, c, d);
    names.pool.is_some_and(|pool| pool.contains(address)).then_some(address)
}

/// Ready ones of this site, then ready ones of others; those that are starting only if there is nothing else.
pub(super) fn order(addresses: &Addresses, seed: u64) -> Vec<Ipv4Addr> {
    let mut random = seed | 1;
    let mut shuffled = |group: &std::collections::BTreeSet<Ipv4Addr>| {
        let mut group: Vec<Ipv4Addr> = group.iter().copied().collect();
        for at in (1..group.len()).rev() {
            // Xorshift: enough to spread load, and no more than that hangs on it.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let choices = u64::try_from(at).unwrap_or(u64::MAX - 1) + 1;
            group.swap(at, usize::try_from(random % choices).unwrap_or(at));
        }
        group
    };
    let mut ready = shuffled(&addresses.ready_here);
    ready.extend(shuffled(&addresses.ready_elsewhere));
    if ready.is_empty() { shuffled(&addresses.starting) } else { ready }
}
