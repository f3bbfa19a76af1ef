//! Where the value of a variable comes from, when several places set it. R-IN-2.

use std::collections::BTreeMap;

use jaco_compose::{EnvFiles, Input, load};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::util::folder;

/// A file that sets `V`, if it does.
fn env_file(value: Option<&String>) -> String {
    value.map_or_else(|| "# nothing\n".to_owned(), |value| format!("V={value}\n"))
}

/// The `user` of each service, as loaded from these files with these variables.
fn users(input: &Input, files: &[(&str, String)]) -> BTreeMap<String, String> {
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let loaded = load(input, &folder(&files)).unwrap_or_else(|problems| panic!("{problems}"));
    let model = loaded.project.model();
    let services = model["services"].as_object().expect("there are services").iter();
    let user = |service: &Json| service["user"].as_str().unwrap_or_default().to_owned();
    services.map(|(name, service)| (name.clone(), user(service))).collect()
}

fn value() -> impl Strategy<Value = Option<String>> {
    option::of("[a-z]{0,3}")
}

/// What `${V-none}` is, where the sources are given from the strongest to the weakest.
fn first(sources: &[&Option<String>]) -> String {
    let found = sources.iter().find_map(|source| source.as_ref());
    found.cloned().unwrap_or_else(|| "none".to_owned())
}

const WEB: &str = "services: {web: {image: i, user: '${V-none}'}}\n";

proptest! {
    /// The caller's variables, then the listed env files, the last first, or else `.env` of the project's folder.
    #[test]
    fn the_caller_is_stronger_than_env_files(caller in value(), listed in prop::collection::vec(value(), 0..3), dot in value()) {
        let names = ["a.env", "sub/b.env"];
        let mut files = vec![("/p/compose.yaml", WEB.to_owned()), ("/p/.env", env_file(dot.as_ref()))];
        for (name, value) in ["/p/a.env", "/p/sub/b.env"].into_iter().zip(&listed) {
            files.push((name, env_file(value.as_ref())));
        }
        let env: BTreeMap<_, _> = caller.iter().map(|value| ("V".to_owned(), value.clone())).collect();
        let names: Vec<String> = names.iter().take(listed.len()).map(|name| (*name).to_owned()).collect();
        let with = |env_files| Input { env: env.clone(), env_files, ..Input::file("/p/compose.yaml") };
        let mut sources = vec![&caller];
        sources.extend(listed.iter().rev());
        prop_assert_eq!(&users(&with(EnvFiles::Listed(names)), &files)["web"], &first(&sources));
        prop_assert_eq!(&users(&with(EnvFiles::Project), &files)["web"], &first(&[&caller, &dot]));
        prop_assert_eq!(&users(&with(EnvFiles::Nothing), &files)["web"], &first(&[&caller]));
    }

    /// What includes is stronger than what is included: its own variables, then the env files that the include
    /// names, the last first, or else `.env` of the included folder. The files stay strangers to the project.
    #[test]
    fn an_include_fills_in_what_the_project_leaves_open(
        caller in value(),
        outer in value(),
        inner in value(),
        named in prop::collection::vec(value(), 0..3),
    ) {
        let list: Vec<&str> = ["n0.env", "n1.env"].into_iter().take(named.len()).collect();
        let item = match list.is_empty() {
            true => json!("sub/db.yaml"),
            false => json!({"path": "sub/db.yaml", "env_file": list}),
        };
        let main = json!({"include": [item], "services": {"web": {"image": "i", "user": "${V-none}"}}});
        let mut files = vec![
            ("/p/compose.yaml", main.to_string()),
            ("/p/sub/db.yaml", WEB.replace("web", "db")),
            ("/p/.env", env_file(outer.as_ref())),
            ("/p/sub/.env", env_file(inner.as_ref())),
        ];
        for (name, value) in ["/p/n0.env", "/p/n1.env"].into_iter().zip(&named) {
            files.push((name, env_file(value.as_ref())));
        }
        let env: BTreeMap<_, _> = caller.iter().map(|value| ("V".to_owned(), value.clone())).collect();
        let found = users(&Input { env, ..Input::file("/p/compose.yaml") }, &files);
        let mut sources = vec![&caller, &outer];
        if named.is_empty() {
            sources.push(&inner);
        }
        sources.extend(named.iter().rev());
        prop_assert_eq!(&found["db"], &first(&sources));
        prop_assert_eq!(&found["web"], &first(&[&caller, &outer]));
    }

    /// The variables of a service: those with a value in `environment`, then those that only have a name there and
    /// are set by the caller, then its env files, the last first. A file's value uses what stands before the file first.
    #[test]
    fn environment_is_stronger_than_env_files(
        caller in value(),
        own in option::of(value()),
        listed in prop::collection::vec(value(), 0..3),
    ) {
        let names: Vec<&str> = ["a.env", "b.env"].into_iter().take(listed.len()).collect();
        let mut web = json!({"image": "i", "env_file": names});
        if let Some(own) = &own {
            web["environment"] = json!({"V": own});
        }
        let mut files = vec![("/p/compose.yaml", json!({"services": {"web": web}}).to_string())];
        for (name, value) in ["/p/a.env", "/p/b.env"].into_iter().zip(&listed) {
            files.push((name, env_file(value.as_ref()) + "SEEN=${V-none}\n"));
        }
        let env: BTreeMap<_, _> = caller.iter().map(|value| ("V".to_owned(), value.clone())).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let input = Input { env, env_files: EnvFiles::Nothing, ..Input::file("/p/compose.yaml") };
        let model = load(&input, &folder(&files)).unwrap().project.model();
        let found = &model["services"]["web"]["environment"];

        let from_files = listed.iter().rev().find_map(Clone::clone);
        let expected = match &own {
            Some(Some(value)) => json!(value),
            // A name alone takes the caller's value, and is taken out of the image's variables without one.
            Some(None) => json!(caller),
            None => json!(from_files),
        };
        prop_assert_eq!(&found["V"], &expected);
        if !listed.is_empty() {
            // The last file sees what stands before it, and only then its own lines.
            let own = own.flatten();
            let before = caller.or(own).or(listed.into_iter().find_map(|value| value));
            prop_assert_eq!(&found["SEEN"], &json!(before.unwrap_or_else(|| "none".to_owned())));
        }
    }
}
