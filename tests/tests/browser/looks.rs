//! How pages look: at every width and in both schemes, and the same whichever way they came to be.
//!
//! Pictures are compared with pictures of the same browser, not with kept ones: fonts differ from machine to machine.

use jaco_testkit::browser::Scripts;
use jaco_testkit::eventually;
use serde_json::{Value, json};

use crate::site::{STILL, all_pages, apply, cluster, signed_in, signed_in_by_link};

/// Texts whose contrast with what is behind them is less than WCAG 2.2 asks for (1.4.3), and texts that are cut off.
const FAINT: &str = r"
    const parts = (colour) => {
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (colour) => {
        const [r, g, b] = parts(colour).map((it) => it / 255).map((it) => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (parts(colour)[3] === 255) return colour;
        }
        return 'white';
    };
    const found = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = new Map();
    let count = 0;
    while (texts.nextNode()) {
        const holder = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !holder.checkVisibility()) continue;
        count += 1;
        const style = getComputedStyle(holder);
        const key = style.color + behind(holder);
        if (!seen.has(key)) {
            const [one, other] = [luminance(style.color), luminance(behind(holder))].sort((a, b) => b - a);
            seen.set(key, (one + 0.05) / (other + 0.05));
        }
        const contrast = seen.get(key);
        const size = parseFloat(style.fontSize);
        if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(2)}: ${texts.currentNode.data}`);
        if (size < 12) found.push(`${size} px: ${texts.currentNode.data}`);
    }
    return { count, found };
";

/// What is wider than the window, and what is meant to be hit and is too small (WCAG 2.2, 2.5.8: 24 by 24, or in a text).
const OUTSIDE: &str = r"
    const found = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const element of document.querySelectorAll('button, input:not([type=hidden]), nav a')) {
        const box = element.getBoundingClientRect();
        if (box.width < 24 || box.height < 24) found.push(`${element.outerHTML} is ${box.width} by ${box.height}`);
    }
    for (const element of document.querySelectorAll('h1, h2, p, form, .scroll, section')) {
        const box = element.getBoundingClientRect();
        if (box.width && !element.classList.contains('skip') && (box.left < 0 || box.right > width + 1)) found.push(element.outerHTML.slice(0, 200));
    }
    return found;
";

/// R-OPS-1: from 320 pixels to 4k, light and dark, nothing sticks out of the window, everything can be hit, and each text
/// stands out from what is behind it.
#[tokio::test(flavor = "multi_thread")]
async fn pages_fit_every_window() {
    let cluster = cluster().await;
    let browser = signed_in(&cluster, Scripts::Run, "/ui").await;
    for path in all_pages() {
        browser.open(path).await;
        for (width, height) in [(320, 640), (768, 1024), (1280, 800), (3840, 2160)] {
            browser.resize(width, height).await;
            assert_eq!(browser.run(OUTSIDE).await, json!([]), "{path} at {width}");
        }
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).await;
            let faint = browser.run(FAINT).await;
            assert_eq!(faint["found"], json!([]), "{path}, {scheme}");
            assert!(faint["count"].as_u64() > Some(10), "{path}, {scheme}: {faint}");
        }
    }
    let dark = browser.run("return getComputedStyle(document.body).backgroundColor").await;
    browser.prefer("light").await;
    let light = browser.run("return getComputedStyle(document.body).backgroundColor").await;
    assert_ne!(dark, light);
    // The checks find what they are for.
    browser
        .run(
            "const add = (style) => {
                 const line = document.body.appendChild(document.createElement('p'));
                 line.textContent = 'a line';
                 Object.assign(line.style, style);
             };
             add({ color: '#777', backgroundColor: '#888' });
             add({ width: '9999px' });",
        )
        .await;
    let faint = browser.run(FAINT).await;
    assert_eq!(faint["found"].as_array().map(Vec::len), Some(1), "{faint}");
    assert!(browser.run(OUTSIDE).await.as_array().is_some_and(|it| it.len() >= 2));
}

/// R-OPS-1: a page that has changed by itself is, to the pixel, the page that a browser without scripts loads then.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_changed_looks_as_one_that_was_loaded() {
    let cluster = cluster().await;
    for path in ["/ui", "/ui/deployments/shop"] {
        let changing = signed_in_by_link(&cluster, Scripts::Run, path).await;
        let first = changing.run(STILL).await;
        apply(&cluster, "shop", 9);
        apply(&cluster, "shop", 7);
        let loaded = signed_in_by_link(&cluster, Scripts::Blocked, path).await;
        let expected = loaded.run(STILL).await;
        assert_ne!(first, expected, "{path}: there is something to change");
        let picture = loaded.picture().await;
        assert!(picture.len() > 10_000, "there is a picture");
        eventually("the page that changed looks the same", || async {
            let now = changing.run(STILL).await;
            if now != expected {
                return Err(difference(&now, &expected));
            }
            if changing.picture().await == picture { Ok(()) } else { Err(path.to_owned()) }
        })
        .await;
        apply(&cluster, "shop", 5);
    }
}

/// Where two documents begin to differ.
fn difference(one: &Value, other: &Value) -> String {
    let (one, other) = (one.as_str().unwrap_or_default(), other.as_str().unwrap_or_default());
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let from = (0..=same.saturating_sub(80))
        .rev()
        .find(|at| one.is_char_boundary(*at) && other.is_char_boundary(*at));
    let shown = |text: &str| text.chars().skip(from.unwrap_or(0)).take(200).collect::<String>();
    format!("{:?}\nfor\n{:?}", shown(one), shown(other))
}
