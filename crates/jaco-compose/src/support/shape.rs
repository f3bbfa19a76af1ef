//! The vocabulary of the key tables: classes of support, shapes of values, short forms.

use crate::yaml::key::Wanted;

/// How JACO treats a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Works as the specification says.
    Honoured,
    /// Works, but in another way than on a single host; using it gives a warning.
    Differently,
    /// Is accepted without effect; using it gives a warning.
    Ignored,
    /// Is refused.
    Rejected,
}

impl Class {
    /// The class as users see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Differently => "honoured differently",
            Self::Ignored => "ignored",
            Self::Rejected => "rejected",
        }
    }
}

/// One key: its name, the values it takes, and how JACO treats it.
#[derive(Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// The same, for searches.
    wanted: Wanted<'static>,
    /// What values it takes.
    pub shape: Shape,
    /// How JACO treats it.
    pub class: Class,
    /// One sentence for users; for a refused key also what to write instead.
    pub note: &'static str,
}

/// A mapping with known keys.
#[derive(Debug)]
pub struct Object {
    /// The keys, sorted by name.
    pub keys: &'static [Key],
    /// Whether keys that begin with `x-` may stand beside them.
    pub extensions: Extensions,
    /// Keys that must be there in every file.
    pub required: &'static [&'static str],
}

/// Whether `x-` keys are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extensions {
    /// They are kept and mean nothing to JACO.
    Kept,
    /// They are unknown keys.
    Refused,
}

/// When two items of a list are the same item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    /// Never: the list may repeat itself.
    Free,
    /// A repeated value is a mistake.
    Strict,
    /// A repeated value is taken once.
    Once,
    /// The later one of two items with the same text below this key stays.
    By(&'static str),
    /// The later one of two file mounts stays; without a target they go to this folder.
    ByMount(&'static str),
    /// The later one of two ports with equal address, number and protocol stays.
    ByPort,
}

/// Whether the names of a mapping are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Any text.
    Any,
    /// Letters, digits, `.`, `_`, `-`.
    Plain,
}

/// A short way of writing something, expanded before the long form is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// `build: DIR`.
    Build,
    /// `depends_on: [a, b]`.
    DependsOn,
    /// `devices: ["/dev/x:/dev/y:rw"]`, one item.
    Device,
    /// `env_file: a.env`, one item of a list or the only one.
    EnvFile,
    /// `extends: base`.
    Extends,
    /// `external: {name: x}`.
    External,
    /// `extra_hosts: {a: 1.2.3.4}`.
    ExtraHosts,
    /// `configs: [a]` and `secrets: [a]`, one item.
    FileMount,
    /// `gpus: all`.
    Gpus,
    /// `include: [a.yaml]`, one item.
    Include,
    /// `networks: [a]`.
    Networks,
    /// `ports: ["80:80"]`, the whole list, because one text can be many ports.
    Ports,
    /// `test: curl …`.
    Test,
    /// `models: [a]`.
    Models,
    /// `volumes: ["./a:/b"]`, one item.
    Volume,
}

/// What values a key takes, and what they are turned into.
#[derive(Debug)]
pub enum Shape {
    /// Anything, left alone.
    Any,
    /// A text.
    Str,
    /// A text that is a path relative to the project folder.
    Path,
    /// Such a value, or nothing.
    OrNull(&'static Self),
    /// A text or a number; becomes a text.
    StrOrNum,
    /// A text, number, truth value or nothing; becomes a text, or stays nothing.
    Text,
    /// The same, where nothing becomes an empty text.
    Label,
    /// A truth value, or a text that means one.
    Bool,
    /// A whole number, or a text that means one.
    Int,
    /// A number, or a text that means one.
    Number,
    /// A length of time such as `1m30s`.
    Duration,
    /// A number of bytes such as `64m`; becomes a text of digits.
    Bytes,
    /// The same, where a bare number is a mistake.
    BytesText,
    /// A file mode such as `0444`; becomes a text of octal digits.
    Mode,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A whole number or `all`, which becomes -1.
    Count,
    /// A list of such values.
    List(&'static Self, Unique),
    /// One such text, or a list of them; becomes a list.
    OneOrList(&'static Self, Unique),
    /// A command line as text or list; becomes a list.
    Command,
    /// `{k: v}` or `["k=v"]`; becomes a mapping.
    Pairs(&'static Self),
    /// A mapping with names that the user chooses.
    Map(&'static Self, Names),
    /// The same, where an entry may be left empty.
    MapOrNull(&'static Self, Names),
    /// A mapping with known keys.
    Object(&'static Object),
    /// A short form, expanded and then checked.
    Short(Short, &'static Self),
    /// A whole number or such a mapping.
    IntOr(&'static Object),
}

pub(crate) const fn key(name: &'static str, class: Class, shape: Shape, note: &'static str) -> Key {
    Key { name, wanted: Wanted::new(name), shape, class, note }
}

/// A mapping with known keys where `x-` keys are kept.
pub(crate) const fn object(keys: &'static [Key]) -> Object {
    Object { keys, extensions: Extensions::Kept, required: &[] }
}

/// Where the keys inside of a value are, for a walk of a tree along the tables.
#[derive(Debug, Clone, Copy)]
pub enum Inside {
    /// There are none.
    Nothing,
    /// In the value itself, which has this shape once it is expanded.
    Itself(&'static Shape),
    /// In each item of a list.
    Items(&'static Shape),
    /// In each value of a mapping with free names.
    Values(&'static Shape),
    /// They are these.
    Keys(&'static Object),
}

impl Shape {
    /// Where the keys inside of a value of this shape are.
    #[must_use]
    pub fn inside(&'static self) -> Inside {
        match self {
            Self::Short(_, inner) | Self::OrNull(inner) => Inside::Itself(inner),
            Self::List(item, _) | Self::OneOrList(item, _) => Inside::Items(item),
            Self::Map(value, _) | Self::MapOrNull(value, _) => Inside::Values(value),
            Self::Object(object) | Self::IntOr(object) => Inside::Keys(object),
            Self::Any
            | Self::Str
            | Self::Path
            | Self::StrOrNum
            | Self::Text
            | Self::Label
            | Self::Bool
            | Self::Int
            | Self::Number
            | Self::Duration
            | Self::Bytes
            | Self::BytesText
            | Self::Mode
            | Self::OneOf(_)
            | Self::Count
            | Self::Command
            | Self::Pairs(_) => Inside::Nothing,
        }
    }
}

impl Object {
    /// The entry of `name`.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.search(name.into())
    }

    /// The entry of what is a key already.
    pub(crate) fn search(&self, wanted: Wanted<'_>) -> Option<&'static Key> {
        let first = self.keys.partition_point(|key| key.wanted.prefix() < wanted.prefix());
        let alike =
            self.keys[first..].iter().take_while(|key| key.wanted.prefix() == wanted.prefix());
        alike.into_iter().find(|key| wanted.compare(key.wanted).is_eq())
    }
}
