//! Errors as they are told.

use expect_test::expect;
use jaco_cli::error::CliError;
use jaco_cli::ui::Colour;
use jaco_client::ClientError;
use jaco_types::code::ExitCode;
use jaco_types::{ErrorCode, Rejection};

fn refused(code: ErrorCode) -> CliError {
    CliError::Refused { code, message: "it is so".to_owned(), help: None }
}

/// R-CLI-8: one sentence, its causes, its advice.
#[test]
fn an_error_has_a_shape() {
    let source = std::io::Error::other("disk on fire");
    let report = CliError::local("cannot read a.yaml", source).report();
    expect![[r"
        error: cannot read a.yaml
          because: disk on fire
    "]]
    .assert_eq(&report.text(Colour::Off));
    expect![[r"
        error[no_leader]: it is so
          help: Ask again in a few seconds; `jaco cluster status` shows who leads and who can be reached.
          help: more: jaco help error no_leader
    "]]
    .assert_eq(&refused(ErrorCode::NoLeader).report().text(Colour::Off));
}

/// R-CLI-1: what the cluster finds in a manifest is listed like what is found here.
#[test]
fn the_problems_of_a_refusal_are_listed() {
    let problems = r#"{"omitted":0,"problems":[
        {"severity":"error","code":"port_conflict","file":"","line":0,"message":"port 80 is taken"},
        {"severity":"error","code":"unknown_key","file":"jaco.yaml","line":3,"message":"no key `x`"}]}"#;
    let rejection =
        Rejection::new(ErrorCode::InvalidManifest, "2 problems").with("problems", problems);
    let report = CliError::from(ClientError::Refused(rejection)).report();
    let expected =
        ["error[port_conflict]: port 80 is taken", "jaco.yaml:3: error[unknown_key]: no key `x`"];
    assert_eq!(report.because, expected);
}

#[test]
fn colours_change_nothing_else() {
    let report = refused(ErrorCode::NoLeader).report();
    let coloured = report.text(Colour::On);
    assert!(coloured.starts_with("\x1b[1;31merror[no_leader]\x1b[0m"));
    let plain: String = ["\x1b[1;31m", "\x1b[1m", "\x1b[0m"]
        .iter()
        .fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(plain, report.text(Colour::Off));
}

/// R-CLI-7: every code exits with what its declaration says.
#[test]
fn codes_exit_as_declared() {
    for code in ErrorCode::ALL {
        assert_eq!(refused(*code).report().exit, code.exit_code());
    }
    assert_eq!(CliError::usage("a", "b").report().exit, ExitCode::Usage);
    let gone = CliError::Output(std::io::ErrorKind::BrokenPipe.into()).report();
    assert_eq!(gone.text(Colour::Off), "");
}

#[test]
fn programs_get_the_same() {
    let json = refused(ErrorCode::TooLarge).report().json();
    assert_eq!(json["error"]["code"], "too_large");
    assert_eq!(json["error"]["exit_code"], 3);
}
