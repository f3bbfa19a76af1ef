//! Rules about an attribute of a node.

/// What must hold of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    /// The attribute that is looked at.
    pub attribute: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what; of no effect with [`Operator::IsSet`] and [`Operator::IsNotSet`].
    pub value: String,
}

/// How an attribute is compared with a value. A node without the attribute satisfies only `!=` and
/// `is_not_set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `=`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`: as integers where both are, else as text; likewise the three below.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `is_set`: the node has the attribute.
    IsSet,
    /// `is_not_set`: it has not.
    IsNotSet,
    /// `version`: the attribute is a version in the ranges of the value, as `>= 1.2, < 2`.
    Version,
    /// `semver`: likewise, for versions as Semantic Versioning 2.0 writes and orders them.
    Semver,
    /// `regexp`: the value, a regular expression, matches somewhere in the attribute.
    Regexp,
    /// `set_contains`: the attribute, a list with commas, has all of the value's members.
    SetContains,
    /// `set_contains_any`: it has one of them.
    SetContainsAny,
}

impl Operator {
    /// Every operator.
    pub const ALL: &[Self] = &[
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
        Self::IsSet,
        Self::IsNotSet,
        Self::Version,
        Self::Semver,
        Self::Regexp,
        Self::SetContains,
        Self::SetContainsAny,
    ];

    /// Reads an operator as users write it; `==` is another spelling of `=`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "==" {
            return Some(Self::Equal);
        }
        Self::ALL.iter().copied().find(|operator| operator.as_str() == text)
    }

    /// The operator as users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::IsSet => "is_set",
            Self::IsNotSet => "is_not_set",
            Self::Version => "version",
            Self::Semver => "semver",
            Self::Regexp => "regexp",
            Self::SetContains => "set_contains",
            Self::SetContainsAny => "set_contains_any",
        }
    }
}
