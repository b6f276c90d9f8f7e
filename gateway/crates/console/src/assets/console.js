// The live part of a page, a button that copies, a filter of settings, and the rate of this browser. Each page works
// without it.

const live = document.getElementById("live");
const connection = document.getElementById("connection");
const section = document.body.dataset.live;

/** Makes `to` look like `from`, element by element: focus, selection and open details stay. */
function morph(to, from) {
  if (to.nodeType !== from.nodeType || to.nodeName !== from.nodeName) {
    to.replaceWith(from.cloneNode(true));
    return;
  }
  if (to.nodeType !== Node.ELEMENT_NODE) {
    if (to.nodeValue !== from.nodeValue) to.nodeValue = from.nodeValue;
    return;
  }
  for (const { name } of [...to.attributes]) {
    if (!from.hasAttribute(name) && name !== "open") to.removeAttribute(name);
  }
  for (const { name, value } of from.attributes) {
    if (to.getAttribute(name) !== value) to.setAttribute(name, value);
  }
  morphChildren(to, from);
}

/** Does so for the children. One with an id becomes that of the same id, and another one that of the same place. */
function morphChildren(to, from) {
  const fresh = new Set([...from.children].map(({ id }) => id));
  const known = new Map();
  for (const child of [...to.children]) {
    if (!child.id) continue;
    if (fresh.has(child.id)) known.set(child.id, child);
    else child.remove();
  }
  let next = to.firstChild;
  for (const node of from.childNodes) {
    const same = node.id ? known.get(node.id) : !next?.id && next;
    if (!same) {
      to.insertBefore(node.cloneNode(true), next);
      continue;
    }
    if (same === next) next = next.nextSibling;
    else to.insertBefore(same, next);
    morph(same, node);
  }
  while (next) {
    const rest = next.nextSibling;
    next.remove();
    next = rest;
  }
}

function say(text) {
  if (connection.textContent !== text) connection.textContent = text;
}

if (live && section) {
  let events, failing;
  const listen = () => {
    events = new EventSource(`/console/live?section=${encodeURIComponent(section)}`);
    events.onopen = () => {
      clearTimeout(failing);
      failing = undefined;
      say("");
    };
    const show = (part) => ({ data }) => {
      const fresh = document.createElement("div");
      fresh.innerHTML = data;
      const focused = document.activeElement;
      morphChildren(part, fresh);
      // An element that has moved has lost its focus.
      if (part.contains(focused)) focused.focus({ preventScroll: true });
      part.dataset.updates = String(Number(part.dataset.updates ?? 0) + 1);
    };
    events.onmessage = show(live);
    const charts = document.getElementById("charts");
    if (charts) events.addEventListener("charts", show(charts));
    // The browser tries again by itself, unless the session has ended. A connection that ends with its time is back at once.
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED) say("No longer live: load the page again");
      else failing ??= setTimeout(() => say("Not connected, trying again …"), 2000);
    };
  };
  // A page that is not seen asks for nothing.
  document.addEventListener("visibilitychange", () => {
    events?.close();
    clearTimeout(failing);
    failing = undefined;
    if (document.visibilityState === "visible") listen();
  });
  listen();
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const field = document.getElementById(button.dataset.copy);
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
    } catch {
      // Over HTTP from another machine a page has no clipboard of its own.
      document.execCommand("copy");
    }
    button.textContent = "Copied";
  });
}

const filter = document.querySelector("[data-filter]");
filter?.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  const place = document.getElementById(filter.dataset.filter);
  for (const group of place.querySelectorAll("section")) {
    let shown = 0;
    for (const row of group.querySelectorAll("[data-key]")) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    group.hidden = shown === 0;
  }
});

/** Returns the rate at which this browser takes the bytes of `path`, in bytes a second. */
async function measure(path) {
  const reader = (await fetch(path)).body.getReader();
  let begun, ended, bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return ended > begun ? Math.round((bytes * 1000) / (ended - begun)) : "";
    // What comes first waited for the connection.
    if (begun === undefined) begun = performance.now();
    else bytes += value.length;
    ended = performance.now();
  }
}

const measured = document.querySelector("form[data-measure]");
measured?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = measured.querySelector("button");
  button.disabled = true;
  button.textContent = "Measures this browser …";
  try {
    measured.elements.client.value = await measure(measured.dataset.measure);
  } catch {
    // The report says that no client was measured.
  }
  measured.submit();
});
