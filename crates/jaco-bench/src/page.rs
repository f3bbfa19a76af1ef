//! The page of a node in a browser, on a cluster with 1,000 replicas.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jaco_client::fresh_request_id;
use jaco_proto::v1;
use jaco_testkit::browser::{Browser, Scripts, Site};
use jaco_testkit::{Engine, eventually};
use serde_json::{Value, json};

use crate::Plan;
use crate::figure::{Figure, say};
use crate::ours::Ours;
use crate::proc::resident_bytes;

const DEPLOYMENT: &str = "many";
const REPLICAS: usize = 1_000;

/// Times that a page is loaded, and changes that are waited for, in a round.
const LOADS: usize = 10;

/// Changes of an open page before its memory is looked at first: what is compiled and cached for the first ones stays as it is.
const WARM_UP: u64 = 100;

/// Changes between two looks.
const UPDATES: u64 = 200;

const MEBI: f64 = 1024.0 * 1024.0;

/// Loads, changes and scrolls the page as a user does.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let ours = Ours::start(Engine::Fake).await?;
    scale(&ours, REPLICAS).await?;
    ours.running(DEPLOYMENT, REPLICAS, Duration::from_secs(120)).await;
    let pid = ours.cluster.nodes[0].pid();
    let before = resident_bytes(pid)?;
    let browser = browser(&ours).await?;
    let mut paints = Vec::new();
    let mut transfers = Vec::new();
    let mut updates = Vec::new();
    let mut frames = Vec::new();
    let mut growths = Vec::new();
    for _ in 0..plan.rounds {
        let (paint, kilobytes) = load(&browser).await?;
        let update = change(&ours, &browser).await?;
        let frame = scroll(&ours, &browser).await?;
        let growth = grow(&ours, &browser).await?;
        say(&format!(
            "first paint {paint:?} ms, {kilobytes:.0} kB, a change shown after {update:?} ms, longest frame {frame:.0} ms, \
             {growth:.2} MiB in 1,000 changes"
        ));
        paints.push(paint);
        transfers.push(kilobytes);
        updates.push(update);
        frames.push(frame);
        growths.push(growth);
    }
    let held = megabytes(resident_bytes(pid)?) - megabytes(before);
    Ok(vec![
        Figure::alone("page, first paint", "ms", paints),
        Figure::alone("page, transferred, overview", "kB", transfers),
        Figure::alone("page, commit to shown", "ms", updates),
        Figure::alone("page, longest frame, 1,000 replicas change", "ms", frames),
        Figure::alone("page, memory of 1,000 changes", "MiB", growths),
        Figure::alone("page, memory of its daemon", "MiB", vec![held]),
    ])
}

async fn scale(ours: &Ours, replicas: usize) -> Result<()> {
    let model = json!({"name": DEPLOYMENT, "services": {"web": {
        "image": "jaco-hello:v1", "deploy": {"replicas": replicas},
    }}});
    ours.apply(&ours.client(0)?, model).await
}

/// A browser that is signed in at the first node.
async fn browser(ours: &Ours) -> Result<Browser> {
    let mut authority = tempfile::NamedTempFile::new()?;
    authority.write_all(ours.authority_pem.as_bytes())?;
    let site = Site {
        name: format!("{}.internal", ours.id),
        address: ours.cluster.nodes[0].address.clone(),
        authority: authority.path().to_owned(),
    };
    let browser = Browser::start(&site, Scripts::Run).await;
    browser.open("/ui").await;
    browser.fill("#token", &ours.token).await;
    browser.follow("form.login button").await;
    ensure!(browser.path().await == "/ui", "the browser is not signed in");
    Ok(browser)
}

/// The median time to the first paint of the overview, in milliseconds, and what a browser transfers that has nothing of it.
async fn load(browser: &Browser) -> Result<(f64, f64)> {
    browser.chromium("Network.enable", json!({})).await;
    browser.chromium("Network.setCacheDisabled", json!({"cacheDisabled": true})).await;
    let mut paints = Vec::new();
    let mut kilobytes = 0.0;
    for _ in 0..LOADS {
        browser.open("/ui").await;
        let seen = browser
            .run_async(
                "const done = arguments[arguments.length - 1];
                 new PerformanceObserver((list) => {
                     const paint = list.getEntriesByName('first-contentful-paint')[0];
                     if (!paint) return;
                     const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
                     const own = loaded.filter((one) => one.initiatorType !== 'fetch');
                     done([paint.startTime, own.reduce((sum, one) => sum + one.transferSize, 0)]);
                 }).observe({ type: 'paint', buffered: true });",
            )
            .await;
        paints.push(number(&seen[0])?);
        kilobytes = number(&seen[1])? / 1e3;
    }
    browser.chromium("Network.setCacheDisabled", json!({"cacheDisabled": false})).await;
    Ok((median(paints), kilobytes))
}

/// The median time from the request for a change to the moment when the overview shows it, in milliseconds: the commit lies
/// between.
async fn change(ours: &Ours, browser: &Browser) -> Result<f64> {
    browser.open("/ui").await;
    browser
        .run(
            "window.seen = [];
             const state = () => document.querySelector('#nodes').textContent.includes('cordoned');
             let last = state();
             new MutationObserver(() => {
                 if (state() === last) return;
                 last = !last;
                 requestAnimationFrame(() => window.seen.push(performance.timeOrigin + performance.now()));
             }).observe(document.getElementById('main'), { subtree: true, childList: true, characterData: true, attributes: true });",
        )
        .await;
    let client = ours.client(0)?;
    let mut took = Vec::new();
    for at in 0..LOADS {
        let availability = if at % 2 == 0 { "cordoned" } else { "active" };
        // Not while the page still waits after the change before.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = now_ms()?;
        let request = v1::SetAvailabilityRequest {
            hostname: ours.cluster.nodes[2].name.clone(),
            availability: availability.to_owned(),
            request_id: fresh_request_id(),
            ..v1::SetAvailabilityRequest::default()
        };
        client.set_availability(request).await.context("a node is cordoned")?;
        let seen = eventually("the page shows the change", || async {
            let seen = browser.run("return window.seen").await;
            let moments = seen.as_array().cloned().unwrap_or_default();
            if moments.len() == at + 1 { Ok(moments[at].clone()) } else { Err(seen) }
        })
        .await;
        took.push(number(&seen)? - begun);
    }
    Ok(median(took))
}

/// The longest frame while the list of all replicas is scrolled and some of them change, in milliseconds.
async fn scroll(ours: &Ours, browser: &Browser) -> Result<f64> {
    browser.open(&format!("/ui/deployments/{DEPLOYMENT}")).await;
    let rows = browser.run("return document.querySelectorAll('#replicas tbody tr').length").await;
    ensure!(number(&rows)? >= 1_000.0, "the page has {rows} rows");
    // What the first look at a page costs is over.
    tokio::time::sleep(Duration::from_secs(2)).await;
    browser
        .run(
            "window.frames_seen = [];
             window.scrolling = true;
             let last = performance.now(), down = true;
             const step = (now) => {
                 window.frames_seen.push(now - last);
                 last = now;
                 if (scrollY + innerHeight >= document.documentElement.scrollHeight - 1) down = false;
                 if (scrollY === 0) down = true;
                 scrollBy(0, down ? 40 : -40);
                 if (window.scrolling) requestAnimationFrame(step);
             };
             requestAnimationFrame(step);",
        )
        .await;
    for replicas in [REPLICAS - 20, REPLICAS] {
        scale(ours, replicas).await?;
        ours.running(DEPLOYMENT, replicas, Duration::from_secs(60)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let longest = browser
        .run("window.scrolling = false; return [Math.max(...window.frames_seen), window.frames_seen.length]")
        .await;
    ensure!(number(&longest[1])? > 100.0, "only {} frames were drawn", longest[1]);
    number(&longest[0])
}

/// By how much the page grows in 1,000 changes, in MiB, as it does in the last of so many.
async fn grow(ours: &Ours, browser: &Browser) -> Result<f64> {
    browser.open("/ui").await;
    browser
        .run(
            "window.updates = 0;
             new MutationObserver(() => { window.updates += 1; })
                 .observe(document.querySelector('.answered'), { subtree: true, childList: true, characterData: true });",
        )
        .await;
    changed(ours, browser, WARM_UP).await?;
    let early = heap(browser).await?;
    let begun = number(&browser.run("return window.updates").await)?;
    changed(ours, browser, WARM_UP + UPDATES).await?;
    let late = heap(browser).await?;
    let updates = number(&browser.run("return window.updates").await)? - begun;
    Ok((late - early) / MEBI * 1_000.0 / updates)
}

/// Changes the cluster until the page has followed so often.
async fn changed(ours: &Ours, browser: &Browser, times: u64) -> Result<()> {
    let client = ours.client(0)?;
    loop {
        let seen = browser.run("return window.updates").await;
        if seen.as_u64() >= Some(times) {
            return Ok(());
        }
        crate::ours::write(&client).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What scripts and documents hold once the garbage is gone, in bytes.
async fn heap(browser: &Browser) -> Result<f64> {
    browser.chromium("HeapProfiler.collectGarbage", json!({})).await;
    let usage = browser.chromium("Runtime.getHeapUsage", json!({})).await;
    let embedder = usage["embedderHeapUsedSize"].as_f64().unwrap_or_default();
    Ok(number(&usage["usedSize"])? + embedder)
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("the browser says {value}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn megabytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

fn now_ms() -> Result<f64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(now.as_secs_f64() * 1e3)
}
