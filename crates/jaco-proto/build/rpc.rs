//! Reads what each rpc declares (`proto/jaco/v1/options.proto`) and writes it as Rust: a table, an
//! implementation of `LeaderRpc` for each request that the leader executes, and macros that list the
//! rpcs for those who have an item for each.

use std::collections::BTreeSet;
use std::fmt::Write;

use protox::prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, Value};

type Error = Box<dyn std::error::Error>;

/// An rpc and its declaration. Enums are by the names they have in the proto.
pub(crate) struct Rpc {
    service: String,
    name: String,
    doc: Vec<String>,
    request: String,
    response: String,
    handling: String,
    access: String,
    slow: bool,
    has_request_id: bool,
    has_traceparent: bool,
    client_streaming: bool,
    server_streaming: bool,
}

/// All rpcs of a package, in the order of their services.
///
/// # Errors
/// When an rpc declares no handling, or when two that a client can call have one name.
pub(crate) fn declared(pool: &DescriptorPool, package: &str) -> Result<Vec<Rpc>, Error> {
    let mut rpcs = Vec::new();
    for service in pool.services().filter(|service| service.package_name() == package) {
        for method in service.methods() {
            rpcs.push(read(pool, &method)?);
        }
    }
    let mut names = BTreeSet::new();
    for rpc in rpcs.iter().filter(|rpc| rpc.has_client()) {
        if !names.insert(&rpc.name) {
            return Err(
                format!("two rpcs are called {}: a client has one method each", rpc.name).into()
            );
        }
    }
    Ok(rpcs)
}

/// Whether no listener serves this service.
pub(crate) fn is_forwarded_only(rpcs: &[Rpc], service: &str) -> bool {
    rpcs.iter().any(|rpc| rpc.service == service && rpc.access == "FORWARDED")
}

fn read(pool: &DescriptorPool, method: &MethodDescriptor) -> Result<Rpc, Error> {
    let option = |name: &str| option(pool, &method.options(), name);
    let handling = name_of(&option("handling")?)?;
    if handling == "HANDLING_UNSPECIFIED" {
        let message =
            "declares no handling: give it `option (handling) = LOCAL`, LEADER_READ or WRITE";
        return Err(format!("rpc {} {message}", method.full_name()).into());
    }
    let has = |field| method.input().get_field_by_name(field).is_some();
    Ok(Rpc {
        service: method.parent_service().name().to_owned(),
        name: method.name().to_owned(),
        doc: comment(method),
        request: method.input().name().to_owned(),
        response: method.output().name().to_owned(),
        handling,
        access: name_of(&option("access")?)?,
        slow: option("slow")?.as_bool().unwrap_or_default(),
        has_request_id: has("request_id"),
        has_traceparent: has("traceparent"),
        client_streaming: method.is_client_streaming(),
        server_streaming: method.is_server_streaming(),
    })
}

fn option(pool: &DescriptorPool, options: &DynamicMessage, name: &str) -> Result<Value, Error> {
    let extension = pool.get_extension_by_name(&format!("jaco.v1.{name}"));
    let extension = extension.ok_or_else(|| format!("options.proto has no option {name}"))?;
    let value = options.get_extension(&extension).into_owned();
    let Value::EnumNumber(number) = value else { return Ok(value) };
    let kind = extension.kind();
    let value = kind.as_enum().and_then(|kind| kind.get_value(number));
    let value = value.ok_or_else(|| format!("option {name} has no value {number}"))?;
    Ok(Value::String(value.name().to_owned()))
}

fn name_of(value: &Value) -> Result<String, Error> {
    Ok(value.as_str().ok_or("an enum has a name")?.to_owned())
}

/// The lines of the comment above an rpc.
fn comment(method: &MethodDescriptor) -> Vec<String> {
    let file = method.parent_file();
    let places = file.file_descriptor_proto().source_code_info.iter();
    let mut here =
        places.flat_map(|info| &info.location).filter(|place| place.path == method.path());
    let text = here.next().map(|place| place.leading_comments().to_owned()).unwrap_or_default();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

impl Rpc {
    fn is_led(&self) -> bool {
        self.handling != "LOCAL"
    }

    /// Whether users call it with one request: what takes a stream of them has a client of its own.
    fn has_client(&self) -> bool {
        !self.client_streaming && !matches!(self.access.as_str(), "MEMBER" | "FORWARDED")
    }

    /// `write` or `leader_read`: what executes it in the daemon.
    fn verb(&self) -> String {
        self.handling.to_lowercase()
    }
}

/// The Rust text.
pub(crate) fn generated(rpcs: &[Rpc]) -> String {
    let mut out = String::new();
    for part in [table(rpcs), impls(rpcs), led(rpcs), led_by_service(rpcs), client(rpcs)] {
        out.push_str(&part);
    }
    out
}

fn table(rpcs: &[Rpc]) -> String {
    let mut out =
        "/// Every rpc of `jaco.v1`, from the descriptor.\npub const ALL: &[Rpc] = &[\n".to_owned();
    for rpc in rpcs {
        let Rpc { service, name, client_streaming, server_streaming, .. } = rpc;
        let (handling, access) = (camel(&rpc.handling), camel(&rpc.access));
        writeln!(
            out,
            "    Rpc {{ method: \"/jaco.v1.{service}/{name}\", handling: Handling::{handling}, \
             access: Access::{access}, client_streaming: {client_streaming}, \
             server_streaming: {server_streaming} }},"
        )
        .expect("a string takes all");
    }
    out + "];\n\n"
}

fn impls(rpcs: &[Rpc]) -> String {
    let mut out = String::new();
    for rpc in rpcs.iter().filter(|rpc| rpc.is_led()) {
        let Rpc { service, name, request, response, .. } = rpc;
        let id = if rpc.has_request_id { "Some(&mut self.request_id)" } else { "None" };
        let trace = if rpc.has_traceparent { "Some(&mut self.traceparent)" } else { "None" };
        writeln!(
            out,
            "impl LeaderRpc for v1::{request} {{
    const METHOD: &'static str = \"/jaco.v1.{service}/{name}\";
    type Response = v1::{response};

    fn request_id_mut(&mut self) -> Option<&mut String> {{
        {id}
    }}

    fn traceparent_mut(&mut self) -> Option<&mut String> {{
        {trace}
    }}
}}
"
        )
        .expect("a string takes all");
    }
    out
}

fn led(rpcs: &[Rpc]) -> String {
    let mut out = "/// Calls `$with!` with a row for each rpc that the leader executes:
/// `write ApplyRequest;` or `leader_read TopRequest;`.
#[macro_export]
macro_rules! leader_rpcs {
    ($with:ident) => {
        $with! {
"
    .to_owned();
    for rpc in rpcs.iter().filter(|rpc| rpc.is_led()) {
        writeln!(out, "            {} {};", rpc.verb(), rpc.request).expect("a string takes all");
    }
    out + "        }\n    };\n}\n\n"
}

fn led_by_service(rpcs: &[Rpc]) -> String {
    let mut out =
        "/// Calls `$with!` with a row for each rpc of one service that the leader executes and
/// that needs a credential: `write set_labels(SetLabelsRequest);`.
#[macro_export]
macro_rules! leader_methods {
"
        .to_owned();
    for service in services(rpcs) {
        writeln!(out, "    ({service}, $with:ident) => {{\n        $with! {{")
            .expect("a string takes all");
        let led = |rpc: &&Rpc| rpc.is_led() && rpc.access == "CREDENTIAL";
        for rpc in rpcs.iter().filter(|rpc| rpc.service == service).filter(led) {
            let (verb, name, request) = (rpc.verb(), snake(&rpc.name), &rpc.request);
            writeln!(out, "            {verb} {name}({request});").expect("a string takes all");
        }
        out.push_str("        }\n    };\n");
    }
    out + "}\n\n"
}

fn client(rpcs: &[Rpc]) -> String {
    let mut out = "/// Calls `$with!` with each service that users call, its rpcs with one response, and those with
/// a stream of them. Rpcs that take a stream of requests are not listed.
#[macro_export]
macro_rules! client_rpcs {
    ($with:ident) => {
        $with! {
"
    .to_owned();
    for service in services(rpcs) {
        let mine = || rpcs.iter().filter(|rpc| rpc.service == service && rpc.has_client());
        if mine().next().is_none() {
            continue;
        }
        writeln!(out, "            {service} {service}Client {service}Server {{")
            .expect("a string takes all");
        for rpc in mine().filter(|rpc| !rpc.server_streaming) {
            let deadline = if rpc.slow { "LONG" } else { "SHORT" };
            row(&mut out, rpc, deadline);
        }
        out.push_str("            } {\n");
        for rpc in mine().filter(|rpc| rpc.server_streaming) {
            row(&mut out, rpc, &format!("{}Stream", rpc.name));
        }
        out.push_str("            }\n");
    }
    out + "        }\n    };\n}\n"
}

fn row(out: &mut String, rpc: &Rpc, last: &str) {
    for line in &rpc.doc {
        writeln!(out, "                /// {line}").expect("a string takes all");
    }
    let (name, request, response) = (snake(&rpc.name), &rpc.request, &rpc.response);
    writeln!(out, "                {name}({request}) -> {response}, {last};")
        .expect("a string takes all");
}

fn services(rpcs: &[Rpc]) -> Vec<&str> {
    let mut services: Vec<&str> = rpcs.iter().map(|rpc| rpc.service.as_str()).collect();
    services.dedup();
    services
}

/// `LEADER_READ` as `LeaderRead`.
fn camel(name: &str) -> String {
    let word = |word: &str| word[..1].to_owned() + &word[1..].to_lowercase();
    name.split('_').map(word).collect()
}

/// `SetLabels` as `set_labels`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
