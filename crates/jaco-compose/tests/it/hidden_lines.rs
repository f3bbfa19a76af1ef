//! What another file names may be anything that its reader can open: its lines are not for messages. R-IN-2.

use jaco_compose::{Input, load};

use crate::util::folder;

const SHADOW: &str = "root:$y$j9T$secret:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\n";
const SETTINGS: &str = "password: secret\nnested: {token: secret}\n";
const UNFINISHED: &str = "password: [secret\nother: secret\n";
const ENV: &str = "GOOD=secret\nthis secret line is no assignment\n";

/// What a load of this compose file says; the other files are there.
fn says(compose: &str) -> String {
    let files = folder(&[
        ("/p/compose.yaml", compose),
        ("/etc/shadow", SHADOW),
        ("/p/../etc/shadow", SHADOW),
        ("/etc/settings.yaml", SETTINGS),
        ("/etc/unfinished.yaml", UNFINISHED),
        ("/etc/app.env", ENV),
        ("/p/token.txt", SHADOW),
        ("/p/unfinished.yaml", UNFINISHED),
        ("/p/app.env", ENV),
        ("/p/fields.yaml", "x-common: &common {restart: always}\n"),
        ("/common/compose.yaml", "services: {a: {image: a, prots: [1]}}\n"),
    ]);
    match load(&Input::file("/p/compose.yaml"), &files) {
        Ok(_) => String::new(),
        Err(problems) => format!("{problems}\n{:?}", problems.errors().collect::<Vec<_>>()),
    }
}

/// R-IN-2: neither the lines nor the keys of a file outside of the project that is no compose file.
#[test]
fn files_outside_of_the_project_are_named_only() {
    for path in ["/etc/shadow", "/p/../etc/shadow", "/etc/settings.yaml", "/etc/unfinished.yaml"] {
        let named = [
            format!("include: [{path}]\nservices: {{a: {{image: a}}}}\n"),
            format!("services: {{a: {{image: a, extends: {{file: {path}, service: b}}}}}}\n"),
        ];
        for compose in named {
            let said = says(&compose);
            assert!(said.contains("is not a compose file"), "{compose}: {said}");
            let quotes = ["secret", "daemon", "password", "nested", "other"];
            assert!(quotes.iter().all(|text| !said.contains(text)), "{compose}: {said}");
        }
    }
}

/// R-IN-2: in the project, too, a file that is no compose file is named without its text.
#[test]
fn what_is_no_compose_file_is_not_quoted() {
    for path in ["token.txt", "unfinished.yaml"] {
        let said = says(&format!("include: [{path}]\nservices: {{a: {{image: a}}}}\n"));
        assert!(said.contains(&format!("/p/{path}")), "{said}");
        assert!(!said.contains("secret") && !said.contains("daemon"), "{said}");
    }
}

/// R-IN-3: a file of extension fields alone can be included, as ever.
#[test]
fn extension_fields_alone_are_a_compose_file() {
    let said = says("include: [fields.yaml]\nservices: {a: {image: a}}\n");
    assert_eq!(said, "");
}

/// R-IN-2: env files hold passwords wherever they are.
#[test]
fn lines_of_env_files_are_not_quoted() {
    for path in ["app.env", "/etc/app.env"] {
        for key in ["env_file", "label_file"] {
            let said = says(&format!("services: {{a: {{image: a, {key}: [{path}]}}}}\n"));
            assert!(said.contains("app.env") && said.contains('2'), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}

/// R-IN-3: a compose file beside the project is shown as one of the project is.
#[test]
fn compose_files_elsewhere_are_shown() {
    let said = says("include: [../common/compose.yaml]\nservices: {b: {image: b}}\n");
    assert!(said.contains("prots: [1]"), "{said}");
}
