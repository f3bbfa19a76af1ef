//! Pages as those use them who do not see them or have no mouse: what Chromium tells a screen reader, and the keyboard.
//!
//! The rules are those of WCAG 2.2 A and AA that the tree of accessibility can show.

use std::collections::BTreeMap;

use jaco_testkit::browser::{Browser, Scripts};
use serde_json::{Value, json};

use crate::site::{all_pages, cluster, signed_in};

/// Roles of what can be operated, or has to be told apart by its name.
const NAMED: [&str; 14] = [
    "button",
    "checkbox",
    "combobox",
    "link",
    "listbox",
    "menuitem",
    "meter",
    "progressbar",
    "radio",
    "region",
    "searchbox",
    "spinbutton",
    "textbox",
    "image",
];

struct Tree {
    /// Role, name, and further properties.
    nodes: Vec<(String, String, BTreeMap<String, Value>)>,
}

impl Tree {
    async fn of(browser: &Browser) -> Self {
        browser.chromium("Accessibility.enable", json!({})).await;
        let tree = browser.chromium("Accessibility.getFullAXTree", json!({})).await;
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().expect("nodes").iter();
        let shown = nodes.filter(|node| node["ignored"] != json!(true));
        let nodes = shown.map(|node| {
            let properties = node["properties"].as_array().cloned().unwrap_or_default();
            let properties = properties.iter().map(|one| {
                (one["name"].as_str().unwrap_or_default().to_owned(), one["value"]["value"].clone())
            });
            (text(&node["role"]), text(&node["name"]), properties.collect())
        });
        Self { nodes: nodes.collect() }
    }

    fn count(&self, role: &str) -> usize {
        self.nodes.iter().filter(|(it, ..)| it == role).count()
    }

    /// What breaks a rule.
    fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (role, name, _) in &self.nodes {
            if NAMED.contains(&role.as_str()) && name.trim().is_empty() {
                found.push(format!("a {role} without a name"));
            }
        }
        for role in ["main", "banner", "contentinfo", "navigation"] {
            if self.count(role) != 1 {
                found.push(format!("{} times {role}", self.count(role)));
            }
        }
        let levels: Vec<i64> = self
            .nodes
            .iter()
            .filter(|(role, ..)| role == "heading")
            .map(|(_, _, properties)| properties["level"].as_i64().unwrap_or_default())
            .collect();
        if levels.first() != Some(&1) || levels.iter().filter(|level| **level == 1).count() != 1 {
            found.push(format!("the headings have the levels {levels:?}"));
        }
        if levels.windows(2).any(|two| two[1] > two[0] + 1) {
            found.push(format!("headings skip a level: {levels:?}"));
        }
        let tables = self.count("table");
        if tables > 0 && (self.count("columnheader") < 2 * tables || self.count("rowheader") == 0) {
            found.push(format!("{tables} tables without headers"));
        }
        let mut regions: Vec<&str> = self
            .nodes
            .iter()
            .filter(|(role, ..)| role == "region")
            .map(|(_, name, _)| name.as_str())
            .collect();
        regions.sort_unstable();
        if let Some(two) = regions.windows(2).find(|two| two[0] == two[1]) {
            found.push(format!("two regions are called {}", two[0]));
        }
        found
    }
}

/// R-OPS-1: what a screen reader is told of each page has names, landmarks, headings in order, and tables with headers.
#[tokio::test(flavor = "multi_thread")]
async fn screen_readers_find_their_way() {
    let cluster = cluster().await;
    let browser = signed_in(&cluster, Scripts::Run, "/ui").await;
    let mut titles = Vec::new();
    for path in all_pages() {
        browser.open(path).await;
        let tree = Tree::of(&browser).await;
        assert_eq!(tree.problems(), Vec::<String>::new(), "{path}");
        assert!(tree.count("link") >= 3 && tree.nodes.len() > 40, "{path}: {}", tree.nodes.len());
        let page = browser.run("return [document.title, document.documentElement.lang]").await;
        assert_eq!(page[1], json!("en"), "{path}");
        titles.push(page[0].as_str().expect("a title").to_owned());
        // What the script says of itself is announced.
        let live = tree.nodes.iter().find(|(role, ..)| role == "status");
        assert_eq!(live.expect("a status").2["live"], json!("polite"), "{path}");
    }
    titles.sort();
    titles.dedup();
    assert_eq!(titles.len(), all_pages().len(), "{titles:?}");
    // The checks find what they are for.
    browser
        .run(
            "document.querySelector('nav').removeAttribute('aria-label');
             document.querySelector('main').insertAdjacentHTML('beforeend', '<button></button><h4>x</h4>');",
        )
        .await;
    let broken = Tree::of(&browser).await.problems();
    assert!(broken.contains(&"a button without a name".to_owned()), "{broken:?}");
    assert!(broken.iter().any(|it| it.contains("skip a level")), "{broken:?}");
}

/// R-OPS-1: with the keyboard alone everything is reached in its order, what has the focus is seen to have it, and the first
/// stop leads past the header.
#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_reaches_everything() {
    const TAB: &str = "\u{e004}";
    const ENTER: &str = "\u{e007}";
    let cluster = cluster().await;
    let browser = signed_in(&cluster, Scripts::Run, "/ui").await;
    for path in all_pages() {
        browser.open(path).await;
        let all = browser
            .run(
                "window.order = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), [tabindex=\"0\"]')];
                 return window.order.length;",
            )
            .await
            .as_u64()
            .expect("a number");
        assert!(all > 5, "{path}: {all}");
        for at in 0..all {
            browser.press(TAB).await;
            let state = browser
                .run(
                    "const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
                     return [window.order.indexOf(at), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
                             box.bottom > 0 && box.top < innerHeight, at.outerHTML.slice(0, 120)]",
                )
                .await;
            assert_eq!(state[0], json!(at), "{path}: {state}");
            assert_eq!((&state[1], &state[2]), (&json!(true), &json!(true)), "{path}: {state}");
        }
    }
    browser.open("/ui").await;
    browser.press(TAB).await;
    browser.press(ENTER).await;
    assert_eq!(browser.run("return document.activeElement.id").await, json!("main"));
}
