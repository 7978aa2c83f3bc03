// Live updates and keyboard shortcuts. Every page also works without this script.
(() => {
  "use strict";
  const root = document.documentElement;
  const body = document.body;
  const typing = (element) => element && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));

  // Morphing keeps open details and the text of a focused input. A focused button is
  // updated like everything else, since its label may change.
  Object.defineProperty(Idiomorph.defaults, "ignoreActiveValue", { enumerable: true, get: () => Boolean(typing(document.activeElement)) });
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
    !(name === "open" && node.tagName === "DETAILS");
  // Content loaded on demand stays: [data-keep] never changes on the server.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !node.dataset?.keep;
  document.addEventListener("htmx:afterSwap", (event) => {
    const data = event.detail.target?.dataset;
    if (data && "keep" in data) data.keep = "loaded";
  });

  const banner = document.querySelector("[data-banner]");
  let bannerText = "";
  function showBanner(text) {
    if (bannerText === text) return;
    bannerText = text;
    banner.textContent = text;
    banner.hidden = text === "";
  }
  // A slow page refreshes less often, so that it uses only a fraction of the API server's
  // time: it rests five times as long as the last refresh took, at most a minute.
  let began = 0;
  let restUntil = 0;
  let resting = 0;
  function refresh() {
    clearTimeout(resting);
    const rest = restUntil - Date.now();
    if (rest > 0) {
      resting = setTimeout(refresh, rest);
      return;
    }
    for (const element of document.querySelectorAll('[hx-trigger~="live"]')) htmx.trigger(element, "live");
  }
  // A change that arrives during a refresh triggers another refresh afterwards.
  const pending = new Set();
  let requested = false;
  document.addEventListener("live", (event) => {
    if (!requested) pending.add(event.target.id);
    requested = false;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.requestConfig.triggeringEvent?.type === "live") {
      restUntil = Date.now() + Math.min(5 * (Date.now() - began), 60000);
    }
    if (pending.delete(event.detail.target?.id)) setTimeout(refresh);
  });

  // The server sends a change when the stream opens, so that nothing is missed.
  let source = null;
  let delay = 500;
  function connect() {
    if (source || !body.dataset.live || document.hidden) return;
    source = new EventSource(body.dataset.live);
    source.addEventListener("open", () => {
      delay = 500;
      showBanner("");
    });
    source.addEventListener("change", refresh);
    source.addEventListener("api", (event) => {
      showBanner(event.data === "down" ? "API server unreachable. This page shows the last known state and updates automatically." : "");
      if (event.data !== "down") refresh();
    });
    source.addEventListener("expired", () => {
      disconnect();
      delete body.dataset.live;
      location.reload();
    });
    source.addEventListener("error", () => {
      disconnect();
      if (document.hidden) return;
      showBanner("No connection to Setpoint. This page shows the last known state. Reconnecting.");
      setTimeout(connect, delay);
      delay = Math.min(delay * 2, 8000);
    });
  }
  function disconnect() {
    source?.close();
    source = null;
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  // A page in the background closes its connection, since browsers allow only a few, and
  // polls instead.
  setInterval(() => {
    if (document.hidden && body.dataset.live) refresh();
  }, 30000);
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", connect);
  connect();

  // Light or dark theme.
  const toggle = document.querySelector("[data-theme-toggle]");
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("setpoint-theme", root.dataset.theme);
    } catch { /* The choice lasts for this page only. */ }
  });

  // Filters apply while typing. A filter that opens another page waits for a change event.
  let filterTimer = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-filter][hx-get]");
    if (!form) return;
    clearTimeout(filterTimer);
    filterTimer = setTimeout(() => form.requestSubmit(), 250);
  });
  document.addEventListener("change", (event) => event.target.closest("form[data-filter]:not([hx-get])")?.requestSubmit());

  // Typing keeps the session alive, and the user learns early that it has expired.
  let typed = Date.now();
  document.addEventListener("input", async (event) => {
    if (!event.target.closest("#draft") || Date.now() - typed < 60000) return;
    typed = Date.now();
    const response = await fetch("/session", { headers: { "HX-Request": "true" } }).catch(() => null);
    if (response?.status === 401) showBanner("Your session has expired. Copy your input, sign in again in another tab, and paste it there.");
  });

  // Empty parameters stay out of the URL. X-Live marks refreshes, which do not keep a session alive.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.triggeringEvent?.type === "live") {
      requested = true;
      began = Date.now();
      event.detail.headers["X-Live"] = "yes";
      // Refresh with the current query, which a filter may have changed.
      if (new URL(event.detail.path, location.href).pathname === location.pathname) event.detail.path = location.pathname + location.search;
    }
    if (event.detail.verb !== "get") return;
    for (const [name, value] of [...event.detail.formData.entries()]) if (value === "") event.detail.formData.delete(name);
  });
  const toast = document.querySelector("[data-toast]");
  let toastTimer = 0;
  function showToast(text) {
    toast.textContent = text;
    toast.hidden = false;
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => (toast.hidden = true), 5000);
  }
  document.addEventListener("toast", (event) => showToast(event.detail.value));
  document.addEventListener("htmx:responseError", (event) => {
    const problem = event.detail.xhr.getResponseHeader("X-Problem");
    if (event.detail.requestConfig.verb !== "get") showToast(problem ? decodeURIComponent(problem) : "Request failed.");
  });

  // Keyboard shortcuts: "/" focuses the filter, "?" shows help, "g" and a letter opens a page.
  const help = document.querySelector("[data-keys]");
  let lead = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event.target)) return event.target.blur();
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
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

  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]");
    if (!copy) return;
    navigator.clipboard?.writeText(document.getElementById(copy.dataset.copy).textContent);
    copy.dataset.copied = "";
    setTimeout(() => delete copy.dataset.copied, 1500);
  });
})();
