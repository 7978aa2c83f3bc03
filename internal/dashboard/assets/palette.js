// The search: a combobox with a list of options, as in the ARIA practices. Without this
// script its button is a link to a page with the same results.
(() => {
  "use strict";
  const dialog = document.querySelector("[data-palette]");
  if (!dialog?.showModal) return;
  const input = dialog.querySelector("input");
  const results = document.getElementById("palette-results");
  const count = dialog.querySelector("[data-palette-count]");
  const opener = document.querySelector("[data-palette-open]");
  const key = document.querySelector("[data-palette-key]");
  const mac = /Mac|iP(hone|ad)/.test(navigator.platform);
  if (mac) key.textContent = "⌘ K";
  key.hidden = false;

  const options = () => [...results.querySelectorAll('[role="option"]')];
  const chosen = () => results.querySelector('[aria-selected="true"]');
  function choose(option) {
    chosen()?.setAttribute("aria-selected", "false");
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  }
  // Results of an earlier query lead nowhere: the user has not seen those of this one.
  const current = () => results.firstElementChild?.dataset.paletteFor === input.value.trim();
  function act(option) {
    if (!option || !current()) return;
    option.querySelector("a").click();
  }

  function open() {
    if (document.querySelector("dialog[open]")) return;
    dialog.showModal();
    input.focus();
    input.select();
    htmx.trigger(input, "palette");
  }
  opener.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("keydown", (event) => {
    // On a Mac, Ctrl-K deletes the rest of the line.
    const modifier = mac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
    if (event.key?.toLowerCase() !== "k" || !modifier || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // Enter ends the input of a word.
    const all = options();
    const at = all.indexOf(chosen());
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? all.length - 1 : at - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      choose(all[(to + all.length) % all.length]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      act(chosen());
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      dialog.close();
    }
  });
  results.addEventListener("click", (event) => {
    const option = event.target.closest('[role="option"]');
    if (option && !event.target.closest("a")) act(option);
  });
  // The pointer does not take the focus from the input.
  results.addEventListener("mousedown", (event) => event.preventDefault());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== results) return;
    choose(options()[0]);
    results.scrollTop = 0;
    count.textContent = results.firstElementChild.dataset.paletteStatus;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!dialog.open || !dialog.contains(event.detail.elt)) return;
    if (!event.detail.successful && event.detail.xhr.status) {
      const problem = event.detail.xhr.getResponseHeader("X-Problem");
      results.textContent = count.textContent = problem ? decodeURIComponent(problem) : "The search failed.";
    }
  });
})();
