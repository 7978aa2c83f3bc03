// What pages do beyond plain links and forms: they keep themselves up to date, and
// can be used by keyboard. Without it every page works, and stays as it was loaded.
(() => {
  "use strict";
  const root = document.documentElement;
  const body = document.body;
  const typing = (element) => element && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));

  // Morphing keeps what the reader has opened, and what is being typed. A button that has
  // the focus is brought up to date as all else: it is to say what it does now.
  Object.defineProperty(Idiomorph.defaults, "ignoreActiveValue", { enumerable: true, get: () => Boolean(typing(document.activeElement)) });
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
    !(name === "open" && node.tagName === "DETAILS");
  // What was loaded on demand stays, too: [data-keep] never changes on the server.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !node.dataset?.keep;
  document.addEventListener("htmx:afterSwap", (event) => {
    const kept = event.detail.target?.dataset;
    if (kept && "keep" in kept) kept.keep = "loaded";
  });

  // What failed is tried again at the next change, or as soon as the connection is back.
  const banner = document.querySelector("[data-banner]");
  let said = "";
  function say(text) {
    if (said === text) return;
    said = text;
    banner.textContent = text;
    banner.hidden = text === "";
  }
  function refresh() {
    for (const element of document.querySelectorAll('[hx-trigger~="live"]')) htmx.trigger(element, "live");
  }
  // What changes while an update is under way is asked for when that has ended.
  const owed = new Set();
  let asked = false;
  document.addEventListener("live", (event) => {
    if (!asked) owed.add(event.target.id);
    asked = false;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const id = event.detail.target?.id;
    if (!owed.delete(id)) return;
    setTimeout(() => {
      const element = document.getElementById(id);
      if (element) htmx.trigger(element, "live");
    });
  });

  // What was missed while nobody listened is the first change that is told.
  let source = null;
  let delay = 500;
  function follow() {
    if (source || !body.dataset.live || document.hidden) return;
    source = new EventSource(body.dataset.live);
    source.addEventListener("open", () => {
      delay = 500;
      say("");
    });
    source.addEventListener("change", refresh);
    source.addEventListener("api", (event) => {
      say(event.data === "gone" ? "The API server does not answer. What you see is how it was; this page comes back by itself." : "");
      if (event.data !== "gone") refresh();
    });
    source.addEventListener("expired", () => {
      leave();
      delete body.dataset.live;
      location.reload();
    });
    source.addEventListener("error", () => {
      leave();
      if (document.hidden) return;
      say("No connection to Setpoint. What you see is how it was; trying again.");
      setTimeout(follow, delay);
      delay = Math.min(delay * 2, 8000);
    });
  }
  function leave() {
    source?.close();
    source = null;
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));
  // A page in the background keeps no connection, of which a browser has few. It looks
  // from time to time, so that its title and what is seen of it are not old.
  setInterval(() => {
    if (document.hidden && body.dataset.live) refresh();
  }, 30000);
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", follow);
  follow();

  // Light or dark, by choice.
  const toggle = document.querySelector("[data-theme-toggle]");
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("setpoint-theme", root.dataset.theme);
    } catch { /* Kept for this page alone, then. */ }
  });

  // Filters answer as they are typed into, and are links to what they show. One that
  // leads to another page waits until somebody is done with it.
  let pause = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-filter][hx-get]");
    if (!form) return;
    clearTimeout(pause);
    pause = setTimeout(() => form.requestSubmit(), 250);
  });
  document.addEventListener("change", (event) => event.target.closest("form[data-filter]:not([hx-get])")?.requestSubmit());

  // Who types uses the session, and hears in time that it has ended.
  let typed = Date.now();
  document.addEventListener("input", async (event) => {
    if (!event.target.closest("#draft") || Date.now() - typed < 60000) return;
    typed = Date.now();
    const answer = await fetch("/here", { headers: { "HX-Request": "true" } }).catch(() => null);
    if (answer?.status === 401) say("Your session has ended. Copy what you have entered, sign in again in another tab, and enter it there.");
  });

  // What is not asked for is not in the address; what came of a form is said.
  // What a page asks for by itself keeps no session alive.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.triggeringEvent?.type === "live") {
      asked = true;
      event.detail.headers["X-Live"] = "yes";
      // A page that a filter has led elsewhere is refreshed as it is addressed now.
      if (new URL(event.detail.path, location.href).pathname === location.pathname) event.detail.path = location.pathname + location.search;
    }
    if (event.detail.verb !== "get") return;
    for (const [name, value] of [...event.detail.formData.entries()]) if (value === "") event.detail.formData.delete(name);
  });
  const saying = document.querySelector("[data-said]");
  let hush = 0;
  function tell(text) {
    saying.textContent = text;
    saying.hidden = false;
    clearTimeout(hush);
    hush = setTimeout(() => (saying.hidden = true), 5000);
  }
  document.addEventListener("said", (event) => tell(event.detail.value));
  document.addEventListener("htmx:responseError", (event) => {
    const problem = event.detail.xhr.getResponseHeader("X-Problem");
    if (event.detail.requestConfig.verb !== "get") tell(problem ? decodeURIComponent(problem) : "That did not work.");
  });

  // Keys: "/" to the filter, "?" for what there is, "g" and a letter to a page.
  const help = document.querySelector("[data-keys]");
  let lead = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event.target)) return event.target.blur();
    if (typing(event.target) || help.open) return;
    if (event.key === "/") {
      const filter = document.querySelector("[data-filter] input[type=search]");
      if (!filter) return;
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "?") {
      help.showModal();
    } else if (event.key === "g") {
      lead = Date.now();
    } else if (Date.now() - lead < 1500) {
      lead = 0;
      const link = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
      if (link) location.assign(link.href);
    }
  });
  const keys = document.querySelector("[data-keys-open]");
  keys.hidden = false;
  keys.addEventListener("click", () => help.showModal());

  // What is destroyed is confirmed; what is copied says so.
  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]");
    if (!copy) return;
    navigator.clipboard?.writeText(document.getElementById(copy.dataset.copy).textContent);
    copy.dataset.copied = "";
    setTimeout(() => delete copy.dataset.copied, 1500);
  });
})();
