//! Nothing that a message has is ever markup.

use proptest::prelude::*;

use crate::document::Document;
use crate::samples;

/// What a page consists of, without its texts.
fn shape(html: &str) -> Vec<(String, Option<String>)> {
    let elements = Document::read(html).elements;
    let shape = |element: &crate::document::Element| {
        (element.name.clone(), element.attribute("class").map(str::to_owned))
    };
    elements.iter().map(shape).collect()
}

/// Texts as hostile names, labels and messages of containers have them.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("<script>alert(1)</script>".to_owned()),
        Just("\"><img src=x onerror=alert(1)>".to_owned()),
        Just("' autofocus onfocus='alert(1)".to_owned()),
        Just("</title></textarea>".to_owned()),
        Just("javascript:alert(1)".to_owned()),
        Just("&lt;&amp;&#60;".to_owned()),
        Just("]]><!--".to_owned()),
        Just("\u{202e}gpj.exe".to_owned()),
        Just("\0\u{1b}[31m".to_owned()),
        "[a-z<>&\"'=/ ]{1,12}",
        any::<String>(),
    ];
    let text = proptest::collection::vec(pieces, 1..4).prop_map(|pieces| pieces.concat());
    text.prop_filter("a name is not empty", |text| !text.trim().is_empty())
}

proptest! {
    /// R-OPS-1, R-IN-3: whatever a message says, each page has the same elements.
    #[test]
    fn texts_change_no_structure(text in hostile()) {
        for ((name, plain), (_, found)) in samples::all("x").iter().zip(&samples::all(&text)) {
            prop_assert_eq!(shape(plain), shape(found), "{} of {:?}", name, text);
        }
    }
}

/// R-OPS-1: and it is shown, as it is.
#[test]
fn texts_are_shown() {
    let text = "<script>alert('1')</script> & \"more\"";
    for (name, html) in samples::all(text) {
        if name != "signed out" {
            assert!(Document::read(&html).one("body").text.contains(text), "{name}");
        }
        assert!(!html.contains("<script>"), "{name}");
    }
}

/// R-OPS-1: a page takes nothing from elsewhere, and has no script or style of its own.
#[test]
fn pages_load_only_what_the_node_has() {
    for (name, html) in samples::all("x") {
        for element in Document::read(&html).elements {
            assert!(element.name != "style", "{name}");
            assert!(element.name != "script" || element.text.is_empty(), "{name}");
            for (key, value) in &element.attributes {
                assert!(!key.starts_with("on") && key != "style", "{name}: {key}");
                if ["href", "src", "action"].contains(&key.as_str()) {
                    assert!(value.starts_with("/ui") || value.starts_with('#'), "{name}: {value}");
                }
            }
        }
    }
}
