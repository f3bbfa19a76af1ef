//! What users read: the place, the reason and the way out, each thing once. R-IN-2, R-IN-3.

use jaco_compose::nearest;

use crate::util::{load_files, load_text, problems_of, resolve_text};

fn errors(text: &str) -> String {
    match load_text(text) {
        Ok(loaded) => problems_of(&loaded.warnings),
        Err(problems) => problems_of(&problems),
    }
}

/// Each section of names says how a name is declared, or which one was meant.
#[test]
fn undeclared_names_have_advice() {
    let file = |key: &str, name: &str, section: &str| {
        format!(
            "services:\n  web:\n    image: i\n    {key}: [{name}]\n{section}: {{database: {{}}}}\n"
        )
    };
    assert_eq!(
        errors(&file("networks", "backend", "networks")),
        "4:16 error unknown_network: service `web` refers to network `backend`, which is not declared\n  \
         help declare it: a top-level `networks:` with `backend:`"
    );
    assert_eq!(
        errors(&file("networks", "databse", "networks")),
        "4:16 error unknown_network: service `web` refers to network `databse`, which is not declared\n  \
         help did you mean `database`?"
    );
    assert_eq!(
        errors(&file("volumes", "databse:/d", "volumes")),
        "4:15 error unknown_volume: service `web` refers to volume `databse`, which is not declared\n  \
         help did you mean `database`?"
    );
    assert_eq!(
        errors(&file("volumes", "pictures:/d", "volumes")),
        "4:15 error unknown_volume: service `web` refers to volume `pictures`, which is not declared\n  \
         help declare it: a top-level `volumes:` with `pictures:`"
    );
    let with_file = |key: &str, name: &str| {
        format!(
            "services:\n  web:\n    image: i\n    {key}: [{name}]\n{key}: {{database: {{file: ./x}}}}\n"
        )
    };
    assert_eq!(
        errors(&with_file("configs", "other")),
        "4:15 error unknown_config: service `web` refers to config `other`, which is not declared\n  \
         help declare it: a top-level `configs:` with `other:`"
    );
    assert_eq!(
        errors(&with_file("secrets", "datbase")),
        "4:15 error unknown_secret: service `web` refers to secret `datbase`, which is not declared\n  \
         help did you mean `database`?"
    );
}

/// Every typo of a volume's name, at each letter, gets the name.
#[test]
fn typos_of_volumes_get_the_name() {
    let right = "postgres-data";
    for at in 1..right.len() {
        let mut wrong = right.to_owned();
        wrong.remove(at);
        let text = format!(
            "services: {{db: {{image: i, volumes: ['{wrong}:/d']}}}}\nvolumes: {{{right}: {{}}, cache: {{}}}}\n"
        );
        let problems = load_text(&text).expect_err("it is not declared");
        assert_eq!(
            problems.list[0].suggestion.as_deref(),
            Some("did you mean `postgres-data`?"),
            "{wrong}"
        );
    }
}

/// A conflict of ports points at the port, not at the list.
#[test]
fn a_port_conflict_points_at_the_port() {
    let text = "services:\n  a:\n    image: i\n    ports: ['80:80']\n  b:\n    image: i\n    ports:\n      - '81:81'\n      - target: 80\n        published: '80'\n";
    let problems = resolve_text(text, None).expect_err("both take port 80");
    assert_eq!(
        problems_of(&problems),
        "9:9 error port_conflict: services `a` and `b` both publish port 80\n  \
         help publish another port, or pin the services to different hosts"
    );
    let ranges = "services:\n  a: {image: i, ports: ['8000-8003:80-83']}\n  b:\n    image: i\n    ports: ['9000:1', '8001-8002:1-2']\n";
    let problems = resolve_text(ranges, None).expect_err("both take 8001 and 8002");
    let places: Vec<_> = problems.errors().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, [(5, 23), (5, 23)], "{problems}");
}

/// The same host port twice in one service cannot be published.
#[test]
fn a_service_publishes_a_port_once() {
    let text = "services:\n  a:\n    image: i\n    ports: ['80:80', '80:81']\n";
    let problems = resolve_text(text, None).expect_err("port 80 is taken");
    assert_eq!(
        problems_of(&problems),
        "4:22 error port_conflict: service `a` publishes port 80 twice\n  \
         help publish another port"
    );
    for fine in [
        "'80:80', '80:80/udp'",
        "'127.0.0.1:80:80', '127.0.0.2:80:81'",
        "'80', '80'",
        "'8000-8005:80', '8000-8005:81'",
    ] {
        let text = format!("services: {{a: {{image: i, ports: [{fine}]}}}}");
        assert!(resolve_text(&text, None).is_ok(), "{fine}");
    }
}

/// What an unset variable breaks is named with the variable, once.
#[test]
fn an_unset_variable_breaks_one_thing() {
    let text = "services:\n  web:\n    image: i\n    volumes: ['${DIR}:/lnd:ro', '/a:/b']\n";
    let problems = load_text(text).expect_err("nothing is left of the source");
    assert_eq!(
        problems_of(&problems),
        "4:15 error invalid_value: `services.web.volumes[0]` cannot be `:/lnd:ro`\n  \
         expected `[SOURCE:]TARGET[:OPTIONS]`\n  \
         help the variable `DIR` is not set"
    );
    let text = "services:\n  web:\n    image: i\n    ports: ['${PORT}:x']\n    cpus: '${CPUS}'\n";
    let problems = load_text(text).expect_err("they mean nothing");
    let said: Vec<_> =
        problems.list.iter().map(|problem| (problem.line, problem.suggestion.clone())).collect();
    let unset = |name: &str| Some(format!("the variable `{name}` is not set"));
    assert_eq!(said, [(4, unset("PORT")), (5, unset("CPUS"))], "{problems}");
    let two = "services:\n  web:\n    image: i\n    user: '$A'\n    volumes: ['${A}:/b']\n";
    let problems = load_text(two).expect_err("nothing is left of the source");
    assert_eq!(problems.errors().count(), 1);
    assert_eq!(problems.warnings().count(), 1, "the other place is warned about: {problems}");
}

/// A mistake that services share by an anchor is one mistake.
#[test]
fn a_shared_mistake_is_told_once() {
    let text = "x-base: &base\n  restart: maybe\n  cpu_shares: many\n  networks: [lost]\n  imgae: i\nservices:\n  a: {<<: *base, image: i}\n  b: {<<: *base, image: i}\n  c: {<<: *base, image: j, cpu_quota: few}\n";
    assert_eq!(
        errors(text),
        "3:15 error invalid_value: `services.a.cpu_shares` cannot be `many`\n  \
         expected a whole number\n\
         4:14 error unknown_network: service `a` refers to network `lost`, which is not declared\n  \
         help declare it: a top-level `networks:` with `lost:`\n\
         5:3 error unknown_key: `services.a` has no key `imgae`\n  \
         help did you mean `image`?\n\
         9:39 error invalid_value: `services.c.cpu_quota` cannot be `few`\n  \
         expected a whole number"
    );
    let text = "x-base: &base {restart: maybe}\nservices:\n  a: {<<: *base, image: i}\n  b: {<<: *base, image: i}\n";
    let problems = resolve_text(text, None).expect_err("it is no policy");
    assert_eq!(problems.errors().count(), 1, "{problems}");
}

/// Two mistakes at one place are two mistakes.
#[test]
fn two_mistakes_at_one_place_are_two() {
    let problems = load_text("services:\n  a:\n    image: i\n    ulimits: {nofile: {}}\n")
        .expect_err("both limits are missing");
    assert_eq!(problems.errors().count(), 2, "{problems}");
}

/// A missing file of `extends` is missing where it is named.
#[test]
fn a_missing_file_to_extend_is_named_at_its_place() {
    let text = "services:\n  web:\n    extends:\n      service: base\n      file: missing.yaml\n";
    let problems = load_files(&[("/p/compose.yaml", text)]).expect_err("there is no such file");
    let error = problems.errors().next().expect("it is refused");
    assert_eq!(
        (error.code.as_str(), error.line, error.column),
        ("file_not_found", 5, 13),
        "{problems}"
    );
    let wrong = "services:\n  web:\n    extends:\n      file: other.yaml\n      service: bsae\n";
    let files = [("/p/compose.yaml", wrong), ("/p/other.yaml", "services: {base: {image: i}}\n")];
    let problems = load_files(&files).expect_err("there is no such service");
    let error = problems.errors().next().expect("it is refused");
    assert_eq!(
        (error.code.as_str(), error.line, error.column),
        ("unknown_service", 5, 16),
        "{problems}"
    );
    assert_eq!(error.suggestion.as_deref(), Some("did you mean `base`?"));
}

/// The name that shares a word is meant rather than the one that shares letters.
#[test]
fn names_that_share_a_word_are_nearer() {
    let errors = errors("services:\n  web:\n    image: i\n    pre_start: []\n");
    assert_eq!(
        errors,
        "4:5 error unknown_key: `services.web` has no key `pre_start`\n  help did you mean `post_start`?"
    );
    let known = ["restart", "post_start", "pre_stop", "stop_signal", "stop_grace_period"];
    assert_eq!(nearest("pre_start", known.into_iter()), Some("post_start"));
    assert_eq!(nearest("restrt", known.into_iter()), Some("restart"));
    assert_eq!(nearest("stop_signl", known.into_iter()), Some("stop_signal"));
}
