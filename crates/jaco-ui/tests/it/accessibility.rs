//! What people need who do not see the page, or have no mouse, as checks over each document.

use std::collections::BTreeSet;

use crate::document::{Document, Element};
use crate::samples;

fn check(page: &Document) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    expect(page.one("html").attribute("lang") == Some("en"), "the language is said".to_owned());
    expect(!page.one("title").text.trim().is_empty(), "there is a title".to_owned());
    expect(page.one("main").attribute("id") == Some("main"), "the content is marked".to_owned());
    page.one("h1");

    let headings = page.elements.iter().filter_map(|it| it.name.strip_prefix('h')?.parse().ok());
    let mut before: u32 = 0;
    for level in headings {
        expect(level <= before + 1, format!("h{level} follows h{before}"));
        before = level;
    }

    let mut ids = BTreeSet::new();
    for id in page.elements.iter().filter_map(|it| it.attribute("id")) {
        expect(!id.is_empty() && ids.insert(id.to_owned()), format!("id {id} is there once"));
    }
    for element in &page.elements {
        for key in ["aria-labelledby", "aria-describedby", "for"] {
            let named = element.attribute(key);
            expect(
                named.is_none_or(|id| page.by_id(id).is_some()),
                format!("{key} {named:?} names something"),
            );
        }
        if let Some(id) = element.attribute("href").and_then(|href| href.strip_prefix('#')) {
            expect(page.by_id(id).is_some(), format!("#{id} is on the page"));
        }
        let about = format!("{} {:?}", element.name, element.attributes);
        expect(is_named(page, element), format!("{about} has a name"));
        let index = element.attribute("tabindex").unwrap_or("0");
        expect(["0", "-1"].contains(&index), format!("{about} keeps the order of the keyboard"));
    }

    let first = page.elements.iter().find(|it| it.name == "a").expect("there are links");
    expect(first.attribute("href") == Some("#main"), "the first link skips to the content".into());
    wrong
}

/// Whether an element has the name or the text that it needs.
fn is_named(page: &Document, element: &Element) -> bool {
    let is_given = |text: Option<&str>| text.is_some_and(|text| !text.trim().is_empty());
    let label = is_given(element.attribute("aria-label"));
    match element.name.as_str() {
        "input" if element.attribute("type") == Some("hidden") => true,
        "input" => {
            let id = element.attribute("id");
            page.all("label").any(|it| it.attribute("for") == id && is_given(Some(&it.text)))
        }
        "a" => element.attribute("href").is_some() && (label || is_given(Some(&element.text))),
        "button" => element.attribute("type") == Some("submit") && is_given(Some(&element.text)),
        "th" => ["row", "col"].contains(&element.attribute("scope").unwrap_or_default()),
        "table" => page.all("caption").any(|caption| {
            let table = caption.within.last().map(|place| &page.elements[*place]);
            table.is_some_and(|table| std::ptr::eq(table, element)) && is_given(Some(&caption.text))
        }),
        "meter" | "progress" => label && is_given(Some(&element.text)),
        "nav" => label,
        "section" => element.attribute("aria-labelledby").is_some(),
        "img" => element.attribute("alt").is_some(),
        "ul" | "dl" | "tr" => true,
        _ if element.attribute("role") == Some("region") => label,
        _ => true,
    }
}

/// R-OPS-1: landmarks, headings in order, names of everything that is used, unique ids.
#[test]
fn every_page_can_be_used_without_seeing_it() {
    for (name, html) in samples::all("x") {
        assert_eq!(check(&Document::read(&html)), [""; 0], "{name}");
    }
}

/// R-OPS-1: a colour is never alone: each state has a shape and a word.
#[test]
fn states_are_shapes_and_words() {
    let mut seen = 0;
    for (name, html) in samples::all("x") {
        let page = Document::read(&html);
        for (place, state) in page.elements.iter().enumerate() {
            if !state.attribute("class").is_some_and(|class| class.starts_with("state ")) {
                continue;
            }
            seen += 1;
            let inner = page.elements.iter().find(|it| it.within.last() == Some(&place));
            let shape = inner.expect("a shape").text.as_str();
            assert!(["●", "▲", "✕", "■"].contains(&shape), "{name}: {shape}");
            assert!(!state.text.replace(shape, "").trim().is_empty(), "{name}: {}", state.text);
        }
        let banners = page
            .elements
            .iter()
            .filter(|it| it.attribute("class").is_some_and(|class| class.starts_with("banner ")));
        for banner in banners {
            assert!(banner.text.starts_with(['✕', '▲']), "{name}: {}", banner.text);
        }
    }
    assert!(seen > 20, "{seen} states were looked at");
}

/// The checks find what they are for.
#[test]
fn checks_fail_where_something_is_missing() {
    let sound = samples::overview("x", samples::Had::Everything);
    let faults = [
        (" lang=\"en\"", "", "the language is said"),
        ("<label for=\"find-name\">Names with</label>", "", "has a name"),
        (" scope=\"col\"", "", "has a name"),
        (
            "<h2 id=\"nodes-heading\">Nodes</h2>",
            "<h4 id=\"nodes-heading\">Nodes</h4>",
            "h4 follows h2",
        ),
        ("id=\"nodes-heading\"", "id=\"deployments-heading\"", "deployments-heading is there once"),
        ("<caption>Nodes with what they run</caption>", "", "has a name"),
    ];
    for (from, to, expected) in faults {
        assert!(sound.contains(from), "{from}");
        let wrong = check(&Document::read(&sound.replacen(from, to, 1)));
        assert!(wrong.iter().any(|it| it.contains(expected)), "{from}: {wrong:?}");
    }
}
