// Fetches the page again when the node says that something has changed. Everything is there without it.
"use strict";
(() => {
  const RETRY_MS = 10000;
  const AGE_MS = 30000;
  // So much of an update is made at a time: in between the browser scrolls and takes input.
  const SLICE_MS = 12;
  const state = document.getElementById("live");
  const main = document.getElementById("main");
  if (!state || !main || !main.dataset.live) return;

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
    if (old.isEqualNode(newer)) return;
    if (old.nodeName !== newer.nodeName || old.id !== newer.id) {
      old.replaceWith(newer);
      yield;
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.data = newer.data;
      yield;
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
  const nextFrame = () => new Promise((resume) => setTimeout(resume, 0));

  // Makes this page as a newer one is.
  const show = async (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const newer = page.getElementById("main");
    if (!newer) return false;
    await nextFrame();
    let began = performance.now();
    for (const _ of patch(main, document.adoptNode(newer))) {
      if (performance.now() - began < SLICE_MS) continue;
      await nextFrame();
      began = performance.now();
    }
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

  const listen = () => {
    clearTimeout(timer);
    if (document.hidden || source) return;
    source = new EventSource(main.dataset.live);
    source.addEventListener("changed", refresh);
    source.onopen = () => say("Live: this page changes by itself.");
    source.onerror = () => {
      say("▲ Not live at the moment. What is shown is of " + clock(shownAt) + ".");
      source.close();
      source = null;
      timer = setTimeout(() => {
        refresh().then(listen);
      }, RETRY_MS);
    };
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(timer);
      if (source) source.close();
      source = null;
    } else {
      refresh().then(listen);
    }
  });
  document.addEventListener("focusout", () => {
    if (again) setTimeout(refresh, 0);
  });
  // Ages grow although nothing changes.
  setInterval(() => {
    if (!document.hidden) refresh();
  }, AGE_MS);
  listen();
})();
