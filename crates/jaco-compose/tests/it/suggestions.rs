//! Names that are suggested for mistyped ones: the one that was meant, or none. R-IN-1, R-IN-3.

use jaco_compose::{Environment, nearest};
use proptest::prelude::*;

use crate::util::{load_text, problems_of};

/// One slip of the fingers in a word.
fn slip(word: &str, kind: u8, at: usize, letter: char) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    match kind {
        0 => letters[at] = letter,
        1 => letters.insert(at, letter),
        2 => _ = letters.remove(at),
        _ => letters.swap(at, (at + 1) % word.len()),
    }
    letters.into_iter().collect()
}

proptest! {
    /// One letter that is wrong, missing, too many or swapped with the next one is understood, in any case of letters;
    /// words that share nothing with it are not suggested.
    #[test]
    fn one_slip_is_understood(
        word in "[a-m]{4,12}",
        others in prop::collection::vec("[n-z]{4,12}", 0..4),
        kind in 0..4_u8,
        at in any::<prop::sample::Index>(),
        letter in "[a-m]",
        loud in any::<bool>(),
    ) {
        let last = if kind == 3 { word.len() - 1 } else { word.len() };
        let wrong = slip(&word, kind, at.index(last), letter.chars().next().unwrap());
        let wrong = if loud { wrong.to_ascii_uppercase() } else { wrong };
        let known = others.iter().map(String::as_str).chain([word.as_str()]);
        // Two letters that are swapped and loud are two wrong letters.
        prop_assume!(!(loud && kind == 3 && word.len() < 6));
        prop_assert_eq!(nearest(&wrong, known), Some(word.as_str()), "{}", wrong);
        prop_assert_eq!(nearest(&wrong, others.iter().map(String::as_str)), None);
    }

    /// What is suggested does not depend on the order of what is known, and a name is nearest to itself.
    #[test]
    fn the_order_of_names_means_nothing(wrong in "[ab_]{1,6}", mut known in prop::collection::vec("[ab_]{1,6}", 1..5)) {
        let found = nearest(&wrong, known.iter().map(String::as_str)).map(str::to_owned);
        known.reverse();
        prop_assert_eq!(nearest(&wrong, known.iter().map(String::as_str)), found.as_deref());
        let with_itself = known.iter().map(String::as_str).chain([wrong.as_str()]);
        prop_assert_eq!(nearest(&wrong, with_itself), Some(wrong.as_str()));
    }
}

/// How far away a name may be grows with its length; of names that are equally near the one that shares a word wins.
#[test]
fn suggestions_have_a_distance() {
    let near = |wrong: &str, known: &[&'static str]| nearest(wrong, known.iter().copied());
    for (wrong, known, expected) in [
        ("ab", ["ac"].as_slice(), Some("ac")),
        ("ab", &["cd"], None),
        ("abcde", &["abcXY"], None),
        ("abcdef", &["abcdXY"], Some("abcdXY")),
        ("abcdef", &["abcXYZ"], None),
        ("a", &["b"], None),
        ("ab", &["b"], None),
        ("ba", &["ab"], Some("ab")),
        ("mem_limits", &["mem_limit", "men_limits"], Some("mem_limit")),
        ("pre_start", &["restart", "post_start"], Some("post_start")),
    ] {
        assert_eq!(near(wrong, known), expected, "{wrong} of {known:?}");
    }
}

/// A hostile file cannot make suggestions expensive: long names and names far down a list are not compared.
#[test]
fn suggestions_have_a_cost() {
    let name = |length: usize| format!("{}x", "a".repeat(length - 1));
    for (length, expected) in [(64, true), (65, false)] {
        let (wrong, known) = (name(length), "a".repeat(length));
        assert_eq!(nearest(&wrong, [known.as_str()].into_iter()).is_some(), expected, "{length}");
    }
    let many: Vec<String> = (0..500).map(|number| format!("{number:0>12}")).collect();
    for (before, expected) in [(499, Some("database")), (500, None)] {
        let known = many.iter().take(before).map(String::as_str).chain(["database"]);
        assert_eq!(nearest("databse", known), expected, "behind {before}");
    }
}

/// R-RES-2: a table of a service that the project does not have is told where its name stands, each of them.
#[test]
fn tables_of_unknown_services_are_told() {
    let project = load_text("services: {web: {image: i}, database: {image: i}}").unwrap().project;
    let text = "[web]\ncpu = 1\n\n[ databse ]\n\n[cache.x]\n";
    let wrong = Environment::parse("jaco.services.toml", text.as_bytes());
    assert_eq!(
        problems_of(&wrong.unwrap_err()),
        "6:2 error wrong_type: `x` of `cache` has the type table\n  expected a string, a number or a boolean"
    );
    let text = text.replace("[cache.x]", "[cache]");
    let environment = Environment::parse("jaco.services.toml", text.as_bytes()).unwrap();
    let problems = environment.check(&project).unwrap_err();
    assert_eq!(
        problems_of(&problems),
        "4:3 error unknown_service: the compose file has no service `databse`\n  help did you mean `database`?\n\
         6:2 error unknown_service: the compose file has no service `cache`"
    );
    assert_eq!(problems.list[0].file, "jaco.services.toml");
    assert_eq!(problems.list[0].snippet, "[ databse ]");
    let fine = Environment::parse("jaco.services.toml", b"[web]\n[database]\n").unwrap();
    assert_eq!(fine.check(&project), Ok(()));
}

/// R-RES-5: every kind of value is a text, and every name a variable's.
#[test]
fn values_of_environments_are_texts() {
    let text = "[web]\na = \"x y\"\nb = 7\nc = 1.50\nd = false\n\n['my.db-1']\n'a b' = 0x10\n";
    let environment = Environment::parse("jaco.services.toml", text.as_bytes()).unwrap();
    let variables: Vec<String> = environment
        .variables()
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        variables,
        [
            "JACO_MY_DB_1_A_B=16",
            "JACO_WEB_A=x y",
            "JACO_WEB_B=7",
            "JACO_WEB_C=1.5",
            "JACO_WEB_D=false"
        ]
    );
    let names: Vec<_> = environment.values().map(|(name, values)| (name, values.len())).collect();
    assert_eq!(names, [("my.db-1", 1), ("web", 4)]);
    for (value, kind) in [("[1]", "array"), ("{a = 1}", "table"), ("1979-05-27", "datetime")] {
        let text = format!("[web]\nk = {value}\n");
        let problems = Environment::parse("e.toml", text.as_bytes()).unwrap_err();
        assert_eq!(problems.list[0].message, format!("`k` of `web` has the type {kind}"));
    }
    for bytes in [b"[web]\nk = \"\xff\"\n".as_slice(), b"\xff"] {
        let problems = Environment::parse("e.toml", bytes).unwrap_err();
        assert_eq!(problems_of(&problems), "0:0 error not_text: the file is not UTF-8");
    }
    assert_eq!(jaco_compose::environment::file_name(None), "jaco.services.toml");
    assert_eq!(jaco_compose::environment::file_name(Some("prod")), "jaco.services.prod.toml");
}
