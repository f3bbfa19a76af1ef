//! The files beside the pages.

use jaco_ui::{assets, headers};

/// R-OPS-1: assets are found where pages say they are, and nowhere else.
#[test]
fn assets_are_where_pages_say() {
    for asset in assets::ALL {
        let link = asset.link().to_string();
        let (path, version) = link.split_once("?v=").expect("a version");
        assert_eq!(assets::at(path).map(|it| it.name), Some(asset.name));
        assert_eq!(version.len(), 16);
        assert!(asset.content.is_ascii() || asset.name == "ui.js", "{}", asset.name);
    }
    for nowhere in ["/ui/assets/", "/ui/assets/ui.css/", "/ui/assets/../x", "/ui/ui.css", "ui.css"]
    {
        assert!(assets::at(nowhere).is_none(), "{nowhere}");
    }
}

/// R-OPS-1: nothing is loaded from elsewhere.
#[test]
fn assets_name_no_other_host() {
    for asset in assets::ALL {
        let content = asset.content.replace("http://www.w3.org/2000/svg", "");
        for other in ["http:", "https:", "//cdn", "@import", "url("] {
            assert!(!content.contains(other), "{} has {other}", asset.name);
        }
    }
}

/// R-OPS-1: the script makes no markup of texts, and runs none.
#[test]
fn the_script_makes_no_markup() {
    let script = assets::at("/ui/assets/ui.js").expect("there is one").content;
    for unsafe_call in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
    {
        assert!(!script.contains(unsafe_call), "{unsafe_call}");
    }
}

/// R-OPS-1: a browser may load what this node has, and nothing else; and shows it in no frame of others.
#[test]
fn headers_are_strict() {
    let policy = headers::CONTENT_SECURITY_POLICY;
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "base-uri 'none'",
    ] {
        assert!(policy.split("; ").any(|it| it.trim() == rule), "{rule}");
    }
    for loose in ["unsafe", "*", "data:", "http"] {
        assert!(!policy.contains(loose), "{loose}");
    }
    assert!(headers::ALWAYS.contains(&("x-content-type-options", "nosniff")));
    assert!(headers::ALWAYS.contains(&("referrer-policy", "same-origin")));
}
