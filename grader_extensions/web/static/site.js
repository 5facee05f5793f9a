// The script of every page. It fills text in and never makes markup; pages work without it.
"use strict";
(() => {
  // Before the page is drawn, so that it is never shown in the other colours first. A browser may refuse the storage.
  const root = document.documentElement;
  try { root.dataset.theme = localStorage.theme || ""; } catch { root.dataset.theme = ""; }

  function offerThemes(offer) {
    const choice = offer.querySelector("select");
    choice.value = root.dataset.theme;
    offer.hidden = false;
    choice.addEventListener("change", () => {
      try { localStorage.theme = choice.value; } catch { /* for this page only */ }
      root.dataset.theme = choice.value;
    });
  }

  const LINES = 50;

  function remaining(ms) {
    const minutes = Math.max(Math.floor(ms / 60000), 0), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    if (days) return `${days} d ${hours % 24} h`;
    return hours ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
  }

  function tick() {
    for (const one of document.querySelectorAll("[data-until]")) {
      const left = Date.parse(one.dataset.until) - Date.now();
      one.textContent = left > 0 ? `in ${remaining(left)}` : "now";
    }
  }

  function follow(live) {
    const show = (name, text) => { live.querySelector(`[data-live=${name}]`).textContent = text; };
    const log = live.querySelector("[data-live=log]");
    let after = Number(live.dataset.after), source = null, done = false;

    function received(event) {
      after = Math.max(after, Number(event.lastEventId) || 0);
      const found = JSON.parse(event.data);
      if (found.state) show("state", found.state);
      for (const name of ["process", "stage", "text"]) if (found[name]) {
        show(name, found[name]);
        add(found[name]);
      }
    }

    function add(text) {
      if (log.lastElementChild && log.lastElementChild.textContent === text) return;
      const item = document.createElement("li");
      item.textContent = text;
      log.append(item);
      while (log.children.length > LINES) log.firstChild.remove();
    }

    function open() {
      if (source || done) return;
      source = new EventSource(`${live.dataset.events}?after=${after}`);
      source.onmessage = received;
      source.addEventListener("end", () => { done = true; close(); location.reload(); });
      // Refused: the browser does not try again by itself.
      source.onerror = () => { if (source && source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 10000); };
    }

    function close() {
      if (source) source.close();
      source = null;
    }

    // A hidden page holds no connection: a browser has only six of them to a host.
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", () => { if (!document.hidden) open(); });
    if (!document.hidden) open();
  }

  // Shown where a script may write to the clipboard: over TLS, and on the server's own host.
  function copies(offer) {
    const code = document.getElementById(offer.dataset.copy).nextElementSibling, answer = offer.querySelector("[role=status]");
    offer.hidden = false;
    offer.querySelector("button").addEventListener("click", async () => {
      const lines = Array.from(code.querySelectorAll("td.code"), (cell) => cell.textContent);
      try {
        await navigator.clipboard.writeText(lines.join("\n"));
        answer.textContent = "Copied";
      } catch {
        answer.textContent = "The browser does not allow it; select the lines and copy them";
      }
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    offerThemes(document.getElementById("theme"));
    if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(copies);
    tick();
    setInterval(tick, 30000);
    const live = document.getElementById("live");
    if (live) follow(live);
  });
})();
