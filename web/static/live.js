// What happens on the site, shown without a reload: the console works without this file.
"use strict";
(() => {
  const watched = document.body.dataset.stream;
  const WAIT = 400; // ms: events come in groups
  const due = new Map();
  const last = new Map();

  const sections = () => document.querySelectorAll("[data-live]");
  const about = (section, kind) => section.dataset.live.split(" ").some((part) => kind.startsWith(part));

  function read(section) {
    due.delete(section.id);
    const now = document.getElementById(section.id);
    if (!now) return;
    if (now.contains(document.activeElement) || now.querySelector("details[open]")) {
      // Somebody is at work in it: nothing is taken away from under a hand.
      due.set(section.id, setTimeout(() => read(section), 2000));
      return;
    }
    last.set(section.id, Date.now());
    htmx.trigger(now, "refresh");
  }

  function happened(message) {
    const event = JSON.parse(message.data);
    for (const section of sections()) {
      if (!about(section, event.kind) || due.has(section.id)) continue;
      const calm = 1000 * (section.dataset.calm || 0) + (last.get(section.id) || 0) - Date.now();
      due.set(section.id, setTimeout(() => read(section), Math.max(WAIT, calm)));
    }
    const tail = document.querySelector("[data-tail]");
    if (!tail) return;
    tail.insertAdjacentHTML("afterbegin", event.row);
    while (tail.rows.length > Number(tail.dataset.tail)) tail.deleteRow(-1);
  }

  function say(text, state) {
    const shown = document.getElementById("live");
    if (!shown) return;
    shown.hidden = false;
    shown.dataset.state = state;
    shown.lastElementChild.textContent = text;
  }

  // Reading again because something happened is watching, and keeps no session alive.
  document.addEventListener("htmx:configRequest", (event) => {
    const by = event.detail.triggeringEvent;
    if (!by || by.type === "refresh") event.detail.headers["X-Kvctl-Watching"] = "1";
  });

  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  function age(seconds) {
    const [unit, size] = UNITS.find(([, one]) => Math.abs(seconds) >= one) || ["s", 1];
    const count = Math.floor(Math.abs(seconds) / size);
    return seconds >= 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
  }
  setInterval(() => {
    for (const one of document.querySelectorAll("time + .age")) {
      one.textContent = age((Date.now() - Date.parse(one.previousElementSibling.dateTime)) / 1000);
    }
  }, 15000);

  if (!watched) return;
  const stream = new EventSource(watched);
  stream.addEventListener("open", () => say("Live", "on"));
  stream.addEventListener("error", () => say(stream.readyState === 2 ? "Not live: load the page again" : "Connecting", "off"));
  stream.addEventListener("happened", happened);
})();
