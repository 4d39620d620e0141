"use strict";
// Updates the parts of a page that change (elements with data-live) without a reload, by fetching
// the page again. Opened, read, selected and focused elements keep their place.
(() => {
  const INTERVAL_MS = 5000;
  const parts = () => [...document.querySelectorAll("[data-live]")];
  const boxes = (part) => [...part.querySelectorAll("pre, .scroll")];
  const stops = (part) => [...part.querySelectorAll("a, [tabindex]")];
  const atEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 4;
  const toEnd = (box) => { box.scrollTop = box.scrollHeight; };

  const isMarking = (part) => {
    const selection = getSelection();
    return !selection.isCollapsed && part.contains(selection.anchorNode);
  };

  const replace = (part, fresh) => {
    if (isMarking(part) || part.innerHTML === fresh.innerHTML) return;
    const places = boxes(part).map((box) => ({ end: box.matches("pre") && atEnd(box), top: box.scrollTop, left: box.scrollLeft }));
    const focus = stops(part).indexOf(document.activeElement);
    part.replaceChildren(...fresh.childNodes);
    boxes(part).forEach((box, i) => {
      if (!places[i]) return;
      box.scrollLeft = places[i].left;
      if (places[i].end) toEnd(box); else box.scrollTop = places[i].top;
    });
    if (focus >= 0) stops(part)[focus]?.focus({ preventScroll: true });
  };

  const update = async () => {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(3 * INTERVAL_MS) });
    if (answer.status === 429 || answer.status >= 500) throw new Error(answer.statusText);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    // A new state has other forms and plots, and an expired session must sign in again: reload.
    if (fresh.body.dataset.state !== document.body.dataset.state) return location.reload();
    const again = fresh.querySelectorAll("[data-live]");
    parts().forEach((part, i) => { if (again[i]) replace(part, again[i]); });
  };

  const stale = document.getElementById("stale");
  const loop = async () => {
    if (!document.hidden) {
      try {
        await update();
        stale.hidden = true;
      } catch {
        stale.hidden = false;
      }
    }
    setTimeout(loop, INTERVAL_MS);
  };

  for (const log of document.querySelectorAll("pre.tail")) toEnd(log);
  if (parts().length > 0) setTimeout(loop, INTERVAL_MS);
})();
