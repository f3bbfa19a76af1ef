//! The operators of constraints: each with what it holds of and what not, for every way in which a value
//! can be written (R-CONS-7).

use jaco_scheduler::attribute::{check, holds, is_built_in, label_key, value_of};
use jaco_state::command::NodeSetLabels;
use jaco_types::Node;
use jaco_types::spec::Operator;
use proptest::prelude::*;

use crate::cluster::{Cluster, constraint, resources};

/// A node whose label `x` has this value, or that has none.
fn node(value: Option<&str>) -> Node {
    let mut cluster = Cluster::empty();
    let labels: Vec<_> = value.iter().map(|value| ("x", *value)).collect();
    cluster.join_as("n1", resources(0, 0), &labels);
    cluster.state.nodes.values().next().unwrap().clone()
}

fn is(value: Option<&str>, operator: Operator, wanted: &str) -> bool {
    holds(&node(value), &constraint("x", operator, wanted))
}

/// Each case: the node's value, what is asked for, and the operators that hold of it.
#[test]
fn comparisons() {
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let all = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual];
    for (value, wanted, expected) in [
        ("5", "5", "= <= >="),
        ("5", "6", "!= < <="),
        ("6", "5", "!= > >="),
        // As integers where both are, whatever their length.
        ("9", "10", "!= < <="),
        ("-2", "-10", "!= > >="),
        ("007", "7", "!= <= >="),
        ("+7", "7", "!= <= >="),
        // As text where one is none.
        ("9", "10a", "!= > >="),
        ("a", "b", "!= < <="),
        ("b", "a", "!= > >="),
        ("a", "A", "!= > >="),
        ("", "", "= <= >="),
        ("", "a", "!= < <="),
        ("1.5", "1.10", "!= > >="),
        ("10000000000000000000", "9", "!= < <="),
        ("9223372036854775807", "9", "!= > >="),
    ] {
        let holding: Vec<_> = all
            .iter()
            .filter(|operator| is(Some(value), **operator, wanted))
            .map(|operator| operator.as_str())
            .collect();
        assert_eq!(holding.join(" "), expected, "{value:?} and {wanted:?}");
    }
}

/// A node that lacks the attribute differs from every value, and is not set; nothing else holds of it.
#[test]
fn absent_attributes() {
    for operator in Operator::ALL {
        let expected = matches!(operator, Operator::NotEqual | Operator::IsNotSet);
        for wanted in ["", "a", "5", ".*", ">= 0"] {
            assert_eq!(is(None, *operator, wanted), expected, "{operator:?} {wanted:?}");
        }
    }
    for value in ["", "a", "0"] {
        assert!(is(Some(value), Operator::IsSet, ""), "{value:?}");
        assert!(!is(Some(value), Operator::IsNotSet, ""), "{value:?}");
        assert!(is(Some(value), Operator::IsSet, "ignored"), "{value:?}");
    }
}

#[test]
fn sets() {
    for (value, wanted, all, any) in [
        ("a,b,c", "a", true, true),
        ("a,b,c", "c,a", true, true),
        ("a, b ,c", " b,a ", true, true),
        ("a,b", "a,d", false, true),
        ("a,b", "d", false, false),
        ("ab", "a", false, false),
        ("a", "a,a", true, true),
        ("", "a", false, false),
        ("a", "", true, false),
        ("a", ",", true, false),
        ("A", "a", false, false),
    ] {
        assert_eq!(is(Some(value), Operator::SetContains, wanted), all, "{value:?} {wanted:?}");
        assert_eq!(is(Some(value), Operator::SetContainsAny, wanted), any, "{value:?} {wanted:?}");
    }
}

#[test]
fn patterns() {
    for (value, pattern, expected) in [
        ("web-12", "^web-[0-9]+$", true),
        ("web-12", "[0-9]", true),
        ("web-12", "^[0-9]", false),
        ("web-12", "WEB", false),
        ("web-12", "(?i)WEB", true),
        ("", "^$", true),
        ("", ".", false),
        ("web", "(", false),
        ("web", "", true),
    ] {
        assert_eq!(is(Some(value), Operator::Regexp, pattern), expected, "{value:?} {pattern:?}");
    }
    for (pattern, problem) in [
        ("(", "\"(\" is no regular expression, or one for more than ASCII"),
        ("\\p{Greek}", "\"\\\\p{Greek}\" is no regular expression, or one for more than ASCII"),
        ("((a{99}){99}){99}", "the pattern \"((a{99}){99}){99}\" takes more than 65536 bytes"),
    ] {
        let unusable = check(&constraint("x", Operator::Regexp, pattern)).unwrap_err();
        assert_eq!(unusable.to_string(), problem);
    }
    let long = "a".repeat(257);
    let unusable = check(&constraint("x", Operator::Regexp, &long)).unwrap_err();
    assert_eq!(unusable.to_string(), "the pattern is longer than 256 bytes");
    assert_eq!(check(&constraint("x", Operator::Regexp, &"a".repeat(256))), Ok(()));
}

/// Versions in ranges, of which all have to hold; what is no version is in none.
#[test]
fn versions() {
    for (version, ranges, expected) in [
        ("28.1.0", ">= 28", true),
        ("28.1.0", "> 28.1", false),
        ("28.1.0", ">= 28.1, < 29", true),
        ("28.1.0", ">= 28.1, < 28.1", false),
        ("28.1.0", "28.1", true),
        ("28.1.0", "= 28.1.0.0", true),
        ("28.1.0", "!= 28.1", false),
        ("28.1.0", "!= 28.2", true),
        ("28.1.0", "<= 28.1", true),
        ("28.1.1", "<= 28.1", false),
        ("v1.2", "v1.2.0", true),
        ("1.2.3.4", "> 1.2.3", true),
        ("1.10", "> 1.9", true),
        ("1.2-rc1", "< 1.2", true),
        ("1.2-rc1", "> 1.1", true),
        ("1.2+build", "1.2", true),
        ("1.2.3.4.5", ">= 0", false),
        ("1..2", ">= 0", false),
        ("", ">= 0", false),
        ("latest", ">= 0", false),
        ("1.2", "", false),
        ("1.2", "~> 1.2", false),
        ("1.2", ">= 1, about 2", false),
        ("18446744073709551616", ">= 0", false),
    ] {
        assert_eq!(is(Some(version), Operator::Version, ranges), expected, "{version} {ranges}");
    }
    for (operator, ranges, problem) in [
        (Operator::Version, "~> 1", "\"~> 1\" is no list of versions, as >= 1.2, < 2"),
        (Operator::Version, "", "\"\" is no list of versions, as >= 1.2, < 2"),
        (Operator::Semver, "1.2", "\"1.2\" is no list of versions, as >= 1.2.0, < 2.0.0"),
        (Operator::Semver, ">=", "\">=\" is no list of versions, as >= 1.2.0, < 2.0.0"),
    ] {
        let unusable = check(&constraint("x", operator, ranges)).unwrap_err();
        assert_eq!(unusable.to_string(), problem);
    }
    assert_eq!(check(&constraint("x", Operator::Semver, ">= 1.2.0-rc.1, != 1.3.0")), Ok(()));
}

/// Semantic versions are whole, and pre-releases are compared part by part.
#[test]
fn semantic_versions() {
    for (version, ranges, expected) in [
        ("1.2.3", ">= 1.2.3", true),
        ("1.2.3", "< 1.2.3", false),
        ("1.2.3", "1.2.3+any", true),
        ("1.2.3-2", "< 1.2.3-10", true),
        ("1.2.3-2", "< 1.2.3-a", true),
        ("1.2.3-a", "< 1.2.3-a.1", true),
        ("1.2.3-rc.1", "< 1.2.3", true),
        ("1.2.3-rc.1", ">= 1.2.3", false),
        ("v1.2.3", ">= 0.0.0", false),
        ("1.2", ">= 0.0.0", false),
        ("01.2.3", ">= 0.0.0", false),
        ("1.2.3-", ">= 0.0.0", false),
        ("1.2.3-a..b", ">= 0.0.0", false),
        ("1.2.3-ä", ">= 0.0.0", false),
    ] {
        assert_eq!(is(Some(version), Operator::Semver, ranges), expected, "{version} {ranges}");
    }
}

/// However an attribute is written, it is one; only what the node itself is goes before its labels.
#[test]
fn attributes_have_several_spellings() {
    let mut cluster = Cluster::empty();
    let id = cluster.join_as("n1", resources(3000, 5 << 30), &[("zone", "a"), ("hostname", "no")]);
    cluster.commit(NodeSetLabels::new(id).set([("zone".to_owned(), "b".to_owned())].into()).into());
    let node = cluster.state.nodes.get(&id).unwrap();
    for spelling in ["zone", "node.zone", "meta.zone", "${zone}", "${node.zone}", "${ meta.zone }"]
    {
        assert_eq!(value_of(node, spelling).as_deref(), Some("b"), "{spelling}");
        assert_eq!(label_key(spelling), "zone", "{spelling}");
        assert!(!is_built_in(spelling), "{spelling}");
    }
    for spelling in ["Zone", "node.Zone", "${zone", "zone}", "node zone", ""] {
        assert_eq!(value_of(node, spelling), None, "{spelling:?}");
    }
    assert_eq!(value_of(node, "node.hostname").as_deref(), Some("n1"));
    assert_eq!(value_of(node, "meta.hostname").as_deref(), Some("no"));
    assert_eq!(value_of(node, "${node.reservable_cpu_millis}").as_deref(), Some("3000"));
    assert_eq!(value_of(node, "node.reservable_memory_mib").as_deref(), Some("5120"));
    assert_eq!(value_of(node, "meta.reservable_cpu_millis"), None, "there is no such label");
}

proptest! {
    /// Of each pair of opposites exactly one holds, of any value that is there.
    #[test]
    fn opposites_exclude_each_other(value in "[0-9a-c.,-]{0,4}", wanted in "[0-9a-c.,-]{0,4}") {
        let node = node(Some(&value));
        let is = |operator| holds(&node, &constraint("x", operator, &wanted));
        prop_assert_ne!(is(Operator::Equal), is(Operator::NotEqual));
        prop_assert_ne!(is(Operator::Less), is(Operator::GreaterOrEqual));
        prop_assert_ne!(is(Operator::Greater), is(Operator::LessOrEqual));
        prop_assert!(is(Operator::IsSet) && !is(Operator::IsNotSet));
        prop_assert!(!is(Operator::Equal) || (is(Operator::LessOrEqual) && is(Operator::GreaterOrEqual)));
    }

    /// Whatever is asked for, the answer is yes or no, also where it is not usable.
    #[test]
    fn any_text_is_answered(
        value in "\\PC{0,12}", wanted in "\\PC{0,12}", operator in 0..Operator::ALL.len(),
    ) {
        let asked = constraint("x", Operator::ALL[operator], &wanted);
        let answer = holds(&node(Some(&value)), &asked);
        prop_assert!(check(&asked).is_ok() || !answer, "what cannot be used holds of nothing");
    }
}
