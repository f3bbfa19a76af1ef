//! The resolver, asked from containers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use jaco_net::Namespace;

use crate::Test;
use crate::lab::Lab;
use crate::scenario::{Scenario, address, underlay};

pub(crate) const TESTS: &[Test] = &[
    ("names_lead_to_ready_instances_near_ones_first", names_lead_to_ready_instances),
    ("names_have_no_other_family_and_addresses_have_names", families_and_addresses),
    ("other_names_are_asked_outside", other_names_are_asked_outside),
    ("a_service_asks_its_own_resolvers", a_service_asks_its_own_resolvers),
    ("a_container_asks_at_most_so_often", a_container_asks_at_most_so_often),
];

/// Where the resolvers of nodes listen here.
const NODES: u16 = 5353;

const CLUSTER: &str = "
    node 1
    node 2
    network 7 external
    network 8 internal
    instance 1 shop/web 7 10 ready
    instance 1 shop/db 7 11 ready
    instance 2 shop/db 7 12 ready
    instance 2 shop/db 7 13 ready
    instance 1 shop/db 7 14 starting
    instance 2 shop/db 7 15 terminating
    instance 2 shop/slow 7 16 starting
    instance 1 blog/web 8 20 ready
    instance 2 blog/db 8 21 ready
    asks 11 192.0.2.9
    asks 11 192.0.2.1
";

fn served(resolver: bool) -> Lab {
    let scenario = Scenario::new(CLUSTER);
    let mut lab = Lab::new(&scenario);
    let resolvers = [format!("{}:{NODES}", underlay(1))];
    let site = lab.sites.get_mut(&1).unwrap();
    site.start_with(if resolver { &resolvers } else { &[] });
    lab.sites.get_mut(&2).unwrap().start();
    lab.apply(&scenario);
    assert!(lab.sites.get_mut(&1).unwrap().ask("serve").starts_with("ok"));
    lab
}

pub(crate) fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

/// Asks over UDP; `None` if nothing is answered.
fn ask(container: &Namespace, router: Ipv4Addr, name: &str, kind: RecordType) -> Option<Message> {
    let message = question(name, kind);
    let socket = container.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send_to(&message.to_vec().unwrap(), (router, 53)).unwrap();
    let mut buffer = [0; 4096];
    let (length, from) = socket.recv_from(&mut buffer).ok()?;
    assert_eq!(from, SocketAddr::from((router, 53)));
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    assert_eq!(answer.metadata.id, message.metadata.id);
    Some(answer)
}

/// The addresses of a name.
pub(crate) fn addresses_of(container: &Namespace, router: Ipv4Addr, name: &str) -> Vec<Ipv4Addr> {
    addresses(&ask(container, router, name, RecordType::A).unwrap())
}

fn addresses(answer: &Message) -> Vec<Ipv4Addr> {
    let addresses = answer.answers.iter().map(|record| {
        let RData::A(address) = &record.data else { panic!("{record:?}") };
        address.0
    });
    addresses.collect()
}

/// NET-8: only ready instances, those of the site first, in changing order, for a second.
fn names_lead_to_ready_instances() {
    let lab = served(false);
    let (shop, router) = (lab.container(1, 10), address(7, 2));
    let mut seconds = std::collections::BTreeSet::new();
    for name in ["db.", "DB.", "tasks.db.", "db.shop.", "db.shop.jaco.internal."] {
        for _ in 0..8 {
            let answer = ask(shop, router, name, RecordType::A).unwrap();
            let found = addresses(&answer);
            assert_eq!(found[0], address(7, 11), "{name}");
            assert_eq!(found.len(), 3, "{name}");
            assert!(answer.answers.iter().all(|record| record.ttl == 0));
            seconds.insert(found[1]);
        }
    }
    assert_eq!(seconds, [address(7, 12), address(7, 13)].into());
    let only = |name| addresses(&ask(shop, router, name, RecordType::A).unwrap());
    assert_eq!(only("slow."), [address(7, 16)]);
    assert_eq!(only("db-13."), [address(7, 13)]);
    // Over TCP the same.
    let mut stream = shop.run(|| TcpStream::connect((router, 53)).unwrap()).unwrap();
    let bytes = question("slow.", RecordType::A).to_vec().unwrap();
    stream.write_all(&u16::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(addresses(&Message::from_vec(&answer).unwrap()), [address(7, 16)]);
}

fn families_and_addresses() {
    let lab = served(false);
    let (shop, router) = (lab.container(1, 10), address(7, 2));
    let code = |name, kind| ask(shop, router, name, kind).unwrap().metadata.response_code;
    let answer = ask(shop, router, "db.", RecordType::AAAA).unwrap();
    assert_eq!((answer.metadata.response_code, answer.answers.len()), (ResponseCode::NoError, 0));
    assert_eq!(code("db.", RecordType::MX), ResponseCode::NoError);
    assert_eq!(code("nobody.shop.jaco.internal.", RecordType::A), ResponseCode::NXDomain);
    // Of another network: as if it did not exist.
    assert_eq!(code("db.blog.jaco.internal.", RecordType::A), ResponseCode::NXDomain);
    let answer = ask(shop, router, "12.7.65.10.in-addr.arpa.", RecordType::PTR).unwrap();
    let [record] = answer.answers.as_slice() else { panic!("{answer}") };
    assert_eq!(record.data.to_string(), "db-12.shop.jaco.internal.");
    assert_eq!(code("21.8.65.10.in-addr.arpa.", RecordType::PTR), ResponseCode::NXDomain);
    assert_eq!(code("99.7.65.10.in-addr.arpa.", RecordType::PTR), ResponseCode::NXDomain);
}

/// A resolver outside, on this port: it knows two names, one of them with an address of the cluster.
fn outside(lab: &Lab, port: u16) -> std::sync::mpsc::Receiver<String> {
    let bind = || UdpSocket::bind((underlay(1), port)).unwrap();
    let socket = lab.sites[&1].engine.run(bind).unwrap();
    let (asked, log) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let name = question.queries[0].name().clone();
            let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
            answer.add_query(question.queries[0].clone());
            let mut records = vec![[203, 0, 113, 9]];
            if name.to_ascii() == "rebinding.example." {
                records.push([10, 65, 7, 12]);
            }
            for record in records {
                let data = RData::A(A(record.into()));
                answer.add_answer(Record::from_rdata(name.clone(), 60, data));
            }
            // Forged ones first: with another number, and for another name.
            let mut forged = answer.clone();
            forged.metadata.id ^= 1;
            socket.send_to(&forged.to_vec().unwrap(), from).unwrap();
            socket.send_to(&answer.to_vec().unwrap(), from).unwrap();
            drop(asked.send(name.to_ascii()));
        }
    });
    log
}

fn other_names_are_asked_outside() {
    let lab = served(true);
    let asked = outside(&lab, NODES);
    let (shop, router) = (lab.container(1, 10), address(7, 2));
    let answer = ask(shop, router, "www.example.", RecordType::A).unwrap();
    assert_eq!(addresses(&answer), [Ipv4Addr::new(203, 0, 113, 9)]);
    assert_eq!(asked.recv_timeout(Duration::from_secs(5)).unwrap(), "www.example.");
    // Nobody outside says what an address of the cluster is called.
    let answer = ask(shop, router, "rebinding.example.", RecordType::A).unwrap();
    assert_eq!(addresses(&answer), [Ipv4Addr::new(203, 0, 113, 9)]);
    assert_eq!(asked.recv_timeout(Duration::from_secs(5)).unwrap(), "rebinding.example.");
    // Names of the cluster, and everything that a member of internal networks asks, stay here.
    ask(shop, router, "nobody.shop.jaco.internal.", RecordType::A).unwrap();
    ask(shop, router, "db.", RecordType::AAAA).unwrap();
    let answer = ask(lab.container(1, 20), address(8, 2), "www.example.", RecordType::A).unwrap();
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
    let answer = ask(lab.container(1, 20), address(8, 2), "db.", RecordType::A).unwrap();
    assert_eq!(addresses(&answer), [address(8, 21)]);
    assert!(asked.recv_timeout(Duration::from_millis(300)).is_err());
}

/// R-IN-2: `dns:` of a service: its own resolvers are asked in place of the node's, the next one where one gives no answer, and
/// never about names of the cluster.
fn a_service_asks_its_own_resolvers() {
    let lab = served(true);
    let (own, nodes) = (outside(&lab, 53), outside(&lab, NODES));
    let router = address(7, 2);
    // Nobody is at its first one.
    let answer = ask(lab.container(1, 11), router, "www.example.", RecordType::A).unwrap();
    assert_eq!(addresses(&answer), [Ipv4Addr::new(203, 0, 113, 9)]);
    assert_eq!(own.recv_timeout(Duration::from_secs(5)).unwrap(), "www.example.");
    let answer = ask(lab.container(1, 11), router, "rebinding.example.", RecordType::A).unwrap();
    assert_eq!(addresses(&answer), [Ipv4Addr::new(203, 0, 113, 9)]);
    assert_eq!(own.recv_timeout(Duration::from_secs(5)).unwrap(), "rebinding.example.");
    ask(lab.container(1, 11), router, "nobody.shop.jaco.internal.", RecordType::A).unwrap();
    assert_eq!(addresses_of(lab.container(1, 11), router, "web."), [address(7, 10)]);
    assert!(own.recv_timeout(Duration::from_millis(300)).is_err());
    assert!(nodes.try_recv().is_err(), "the node's were not asked");
    // Others ask the node's.
    ask(lab.container(1, 10), router, "www.example.", RecordType::A).unwrap();
    assert_eq!(nodes.recv_timeout(Duration::from_secs(5)).unwrap(), "www.example.");
    assert!(own.try_recv().is_err());
}

fn a_container_asks_at_most_so_often() {
    let lab = served(false);
    let (shop, router) = (lab.container(1, 10), address(7, 2));
    let socket = shop.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let bytes = question("db.", RecordType::A).to_vec().unwrap();
    let begun = std::time::Instant::now();
    for _ in 0..1000 {
        socket.send_to(&bytes, (router, 53)).unwrap();
    }
    let mut buffer = [0; 4096];
    let mut answered = 0;
    while socket.recv_from(&mut buffer).is_ok() {
        answered += 1;
    }
    // Two hundred at once, and two hundred for each second that passed.
    let most = 200 + begun.elapsed().as_millis() / 5;
    assert!(answered >= 150 && answered <= most, "{answered} of {most}");
    // Others are answered meanwhile.
    assert!(ask(lab.container(1, 11), router, "db.", RecordType::A).is_some());
}
