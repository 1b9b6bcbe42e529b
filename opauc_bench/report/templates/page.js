"use strict";
(() => {
  const card = document.getElementById("card");

  // A card near a place, wholly on the screen.
  const show = (box, fill, folds) => {
    card.replaceChildren(...fill);
    card.classList.toggle("folds", folds);
    card.hidden = false;
    const below = box.bottom + 6, above = box.top - 6 - card.offsetHeight;
    const fits = below + card.offsetHeight <= innerHeight || above < 0;
    card.style.top = Math.max(8, Math.min(fits ? below : above, innerHeight - card.offsetHeight - 8)) + "px";
    card.style.left = Math.max(8, Math.min(box.left, innerWidth - card.offsetWidth - 8)) + "px";
  };
  const hide = () => {
    card.hidden = true;
    document.querySelectorAll(".cell.open").forEach((cell) => { cell.classList.remove("open"); cell.removeAttribute("aria-describedby"); });
  };

  // Folds of a cell: the card is a copy of its article in the section of all folds.
  const openCell = (cell) => {
    hide();
    const source = document.getElementById(cell.getAttribute("href").slice(1));
    cell.classList.add("open");
    cell.setAttribute("aria-describedby", "card");
    show(cell.getBoundingClientRect(), [...source.cloneNode(true).childNodes], true);
  };
  for (const cell of document.querySelectorAll(".cell")) {
    cell.addEventListener("mouseenter", () => openCell(cell));
    cell.addEventListener("mouseleave", hide);
    cell.addEventListener("focus", () => openCell(cell));
    cell.addEventListener("blur", hide);
    cell.addEventListener("click", hide);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });

  // A link into a closed section opens it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const closed = target && target.closest("details:not([open])");
    if (closed) { closed.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  reveal();

  // Sorting: down, up, as it was. Rows without a number stay at the end.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], original = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const key = (row, column) => {
      if (column === 0) return row.cells[0].textContent;
      const value = row.cells[column].dataset.value;
      return value === "" ? null : Number(value);
    };
    const sort = (column, order) => {
      const rows = [...original];
      if (order) {
        const sign = order === "ascending" ? 1 : -1;
        rows.sort((one, other) => {
          const a = key(one, column), b = key(other, column);
          if (a === null || b === null) return (a === null) - (b === null);
          return sign * (column === 0 ? a.localeCompare(b, "en") : a - b);
        });
      }
      heads.forEach((head, i) => (i === column && order ? head.setAttribute("aria-sort", order) : head.removeAttribute("aria-sort")));
      body.append(...rows);
    };
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      const cycle = column === 0 ? ["ascending", "descending", null] : ["descending", "ascending", null];
      button.addEventListener("click", () => {
        sort(column, cycle[(cycle.indexOf(head.getAttribute("aria-sort")) + 1) % 3]);
      });
    });
  }

  // Heat maps: what is below the pointer.
  const line = (text) => { const p = document.createElement("p"); p.textContent = text; return p; };
  for (const map of document.querySelectorAll(".heat")) {
    const data = map.dataset, n = Number(data.n);
    const [xName, ...xs] = data.x.split("|"), [yName, ...ys] = data.y ? data.y.split("|") : [""];
    const aucs = data.auc.split(" "), overflowed = data.div.split(" "), picked = data.pick.split(" ");
    const rows = Math.max(1, ys.length);
    map.addEventListener("pointermove", (event) => {
      const box = map.getBoundingClientRect();
      const x = Math.min(xs.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * xs.length)));
      const y = rows - 1 - Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows)));
      const i = y * xs.length + x;
      const words = [xName + " = " + xs[x] + (ys.length ? ", " + yName + " = " + ys[y] : "")];
      words.push(aucs[i] ? "inner value " + (Number(aucs[i]) / 10000).toFixed(4).replace(/^0/, "") : "no value");
      if (overflowed[i]) words.push("overflowed in " + overflowed[i] + " of " + n);
      if (picked[i]) words.push("selected in " + picked[i] + " of " + n);
      show({ top: event.clientY - 8, bottom: event.clientY + 10, left: event.clientX + 10 }, words.map(line), false);
    });
    map.addEventListener("pointerleave", hide);
  }
})();
