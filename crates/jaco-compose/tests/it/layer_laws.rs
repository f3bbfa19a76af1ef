//! Laws of overrides, `extends`, merge tags and profiles, over every key of a service. R-IN-2, R-IN-3.

use std::collections::BTreeSet;

use jaco_compose::{EnvFiles, Input, Problems, Project, load};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::laws::{alike, broken, law, loaded, plain, text};
use crate::schema::input;
use crate::schema::values::Keys;
use crate::util::folder;

/// Lays a text over a generated file.
fn over(file: &Json, over: String) -> Result<Project, Problems> {
    let input = Input {
        files: vec!["compose.yaml".to_owned(), "over.yaml".to_owned()],
        ..input("compose.yaml")
    };
    loaded(&input, &[("compose.yaml", text(file)), ("over.yaml", over)])
}

/// Both are refused, or both are accepted and the same.
fn agree(
    one: Result<Project, Problems>,
    other: Result<Project, Problems>,
) -> Result<(), TestCaseError> {
    match (one, other) {
        (Ok(one), Ok(other)) => alike(&one, &other),
        (Err(_), Err(_)) => Ok(()),
        (Err(problems), Ok(_)) | (Ok(_), Err(problems)) => Err(broken(&problems)),
    }
}

/// The keys of `web` that stand for themselves: others imply something in other places.
fn keys(file: &Json) -> Vec<String> {
    let web = file["services"]["web"].as_object().expect("a service is a mapping");
    web.keys()
        .filter(|key| !["extends", "scale", "deploy"].contains(&key.as_str()))
        .cloned()
        .collect()
}

fn without(file: &Json, key: &str) -> Json {
    let mut file = file.clone();
    file["services"]["web"].as_object_mut().expect("a service is a mapping").remove(key);
    file
}

/// `!reset` over any key of a service is a file without the key.
#[test]
fn a_reset_key_was_never_written() {
    law(Keys::Supported, |file| {
        let mut file = without(file, "extends");
        file["services"]["web"]["image"] = json!("i");
        for key in keys(&file) {
            let reset = over(&file, format!("services:\n  web:\n    {key}: !reset null\n"));
            agree(reset, plain_of(&without(&file, &key)))?;
        }
        Ok(())
    });
}

/// `!override` over any key of a service is a file with that value alone.
#[test]
fn an_overridden_key_has_the_new_value_alone() {
    law(Keys::Supported, |file| {
        let file = without(file, "extends");
        // The values of another service are values of the same keys.
        let db = file["services"]["db"].as_object().expect("a service is a mapping").clone();
        for key in keys(&file) {
            let Some(value) = db.get(&key).filter(|_| key != "container_name") else { continue };
            let mut replaced = file.clone();
            replaced["services"]["web"][&key] = value.clone();
            let value = text(value);
            let written = format!("services:\n  web:\n    {key}: !override {value}\n");
            agree(over(&file, written), plain_of(&replaced))?;
        }
        Ok(())
    });
}

fn plain_of(file: &Json) -> Result<Project, Problems> {
    loaded(&input("compose.yaml"), &[("compose.yaml", text(file))])
}

/// A service that extends another is that one with its own keys laid over as by a second file.
#[test]
fn extending_is_laying_over() {
    law(Keys::Supported, |file| {
        let mut base = without(file, "extends");
        let services = base["services"].as_object_mut().expect("there are services");
        let mut members = services["db"].as_object().expect("a service is a mapping").clone();
        for key in ["container_name", "ports", "extends"] {
            members.remove(key);
            services["web"].as_object_mut().expect("a service is a mapping").remove(key);
        }
        // Both have the same services; `copy` is `web` with the members of `db` over it.
        let mut two = base.clone();
        two["services"]["copy"] = base["services"]["web"].clone();
        let laid = over(&two, text(&json!({"services": {"copy": members}})));
        let mut one = base;
        members.insert("extends".to_owned(), json!({"service": "web"}));
        one["services"]["copy"] = Json::Object(members);
        agree(laid, plain_of(&one))
    });
}

/// A file laid over its first half is the file.
#[test]
fn a_file_may_be_cut_between_keys() {
    law(Keys::Supported, |file| {
        let file = without(file, "extends");
        let (mut first, mut second) = (file.clone(), json!({}));
        for (at, key) in keys(&file).into_iter().enumerate().filter(|(at, _)| at % 2 == 1) {
            let value = first["services"]["web"].as_object_mut().and_then(|web| web.remove(&key));
            second[key] = value.unwrap_or_else(|| panic!("key {at} was there"));
        }
        let second = text(&json!({"services": {"web": second}}));
        alike(&plain(&file)?, &over(&first, second).map_err(|problems| broken(&problems))?)
    });
}

const PROFILES: [&str; 4] = ["a", "b", "c", "d"];

fn profiles() -> impl Strategy<Value = BTreeSet<&'static str>> {
    prop::collection::btree_set(prop::sample::select(PROFILES.to_vec()), 0..3)
}

fn names(profiles: &BTreeSet<&str>) -> Vec<String> {
    profiles.iter().map(|name| (*name).to_owned()).collect()
}

proptest! {
    /// R-IN-2: a service is there if it has no profile or an active one, wherever the active ones are named; `*`
    /// activates all, and no order and no repetition matters.
    #[test]
    fn services_follow_their_profiles(
        services in prop::collection::vec(profiles(), 1..5),
        asked in profiles(),
        of_environment in profiles(),
        all in prop::bool::weighted(0.1),
    ) {
        let mut file = json!({"services": {"always": {"image": "i"}}});
        for (at, profiles) in services.iter().enumerate() {
            file["services"][format!("s{at}")] = json!({"image": "i", "profiles": names(profiles)});
        }
        let mut active = names(&asked);
        if all {
            active.push("*".to_owned());
        }
        let environment = names(&of_environment).join(" , ");
        let input = Input {
            profiles: active,
            env: [("COMPOSE_PROFILES".to_owned(), environment)].into(),
            env_files: EnvFiles::Nothing,
            ..Input::file("/p/compose.yaml")
        };
        let loaded = load(&input, &folder(&[("/p/compose.yaml", &file.to_string())])).expect("it loads");
        let is_active = |own: &BTreeSet<&str>| {
            all || own.is_empty() || own.iter().any(|name| asked.contains(name) || of_environment.contains(name))
        };
        let mut expected = vec!["always".to_owned()];
        let numbered = services.iter().enumerate().filter(|(_, own)| is_active(own));
        expected.extend(numbered.map(|(at, _)| format!("s{at}")));
        let found: Vec<String> = loaded.project.service_names().map(str::to_owned).collect();
        prop_assert_eq!(found, expected);
    }

    /// R-IN-3: who needs a service of an inactive profile is told so, where it says so; who can do without it runs
    /// without it.
    #[test]
    fn needs_of_inactive_services_are_told(required in any::<bool>(), active in any::<bool>()) {
        let text = format!(
            "services:\n  web:\n    image: i\n    depends_on:\n      db: {{condition: service_started, required: \
             {required}}}\n  db: {{image: d, profiles: [extra]}}\n"
        );
        let profiles = if active { vec!["extra".to_owned()] } else { vec![] };
        let input = Input { profiles, env_files: EnvFiles::Nothing, ..Input::file("/p/compose.yaml") };
        match load(&input, &folder(&[("/p/compose.yaml", &text)])) {
            Ok(loaded) => {
                prop_assert!(active || !required);
                let names: Vec<_> = loaded.project.service_names().collect();
                prop_assert_eq!(names, if active { vec!["db", "web"] } else { vec!["web"] });
            }
            Err(problems) => {
                prop_assert!(required && !active);
                let places: Vec<_> = problems.errors().map(|one| one.line).collect();
                prop_assert_eq!(places, [5]);
            }
        }
    }
}
