// Keeps an open page up to date: fetches it again when the node says that something has changed, or adds the log lines that
// the node sends. Everything is there without it.
"use strict";
(() => {
  const RETRY_MS = 10000;
  const AGE_MS = 30000;
  // So much of an update is made at a time: in between the browser scrolls and takes input.
  const SLICE_MS = 8;
  // Characters that are parsed at a time.
  const PART = 8192;
  // Log lines that are added; what is older goes.
  const LINES_MAX = 5000;
  const state = document.getElementById("live");
  const main = document.getElementById("main");
  if (!state || !main || !(main.dataset.live || main.dataset.lines)) return;

  let source = null;
  let fetching = false;
  let again = false;
  let shownAt = Date.now();
  let timer = 0;

  const say = (text) => {
    if (state.textContent !== text) state.textContent = text;
  };
  const clock = (ms) => new Date(ms).toISOString().slice(11, 19) + " UTC";
  const isTyping = () => {
    const at = document.activeElement;
    return at && at.tagName === "INPUT" && main.contains(at);
  };

  // Changes what is different and leaves the rest, so that focus, selection and what was opened or scrolled stay.
  // Yields after each part, so that the caller can pause.
  function* patch(old, newer) {
    yield;
    if (old.isEqualNode(newer)) return;
    if (old.nodeName !== newer.nodeName || old.id !== newer.id) {
      old.replaceWith(newer);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.data = newer.data;
      return;
    }
    // What a user has opened stays open.
    const kept = (name) => newer.hasAttribute(name) || name === "open";
    for (const { name } of [...old.attributes]) if (!kept(name)) old.removeAttribute(name);
    for (const { name, value } of newer.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const parts = [...old.childNodes];
    const places = new Map(parts.map((part, place) => [keyOf(part), place]));
    let at = 0;
    for (const wanted of [...newer.childNodes]) {
      const key = keyOf(wanted);
      const place = key ? places.get(key) : undefined;
      if (place !== undefined && place >= at) {
        for (; at < place; at++) parts[at].remove();
      } else if (key || at === parts.length) {
        old.insertBefore(wanted, parts[at] || null);
        yield;
        continue;
      }
      yield* patch(parts[at++], wanted);
    }
    for (; at < parts.length; at++) parts[at].remove();
  }

  // What a part is known by among those beside it: its name, or the header of the row. Others are known by their order.
  const keyOf = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    return node.id || (node.nodeName === "TR" && node.cells[0] ? node.cells[0].textContent : "");
  };

  // Ends a turn of the browser once it has taken long enough, so that a frame can be drawn in between.
  const turns = () => {
    let began = performance.now();
    return async () => {
      if (performance.now() - began < SLICE_MS) return;
      await new Promise((resume) => setTimeout(resume, 0));
      began = performance.now();
    };
  };

  // Reads a document part by part. DOMParser would take a large one in one turn.
  const parse = async (text, pause) => {
    const page = document.implementation.createHTMLDocument();
    page.open();
    for (let at = 0; at < text.length; at += PART) {
      page.write(text.slice(at, at + PART));
      await pause();
    }
    page.close();
    return page;
  };

  // Makes this page as a newer one is.
  const show = async (text) => {
    const pause = turns();
    const page = await parse(text, pause);
    const newer = page.getElementById("main");
    if (!newer) return false;
    for (const _ of patch(main, newer)) await pause();
    document.title = page.title;
    return true;
  };

  const refresh = async () => {
    if (fetching || isTyping()) {
      again = true;
      return;
    }
    fetching = true;
    again = false;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
      const isLogin = new URL(answer.url).pathname === "/ui/login";
      if (answer.status === 401 || isLogin) {
        location.reload();
        return;
      }
      if (!(await show(await answer.text()))) {
        say("▲ This node gave no page (" + answer.status + "). What is shown is of " + clock(shownAt) + ".");
        return;
      }
      shownAt = Date.now();
      if (source && source.readyState === EventSource.OPEN) say("Live: this page changes by itself.");
    } catch {
      say("✕ No connection to this node. What is shown is of " + clock(shownAt) + ".");
    } finally {
      // A page that takes long is not fetched all the time, however much changes.
      setTimeout(() => {
        fetching = false;
        if (again && !isTyping()) refresh();
      }, performance.now() - began);
    }
  };

  // The lines that are as old as the newest one that is shown: they are sent again.
  let repeated = new Set();
  // Whoever reads further up is not disturbed by what is added below.
  let follows = true;
  const log = () => document.querySelector("pre.log");
  const toEnd = () => {
    if (follows) log().scrollTop = log().scrollHeight;
  };

  const add = (event) => {
    const lines = log();
    for (const line of event.data.split("\n")) if (!repeated.delete(line)) lines.append(line + "\n");
    while (lines.childNodes.length > LINES_MAX) lines.firstChild.remove();
    toEnd();
  };

  const followLines = () => {
    const shown = log().textContent.trimEnd().split("\n");
    const newest = shown.at(-1).split(" ")[0];
    repeated = new Set(shown.filter((line) => line.startsWith(newest)));
    toEnd();
    source = new EventSource(main.dataset.lines);
    source.addEventListener("lines", add);
  };

  const listen = () => {
    clearTimeout(timer);
    if (document.hidden || source) return;
    if (main.dataset.lines) {
      followLines();
    } else if (main.dataset.live) {
      source = new EventSource(main.dataset.live);
      source.addEventListener("changed", refresh);
    } else {
      // What was looked at is gone for now.
      timer = setTimeout(resume, RETRY_MS);
      return;
    }
    source.onopen = () => say("Live: this page changes by itself.");
    source.onerror = () => {
      say("▲ Not live at the moment. What is shown is of " + clock(shownAt) + ".");
      source.close();
      source = null;
      timer = setTimeout(resume, RETRY_MS);
    };
  };
  const resume = () => refresh().then(listen);

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(timer);
      if (source) source.close();
      source = null;
    } else {
      resume();
    }
  });
  document.addEventListener(
    "scroll",
    ({ target }) => {
      if (target === log()) follows = target.scrollTop + target.clientHeight >= target.scrollHeight - 4;
    },
    true,
  );
  document.addEventListener("focusout", () => {
    if (again) setTimeout(refresh, 0);
  });
  // Ages grow although nothing changes.
  setInterval(() => {
    if (!document.hidden && main.dataset.live) refresh();
  }, AGE_MS);
  listen();
})();
