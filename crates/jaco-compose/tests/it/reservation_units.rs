//! Units of reservations in jaco.yaml and in the table of an environment (R-RES-1, R-RES-2).

use jaco_compose::facts::{Bounds, Facts};
use jaco_compose::{JacoYaml, Options, Override, resolve};
use jaco_types::unit::{Bytes, MilliCores};

use crate::util::{load_text, problems_of};

const WEB: &str = "name: shop\nservices:\n  web:\n    image: i\n";

/// What a service gets with these resources in jaco.yaml, and these in the table of an environment.
fn facts(resources: &str, given: Override) -> Result<Facts, String> {
    let overlay =
        format!("deployment: shop\nservices:\n  - name: web\n    resources: {{{resources}}}\n");
    let project = load_text(WEB).unwrap().project;
    let overlay = JacoYaml::parse("jaco.yaml", overlay.as_bytes());
    let overlay = overlay.map_err(|problems| problems_of(&problems))?;
    let options = Options { overrides: [("web".to_owned(), given)].into(), ..Options::default() };
    let resolved = resolve(&project, Some(&overlay), &options);
    let resolved = resolved.map_err(|problems| problems_of(&problems))?;
    Ok(resolved.services["web"].facts.clone())
}

fn bounds(resources: &str) -> Bounds {
    facts(resources, Override::default())
        .unwrap_or_else(|error| panic!("{resources}: {error}"))
        .bounds
}

/// R-RES-1: memory is in megabytes where nothing is said, and in the units of any case.
#[test]
fn memory_has_units_in_any_case() {
    for (text, mebibytes) in [
        ("1", 1),
        ("64", 64),
        ("64 mb", 64),
        ("64MB", 64),
        ("64Mb", 64),
        ("64 m", 64),
        ("2 gb", 2 << 10),
        ("2GB", 2 << 10),
        ("2 Gb", 2 << 10),
        ("2g", 2 << 10),
        ("1.5 GB", 3 << 9),
        ("3 tb", 3 << 20),
        ("3TB", 3 << 20),
        ("3tB", 3 << 20),
        ("0.5T", 1 << 19),
    ] {
        let bounds = bounds(&format!("memory: {{max: '{text}'}}"));
        let expected = Bounds { memory_max: Bytes(mebibytes << 20), ..Bounds::default() };
        assert_eq!(bounds, expected, "{text}");
        let given = Override { memory: Some(text.to_owned()), cpu: None };
        let facts = facts("", given).unwrap();
        assert_eq!(facts.reservation.memory, Bytes(mebibytes << 20), "{text} of an environment");
    }
}

/// R-RES-1: processors are in megahertz where nothing is said; a thousand of them are a core.
#[test]
fn processors_have_units_in_any_case() {
    for (text, millis) in [
        ("1", 1),
        ("500", 500),
        ("500 mhz", 500),
        ("500MHz", 500),
        ("500 MHZ", 500),
        ("2 ghz", 2_000),
        ("2GHz", 2_000),
        ("1.25 GHZ", 1_250),
        ("1 thz", 1_000_000),
        ("0.002THz", 2_000),
    ] {
        let bounds = bounds(&format!("cpu: {{max: '{text}'}}"));
        let expected = Bounds { cpu_max: MilliCores(millis), ..Bounds::default() };
        assert_eq!(bounds, expected, "{text}");
        let given = Override { memory: None, cpu: Some(text.to_owned()) };
        let facts = facts("", given).unwrap();
        assert_eq!(facts.reservation.cpu, MilliCores(millis), "{text} of an environment");
    }
}

/// R-RES-1: what is left out is no bound, a minimum alone is the maximum too, and a maximum alone has
/// no minimum. Each amount by itself.
#[test]
fn minimum_alone_is_the_maximum() {
    assert_eq!(bounds(""), Bounds::default());
    let alone = bounds("memory: {min: 1 TB}, cpu: {min: 250}");
    let expected = Bounds {
        memory_min: Bytes(1 << 40),
        memory_max: Bytes(1 << 40),
        cpu_min: MilliCores(250),
        cpu_max: MilliCores(250),
    };
    assert_eq!(alone, expected);
    let facts = facts("memory: {min: 1 TB}, cpu: {min: 250}", Override::default()).unwrap();
    assert_eq!(
        (facts.reservation.memory, facts.reservation.cpu),
        (Bytes(1 << 40), MilliCores(250))
    );
    let apart = bounds("memory: {max: 5}, cpu: {min: 3 mhz}");
    let expected = Bounds {
        memory_max: Bytes(5 << 20),
        cpu_min: MilliCores(3),
        cpu_max: MilliCores(3),
        ..Bounds::default()
    };
    assert_eq!(apart, expected);
    let equal = bounds("memory: {min: 1024, max: 1 GB}");
    assert_eq!((equal.memory_min, equal.memory_max), (Bytes(1 << 30), Bytes(1 << 30)));
}

/// R-RES-1: a minimum above the maximum is refused, also in other units, and so is what is no amount.
#[test]
fn bounds_that_mean_nothing_are_refused() {
    let refused = |resources: &str| facts(resources, Override::default()).unwrap_err();
    assert_eq!(
        refused("memory: {min: 2 GB, max: 2047}"),
        "4:25 error invalid_manifest: `memory.min` is more than `memory.max`"
    );
    assert_eq!(
        refused("cpu: {min: 1001, max: 1 GHz}"),
        "4:22 error invalid_manifest: `cpu.min` is more than `cpu.max`"
    );
    for text in ["-1", "1 kb", "1 gib", "GB", "1 2", "1,5 GB", "1 ghz", "99999999999999 TB"] {
        let error = refused(&format!("memory: {{min: '{text}'}}"));
        assert!(
            error.contains(&format!("invalid_manifest: `memory.min` cannot be `{text}`")),
            "{error}"
        );
        assert!(error.ends_with("expected `512 MB`, `2 GB`"), "{error}");
    }
    for text in ["-1", "1 hz", "1 core", "GHz", "1 2", "1,5", "1 gb"] {
        let error = refused(&format!("cpu: {{max: '{text}'}}"));
        assert!(
            error.contains(&format!("invalid_manifest: `cpu.max` cannot be `{text}`")),
            "{error}"
        );
        assert!(error.ends_with("expected `500 MHz`, `2 GHz`"), "{error}");
    }
}
