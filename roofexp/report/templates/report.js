"use strict";
(() => {
  const table = document.getElementById("table");
  const heads = [...table.tHead.rows[0].cells];
  const bodies = [...table.tBodies];
  const shown = document.getElementById("shown");
  const filter = document.getElementById("filter");
  const sorting = document.getElementById("sorting");
  const names = heads.map((head) => head.textContent.trim());
  const numeric = heads.map((head) => head.classList.contains("n"));
  const all = document.getElementById("all");
  const most = 100; // rows on the screen until more are asked for; paper gets all of them
  let order = bodies;
  let limited = bodies.length > 1.5 * most;
  let by = 0;
  let direction = "none";

  // What a cell is sorted by: its number in SI, or its words. An empty one comes last whichever way.
  const value = (body, column) => {
    const cell = body.rows[0].cells[column];
    const text = cell.dataset.v ?? cell.textContent.trim();
    if (text === "") return null;
    return numeric[column] ? Number(text) : text;
  };

  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));

  const sort = (column, wanted) => {
    by = column;
    direction = wanted;
    const sign = wanted === "descending" ? -1 : 1;
    const keyed = bodies.map((body, place) => ({ body, place, key: value(body, column) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      return sign * compare(a.key, b.key) || a.place - b.place;
    });
    order = keyed.map((row) => row.body);
    table.append(...order);
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? wanted : "none"));
    sorting.value = String(column);
    tell();
  };

  const turned = (column) => (column === by && direction === "ascending" ? "descending" : "ascending");

  const words = new Map(
    bodies.map((body) => [body, `${body.rows[0].textContent} ${body.dataset.search ?? ""}`.toLowerCase().replace(/\s+/g, " ")])
  );

  const narrow = () => {
    const asked = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of bodies) body.hidden = !asked.every((word) => words.get(body).includes(word));
    tell();
  };

  // What stands on the screen of what was asked for, and in which order: in words, so that nothing is left out unsaid.
  const tell = () => {
    const found = order.filter((body) => !body.hidden);
    found.forEach((body, place) => body.classList.toggle("beyond", limited && place >= most));
    const which = found.length === bodies.length ? `${found.length} points` : `${found.length} of ${bodies.length} points`;
    const cut = limited && found.length > most;
    all.hidden = !cut;
    all.textContent = `Show all ${found.length}`;
    shown.textContent = (cut ? `the first ${most} of ` : "") + which + (direction === "none" ? "" : `, by ${names[by]}, ${direction}`);
  };

  const everything = () => {
    limited = false;
    tell();
  };

  const unfold = (body, open) => {
    body.classList.toggle("open-row", open);
    body.querySelector(".open").setAttribute("aria-expanded", String(open));
  };

  const go = (id) => {
    const body = document.getElementById(id);
    if (!body || !bodies.includes(body)) return;
    if (body.hidden) {
      filter.value = "";
      narrow();
    }
    if (body.classList.contains("beyond")) everything();
    unfold(body, true);
    body.scrollIntoView({ block: "center" });
  };

  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => sort(column, turned(column)));
    sorting.add(new Option(names[column], String(column)));
  });
  sorting.addEventListener("change", () => sort(Number(sorting.value), "ascending"));
  document.getElementById("direction").addEventListener("click", () => sort(by, turned(by)));
  filter.addEventListener("input", narrow);
  all.addEventListener("click", everything);
  tell();

  for (const body of bodies) {
    body.querySelector(".open").addEventListener("click", () => unfold(body, !body.classList.contains("open-row")));
  }
  document.getElementById("unfold").addEventListener("click", (event) => {
    const open = event.target.getAttribute("aria-expanded") !== "true";
    for (const body of bodies) if (!open || !(body.hidden || body.classList.contains("beyond"))) unfold(body, open);
    event.target.setAttribute("aria-expanded", String(open));
    event.target.textContent = open ? "Close all evidence" : "Open all evidence";
  });
  for (const link of document.querySelectorAll("[data-search]:is(a)")) {
    link.addEventListener("click", () => {
      filter.value = link.dataset.search;
      narrow();
    });
  }
  window.addEventListener("hashchange", () => go(location.hash.slice(1)));
  if (location.hash) go(location.hash.slice(1));

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        // without the right to write there, what is to be copied is at least selected
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }

  // What a mark says under the mouse, for fingers: a tap shows it, with the way to its row.
  const mark = document.getElementById("mark");
  for (const paper of document.querySelectorAll(".paper")) {
    paper.addEventListener("click", (event) => {
      let group = event.target;
      const title = () => [...group.children].find((child) => child.tagName === "title");
      while (group !== paper && !title()) group = group.parentElement;
      if (group === paper) return;
      mark.querySelector("pre").textContent = title().textContent;
      const link = mark.querySelector("a");
      link.hidden = group.dataset.job === undefined;
      link.href = `#p${group.dataset.job}`;
      mark.hidden = false;
    });
  }
  mark.querySelector("a").addEventListener("click", () => (mark.hidden = true));
  mark.querySelector("button").addEventListener("click", () => (mark.hidden = true));
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") mark.hidden = true;
  });
})();
