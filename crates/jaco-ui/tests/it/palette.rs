//! The colours, by the formula of WCAG 2.

use std::collections::BTreeMap;

use jaco_ui::assets;

/// What is written on what. AA asks for 4.5 to 1.
const TEXTS: [(&str, &str); 20] = [
    ("text", "page"),
    ("text", "panel"),
    ("text", "failing-panel"),
    ("text", "warning-panel"),
    ("muted", "page"),
    ("muted", "panel"),
    ("muted", "warning-panel"),
    ("link", "page"),
    ("link", "panel"),
    ("link", "warning-panel"),
    ("good", "page"),
    ("good", "panel"),
    ("warning", "page"),
    ("warning", "panel"),
    ("failing", "page"),
    ("failing", "panel"),
    ("still", "page"),
    ("still", "panel"),
    ("button-text", "button"),
    ("failing", "warning-panel"),
];

/// Borders that show where something is to be filled in, and the ring of what has the focus. AA asks for 3 to 1.
const EDGES: [(&str, &str); 4] =
    [("edge", "page"), ("edge", "panel"), ("link", "page"), ("failing", "failing-panel")];

/// The colours of each scheme.
fn schemes() -> [(&'static str, BTreeMap<String, [u8; 3]>); 2] {
    let style = assets::at("/ui/assets/ui.css").expect("there is a style").content;
    let dark = style.find("@media (prefers-color-scheme: dark)").expect("there is a dark scheme");
    let colours = |part: &str| {
        let part = &part[part.find(":root {").expect("they are set at the root")..];
        let part = &part[..part.find('}').expect("it ends")];
        let lines = part.lines().filter_map(|line| {
            let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
            let value = u32::from_str_radix(value.trim_end_matches(';'), 16).expect("hex");
            let [_, red, green, blue] = value.to_be_bytes();
            Some((name.to_owned(), [red, green, blue]))
        });
        lines.collect::<BTreeMap<_, _>>()
    };
    [("light", colours(style)), ("dark", colours(&style[dark..]))]
}

fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// R-OPS-1: everything is legible, in both schemes.
#[test]
fn contrast_is_that_of_wcag_aa() {
    assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 0.01);
    for (scheme, colours) in schemes() {
        let least = |pairs: &[(&str, &str)], ratio: f64| {
            for (one, other) in pairs {
                let found = contrast(colours[*one], colours[*other]);
                assert!(found >= ratio, "{scheme}: {one} on {other} is {found:.2}");
            }
        };
        least(&TEXTS, 4.5);
        least(&EDGES, 3.0);
    }
}

/// R-OPS-1: both schemes have the same colours, each that is used is one of them, and none is written elsewhere.
#[test]
fn schemes_are_complete() {
    let [(_, light), (_, dark)] = schemes();
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>());
    let style = assets::at("/ui/assets/ui.css").expect("there is a style").content;
    for used in style.split("var(--").skip(1) {
        let name = used.split(')').next().expect("it ends");
        assert!(light.contains_key(name), "{name}");
    }
    let rules = &style[style.find("*, *::before").expect("rules follow the colours")..];
    assert!(!rules.contains('#'), "colours are in the schemes");
}

/// R-OPS-1: who does not tell red from green tells the states apart by how light they are, or by blue: what is good has no
/// green, and what fails no blue.
#[test]
fn states_differ_without_red_and_green() {
    for (scheme, colours) in schemes() {
        let [red, _, blue] = colours["good"];
        assert!(blue > red.saturating_add(60), "{scheme}: good is blue");
        let [red, _, blue] = colours["failing"];
        assert!(red > blue.saturating_add(60), "{scheme}: failing is red");
        let [red, _, blue] = colours["warning"];
        assert!(red > blue.saturating_add(60), "{scheme}: warning is orange");
    }
}
