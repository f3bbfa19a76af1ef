//! A value of a key, from the key table: every shape in each of its forms, and for the keys whose
//! values mean something, the values that they take.

use jaco_compose::support::{Class, Key, Object, Shape, Short, Unique};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

/// Which keys a generated file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// All of the specification.
    All,
    /// Those that a cluster takes.
    Supported,
}

/// What a value may refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) keys: Keys,
    /// Services that may be depended on, so that there is no circle.
    pub(crate) targets: &'static [&'static str],
}

pub(crate) fn text() -> BoxedStrategy<String> {
    let awkward = [
        "",
        " ",
        "yes",
        "no",
        "~",
        "null",
        "1",
        "0x1f",
        "1e3",
        ".inf",
        "1:2",
        "a: b",
        "- a",
        "#x",
        "'",
        "\"",
        "\\",
        "$",
        "$$",
        "${A}",
        "%x",
        "@x",
        "`x`",
        "\u{e9}",
        "\u{1f600}",
        "a\nb",
        "a\n",
        "\t",
        "{a}",
        "[a]",
        "!x",
        "&a",
        "*a",
        "|",
        ">",
        "?",
        "<<",
        "a=b",
        "a=b=c",
    ];
    prop_oneof![
        3 => "[a-z]{1,6}",
        1 => proptest::sample::select(awkward.to_vec()).prop_map(str::to_owned),
        1 => "[ -~\u{e9}\n\t]{0,12}",
    ]
    .boxed()
}

pub(super) fn one_of(texts: &[&str]) -> BoxedStrategy<Json> {
    let texts: Vec<Json> = texts.iter().map(|text| json!(text)).collect();
    proptest::sample::select(texts).boxed()
}

fn any_text() -> BoxedStrategy<Json> {
    text().prop_map(Json::from).boxed()
}

fn name() -> &'static str {
    "[A-Za-z_][A-Za-z0-9_.$]{0,5}"
}

fn scalar() -> BoxedStrategy<Json> {
    prop_oneof![
        any_text(),
        (0..100_i64).prop_map(Json::from),
        any::<bool>().prop_map(Json::from),
        Just(json!(1.5)),
        Just(Json::Null),
    ]
    .boxed()
}

/// A value of `shape` at `path`, such as `services.*.volumes[].bind`.
pub(super) fn value(shape: &'static Shape, path: &str, scope: Scope) -> BoxedStrategy<Json> {
    if let Some(meant) = super::meanings::value(path, scope) {
        return meant;
    }
    match shape {
        Shape::Any | Shape::Text | Shape::Label => scalar(),
        Shape::Str => any_text(),
        Shape::Path => one_of(&["./a", "a/b", "/abs/a", "../up/a", "a/./b/../c"]),
        Shape::OrNull(inner) => {
            prop_oneof![1 => Just(Json::Null), 4 => value(inner, path, scope)].boxed()
        }
        Shape::StrOrNum => prop_oneof![any_text(), (0..1_000_i64).prop_map(Json::from)].boxed(),
        Shape::Bool => {
            let texts = one_of(&["true", "false", "yes", "no", "on", "off"]);
            prop_oneof![3 => any::<bool>().prop_map(Json::from), 1 => texts].boxed()
        }
        Shape::Int => {
            let number = || 0..=1_000_i64;
            prop_oneof![3 => number().prop_map(Json::from), 1 => number().prop_map(|n| json!(n.to_string()))]
                .boxed()
        }
        Shape::Number => prop_oneof![
            (0..8_i64).prop_map(Json::from),
            (0..32_u8).prop_map(|quarters| json!(f64::from(quarters) / 4.0)),
            one_of(&["0.5", "2", "1.250"]),
        ]
        .boxed(),
        Shape::Duration => {
            one_of(&["0s", "10ms", "1m30s", "90s", "1h", "1.5s", "36h", "250us", "60m"])
        }
        Shape::Bytes => {
            let texts = one_of(&["64m", "1g", "512", "1.5gb", "16KiB", "1b", "0"]);
            prop_oneof![texts, (0..1_i64 << 40).prop_map(Json::from)].boxed()
        }
        Shape::BytesText => one_of(&["64m", "1g", "512", "1.5gb", "16KiB", "1b"]),
        Shape::Mode => prop_oneof![
            one_of(&["0444", "0o400", "640", "0"]),
            (0..0o7777_i64).prop_map(Json::from)
        ]
        .boxed(),
        Shape::OneOf(known) => one_of(known),
        Shape::Count => prop_oneof![Just(json!("all")), (-1..9_i64).prop_map(Json::from)].boxed(),
        Shape::List(item, unique) => list(item, *unique, path, scope),
        Shape::OneOrList(item, unique) => {
            let one = value(item, &format!("{path}[]"), scope);
            prop_oneof![one, list(item, *unique, path, scope)].boxed()
        }
        Shape::Command => command(),
        Shape::Pairs(inner) => pairs(inner, path, scope),
        Shape::Map(inner, _) => map(value(inner, path, scope)),
        Shape::MapOrNull(inner, _) => {
            map(prop_oneof![Just(Json::Null), value(inner, path, scope)].boxed())
        }
        Shape::Object(keys) => object(keys, path, scope),
        Shape::IntOr(keys) => {
            prop_oneof![(0..1_000_i64).prop_map(Json::from), object(keys, path, scope)].boxed()
        }
        Shape::Short(form, long) => {
            let long = value(long, path, scope);
            match short(*form, scope) {
                // Their long form is a list whose texts have a form of their own.
                Some(short) if matches!(form, Short::ExtraHosts | Short::Test) => short,
                Some(short) => prop_oneof![short, long].boxed(),
                None => long,
            }
        }
    }
}

/// A mapping with some of its keys; those that the table requires are always there.
pub(super) fn object(object: &'static Object, path: &str, scope: Scope) -> BoxedStrategy<Json> {
    let taken = |key: &&Key| scope.keys == Keys::All || key.class != Class::Rejected;
    let few = if object.keys.len() > 40 { 0.12 } else { 0.6 };
    let member = |key: &'static Key| {
        let value = value(&key.shape, &format!("{path}.{}", key.name), scope);
        let value = if object.required.contains(&key.name) {
            value.prop_map(Some).boxed()
        } else {
            proptest::option::weighted(few, value).boxed()
        };
        value.prop_map(move |value| value.map(|value| (key.name.to_owned(), value))).boxed()
    };
    let members: Vec<_> = object.keys.iter().filter(taken).map(member).collect();
    members.prop_map(|members| Json::Object(members.into_iter().flatten().collect())).boxed()
}

fn list(item: &'static Shape, unique: Unique, path: &str, scope: Scope) -> BoxedStrategy<Json> {
    let item = value(item, &format!("{path}[]"), scope);
    if unique != Unique::Strict {
        return vec(item, 0..3).prop_map(Json::from).boxed();
    }
    btree_set("[a-z]{1,5}", 0..3).prop_map(Json::from_iter).boxed()
}

fn map(value: BoxedStrategy<Json>) -> BoxedStrategy<Json> {
    btree_map(name(), value, 0..3)
        .prop_map(|map| Json::Object(map.into_iter().collect::<Map<_, _>>()))
        .boxed()
}

fn command() -> BoxedStrategy<Json> {
    let lines = one_of(&["run", "run --fast 'a b'", "sh -c \"x; y\"", "", "a\\ b"]);
    let words = vec(any_text(), 0..4).prop_map(Json::from);
    prop_oneof![Just(Json::Null), lines, words].boxed()
}

/// A mapping, or the same as lines; a line without a value has no `=`.
fn pairs(inner: &'static Shape, path: &str, scope: Scope) -> BoxedStrategy<Json> {
    let lines = btree_map(name(), proptest::option::of(text()), 0..3).prop_map(|map| {
        let line = |(key, text): (String, Option<String>)| match text {
            Some(text) => format!("{key}={text}"),
            None => key,
        };
        map.into_iter().map(line).map(Json::from).collect::<Json>()
    });
    prop_oneof![map(value(inner, path, scope)), lines].boxed()
}

/// The short form, if it is more than the long one in another notation.
fn short(form: Short, scope: Scope) -> Option<BoxedStrategy<Json>> {
    let names = |known: &'static [&'static str]| {
        proptest::sample::subsequence(known, 0..=known.len()).prop_map(|names| json!(names)).boxed()
    };
    Some(match form {
        Short::Build => one_of(&[".", "./dir", "/abs", "https://example.com/x.git"]),
        Short::DependsOn => names(scope.targets),
        Short::Device => one_of(&["/dev/a", "/dev/a:/dev/b", "/dev/a:/dev/b:r", "v.com/class=x"]),
        Short::Extends => one_of(&["base"]),
        Short::External => Just(json!({"name": "outside"})).boxed(),
        Short::ExtraHosts => prop_oneof![
            Just(json!({"a": "1.2.3.4", "b": ["1.1.1.1", "::1"]})),
            Just(json!(["a:1.2.3.4", "b=[::1]", "c = host-gateway"])),
        ]
        .boxed(),
        Short::Gpus => one_of(&["all"]),
        Short::Include => one_of(&["more.yaml"]),
        Short::Models => names(&["llm", "tiny"]),
        Short::Networks => names(&["n", "m", "default"]),
        Short::Ports => super::meanings::ports(),
        Short::Test => prop_oneof![
            any_text(),
            Just(json!(["NONE"])),
            vec(any_text(), 0..3).prop_map(|mut words| {
                words.insert(0, json!("CMD"));
                Json::from(words)
            }),
        ]
        .boxed(),
        // What they refer to differs from place to place; see the meanings.
        Short::EnvFile | Short::FileMount | Short::Volume => return None,
    })
}
