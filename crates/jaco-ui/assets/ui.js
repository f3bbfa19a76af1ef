// Fetches the page again when the node says that something has changed. Everything is there without it.
"use strict";
(() => {
  const RETRY_MS = 10000;
  const AGE_MS = 30000;
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

  // Puts the content of a newer page in the place of this one's.
  const show = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const newer = page.getElementById("main");
    if (!newer) return false;
    const focused = document.activeElement;
    const link = focused && main.contains(focused) ? focused.getAttribute("href") : null;
    const boxes = [...main.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    main.replaceChildren(...newer.childNodes);
    main.dataset.live = newer.dataset.live || main.dataset.live;
    document.title = page.title;
    [...main.querySelectorAll(".scroll")].forEach((box, at) => {
      box.scrollLeft = boxes[at] || 0;
    });
    if (link) {
      const same = [...main.querySelectorAll("a")].find((one) => one.getAttribute("href") === link);
      if (same) same.focus({ preventScroll: true });
    }
    return true;
  };

  const refresh = async () => {
    if (fetching || isTyping()) {
      again = true;
      return;
    }
    fetching = true;
    again = false;
    try {
      const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
      const isLogin = new URL(answer.url).pathname === "/ui/login";
      if (answer.status === 401 || isLogin) {
        location.reload();
        return;
      }
      if (!show(await answer.text())) {
        say("▲ This node gave no page (" + answer.status + "). What is shown is of " + clock(shownAt) + ".");
        return;
      }
      shownAt = Date.now();
      if (source && source.readyState === EventSource.OPEN) say("Live: this page changes by itself.");
    } catch {
      say("✕ No connection to this node. What is shown is of " + clock(shownAt) + ".");
    } finally {
      fetching = false;
      if (again && !isTyping()) refresh();
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
