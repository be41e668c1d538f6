// Times in the zone of the viewer, the focus of the keyboard, and the switch of the theme.
"use strict";

(() => {
  const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

  function ago(ms) {
    const seconds = (ms - Date.now()) / 1000;
    for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
      if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
    }
    return relative.format(Math.round(seconds), "second");
  }

  function showTimes() {
    for (const element of document.querySelectorAll("time[datetime]")) {
      const date = new Date(element.dateTime);
      const text = ago(date.getTime());
      if (element.textContent !== text) element.textContent = text;
      element.title = date.toLocaleString();
    }
  }

  // NiceGUI creates the cells of all tables again with each update of a page, so a focused link has to be found again.
  let focused = null;
  document.addEventListener("focusin", (event) => {
    focused = event.target;
  });
  document.addEventListener("focusout", ({ target }) => {
    setTimeout(() => {
      if (focused === target && target.isConnected && document.activeElement !== target) focused = null;
    });
  });

  function keepFocus() {
    if (!(focused instanceof HTMLAnchorElement) || focused.isConnected || document.activeElement !== document.body) return;
    const again = [...document.links].find((link) => link.href === focused.href && link.className === focused.className);
    again?.focus({ preventScroll: true });
  }

  setInterval(showTimes, 1000);
  new MutationObserver(() => {
    keepFocus();
    showTimes();
  }).observe(document.documentElement, { childList: true, subtree: true });
  document.addEventListener("DOMContentLoaded", showTimes);

  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("[data-theme-switch]")) return;
    const theme = document.cookie.includes("soulslab_theme=dark") ? "light" : "dark";
    document.cookie = `soulslab_theme=${theme}; path=/; max-age=31536000; samesite=strict`;
    location.reload(); // the server sends the charts in the colours of the theme
  });
})();
