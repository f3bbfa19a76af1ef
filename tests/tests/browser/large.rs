//! A page of many replicas that stays open for long.

use jaco_testkit::browser::Scripts;
use jaco_testkit::{Cluster, Engine, eventually};
use serde_json::json;

use crate::site::{apply, jaco, signed_in};

/// R-OPS-1: of a page with 1,000 replicas a change of one of them changes its row and the counts, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_one_of_1000_replicas_changes_its_row() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    apply(&cluster, "shop", 998);
    let browser = signed_in(&cluster, Scripts::Run, "/ui/deployments/shop").await;
    let rows = "return document.querySelectorAll('#replicas tbody tr').length";
    assert_eq!(browser.run(rows).await, json!(999));
    // Those out of sight are not drawn, and not laid out again when others change.
    let drawn = "return [...document.querySelectorAll('#replicas tbody tr')]
        .filter((row) => row.cells[0].checkVisibility({ contentVisibilityAuto: true })).length";
    browser.run("document.getElementById('replicas').scrollIntoView()").await;
    eventually("rows in sight are drawn, and no others", || async {
        let drawn = browser.run(drawn).await;
        if (5..200).contains(&drawn.as_u64().unwrap_or_default()) { Ok(()) } else { Err(drawn) }
    })
    .await;
    browser
        .run(
            "window.kept = [...document.querySelectorAll('#replicas tbody tr')];
             window.changed = 0;
             window.texts = 0;
             new MutationObserver((all) => {
                 for (const one of all) {
                     if (one.type === 'childList') window.changed += one.addedNodes.length + one.removedNodes.length;
                     else if (!one.target.parentElement.closest('time')) window.texts += 1;
                 }
             }).observe(document.getElementById('main'), { subtree: true, childList: true, characterData: true });",
        )
        .await;
    jaco(&cluster, &["scale", "shop/web", "999"]);
    eventually("the page has the new replica", || async {
        let rows = browser.run(rows).await;
        let state = browser.run("return document.querySelector('[id$=\"shop-web-998\"]')?.closest('tr').textContent || ''").await;
        let is_there = rows == json!(1000) && state.as_str().is_some_and(|it| it.contains("running"));
        if is_there { Ok(()) } else { Err(format!("{rows}: {state}")) }
    })
    .await;
    let state = browser
        .run("return [window.changed, window.texts, window.kept.every((row) => row.isConnected)]")
        .await;
    assert_eq!(state[2], json!(true), "the other rows are the same ones");
    // A row, a place on the map, a rollout with its steps; and the counts.
    assert!(state[0].as_u64().is_some_and(|changed| (1..150).contains(&changed)), "{state}");
    assert!(state[1].as_u64().is_some_and(|texts| texts < 150), "{state}");
}

/// R-OPS-1: a page that stays open holds no more after forty changes than after the first ten.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_stays_open_does_not_grow() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    apply(&cluster, "shop", 50);
    let browser = signed_in(&cluster, Scripts::Run, "/ui/deployments/shop").await;
    browser
        .run(
            "window.updates = 0;
             new MutationObserver(() => { window.updates += 1; })
                 .observe(document.querySelector('.answered'), { subtree: true, childList: true, characterData: true });",
        )
        .await;
    let grow = async |until: u64| {
        let mut replicas = 50;
        while browser.run("return window.updates").await.as_u64() < Some(until) {
            replicas = 101 - replicas;
            jaco(&cluster, &["scale", "shop/web", &replicas.to_string()]);
        }
        jaco(&cluster, &["scale", "shop/web", "50"]);
        eventually("it shows the last change", || async {
            let rows =
                browser.run("return document.querySelectorAll('#replicas tbody tr').length").await;
            if rows == json!(51) { Ok(()) } else { Err(rows) }
        })
        .await;
        browser.chromium("HeapProfiler.collectGarbage", json!({})).await;
        browser.chromium("Memory.getDOMCounters", json!({})).await
    };
    let early = grow(10).await;
    let late = grow(40).await;
    for what in ["documents", "jsEventListeners", "nodes"] {
        let (early, late) =
            (early[what].as_u64().expect("a count"), late[what].as_u64().expect("a count"));
        assert!(late <= early + early / 5 + 10, "{what}: {early}, then {late}");
    }
}
