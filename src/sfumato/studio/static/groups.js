// Groups drawn by hand. The fields of the form are the truth: what is dragged changes them, what
// is typed moves the picture, and the form asks the server what the risk is then.
import { enhance } from "./studio.js";

const SVG = "http://www.w3.org/2000/svg";
const tell = (field) => field.dispatchEvent(new Event("input", { bubbles: true }));

function draw(name, attributes, into) {
  const item = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) item.setAttribute(key, value);
  into.append(item);
  return item;
}

// Who follows a link in the dialog is done with the dialog.
document.addEventListener("click", (event) => event.target.closest("dialog a[href]:not([data-fetch])")?.closest("dialog").close());

// Numbers and days: borders over a histogram -------------------------------------------------------

const DAY = 86400000;
// What a border is on the axis, and how it is written; days are counted from 1970 on.
const scales = {
  numbers: (digits) => ({
    read: Number,
    write: (number) => String(Number(number.toFixed(digits))),
    snap: (number) => number,
    step: (number, by) => number + by,
    name: (from, to) => (to <= from ? `${from}` : `${from}–${Number(to.toFixed(digits))}`),
  }),
  dates: (digits, span) => {
    const day = (number) => new Date(number * DAY);
    const write = (number) => day(number).toISOString().slice(0, 10);
    const month = (number, by) => Math.round(Date.UTC(day(number).getUTCFullYear(), day(number).getUTCMonth() + by, 1) / DAY);
    const nearest = (number) => (month(number, 1) - number < number - month(number, 0) ? month(number, 1) : month(number, 0));
    return {
      read: (text) => Math.round(Date.parse(`${text}T00:00:00Z`) / DAY),
      write,
      // Whoever drags over years means the first day of a month; single days can be typed.
      snap: (number) => (span > 1100 ? nearest(Math.round(number)) : Math.round(number)),
      step: (number, by) => (span > 1100 ? (by < 0 && month(number, 0) < number ? month(number, by + 1) : month(number, by)) : number + by),
      name: (from, to) => {
        const whole = write(from).endsWith("-01-01") && write(to).endsWith("-12-31");
        const [first, last] = [write(from), write(to)].map((text) => (whole ? text.slice(0, 4) : text));
        return first === last ? first : `${first}–${last}`;
      },
    };
  },
};

enhance("form[data-numbers], form[data-dates]", (form) => {
  const svg = form.querySelector("svg"), list = form.querySelector(".borders");
  const handles = svg.querySelector(".handles"), strips = svg.querySelector(".strips");
  const [low, high, step] = ["low", "high", "step"].map((name) => Number(svg.dataset[name]));
  const most = Number(svg.dataset.levels), span = high + step - low;
  const place = (number) => 10 + (780 * (number - low)) / span;
  const digits = Math.max(0, Math.round(-Math.log10(step)));
  const scale = scales[form.dataset.dates === undefined ? "numbers" : "dates"](digits, span);
  const snap = (number) => Number((low + Math.round((scale.snap(number) - low) / step) * step).toFixed(digits));
  const bound = (number) => Math.min(high, Math.max(low + step, snap(number)));
  const items = () => [...list.querySelectorAll("li")].map((item) => ({
    item, field: item.querySelector("input"), level: item.querySelector("select"),
    get at() { return scale.read(this.field.value); },
  })).filter((entry) => entry.field.value === "" || !Number.isNaN(entry.at));

  function move(entry, number) {
    entry.field.value = scale.write(bound(number));
    show();
    tell(entry.field);
  }

  function show() {
    const focused = handles.querySelector(":focus")?.dataset.index;
    handles.replaceChildren();
    strips.replaceChildren();
    const entries = items();
    for (let level = 1; level <= most; level++) {
      const cuts = entries.filter((e) => e.field.value !== "" && Number(e.level.value) >= level).map((e) => e.at);
      if (!cuts.length) continue;
      const ends = [low, ...cuts.filter((cut) => cut > low && cut <= high).sort((a, b) => a - b), high + step];
      ends.slice(0, -1).forEach((start, index) => {
        const from = place(start), to = place(ends[index + 1]);
        draw("rect", { x: from, y: 142 + 20 * level, width: Math.max(0, to - from), height: 15, class: index % 2 ? "odd" : "even" }, strips);
        const text = scale.name(start, ends[index + 1] - step);
        if (to - from > 8 * text.length) {
          draw("text", { x: (from + to) / 2, y: 154 + 20 * level, "text-anchor": "middle" }, strips).textContent = text;
        }
      });
    }
    entries.forEach((entry, index) => {
      if (entry.field.value === "") return;
      const x = place(entry.at), level = Number(entry.level.value);
      const handle = draw("g", {
        class: "handle", tabindex: 0, role: "slider", "data-index": index, "aria-valuemin": low, "aria-valuemax": high,
        "aria-valuenow": entry.at, "aria-valuetext": entry.field.value, "aria-orientation": "horizontal",
        "aria-label": `${svg.dataset.slider} ${entry.field.value}, ${svg.dataset.level.trim()} ${level}`,
      }, handles);
      draw("rect", { x: x - 9, y: 5, width: 18, height: 150, class: "reach" }, handle);
      draw("line", { x1: x, x2: x, y1: 10, y2: 157 + 20 * level }, handle);
      draw("circle", { cx: x, cy: 12, r: 6 }, handle);
      handle.addEventListener("keydown", (event) => press(event, entry));
      handle.addEventListener("pointerdown", (event) => drag(event, entry, handle));
    });
    if (focused !== undefined) handles.querySelector(`[data-index="${focused}"]`)?.focus();
  }

  function press(event, entry) {
    const by = step * (event.shiftKey ? 10 : 1);
    const moves = { ArrowLeft: -by, ArrowRight: by }, levels = { ArrowUp: 1, ArrowDown: -1 };
    if (event.key in moves) move(entry, scale.step(entry.at, moves[event.key]));
    else if (event.key in levels) {
      entry.level.value = Math.min(most, Math.max(1, Number(entry.level.value) + levels[event.key]));
      show();
      tell(entry.field);
    } else if (event.key === "Delete" || event.key === "Backspace") remove(entry.item);
    else return;
    event.preventDefault();
  }

  function drag(event, entry, handle) {
    event.preventDefault();
    handle.focus();
    const at = (moved) => {
      const box = svg.getBoundingClientRect();
      return low + (span * ((moved.clientX - box.left) * (800 / box.width) - 10)) / 780;
    };
    const follow = (moved) => { entry.field.value = scale.write(bound(at(moved))); show(); };
    const stop = () => {
      window.removeEventListener("pointermove", follow);
      window.removeEventListener("pointerup", stop);
      tell(entry.field);
    };
    window.addEventListener("pointermove", follow);
    window.addEventListener("pointerup", stop);
  }

  function remove(item) {
    item.remove();
    show();
    tell(form.elements.low);
  }

  form.addEventListener("input", (event) => { if (event.isTrusted) show(); });
  form.addEventListener("change", (event) => { if (event.target.name === "depth") { show(); tell(event.target); } });
  form.addEventListener("click", (event) => {
    if (event.target.closest("[data-remove]")) remove(event.target.closest("li"));
    if (!event.target.closest("[data-add]")) return;
    list.append(form.querySelector("template").content.cloneNode(true));
    const taken = items().map((entry) => entry.at).filter((number) => number > low).sort((a, b) => a - b);
    const ends = [low, ...taken, high];
    const gap = ends.slice(1).map((end, index) => [end - ends[index], (end + ends[index]) / 2]).sort((a, b) => b[0] - a[0])[0];
    const added = items().at(-1);
    added.field.value = scale.write(bound(gap[1]));
    show();
    tell(added.field);
    added.field.focus();
  });
  show();
  tell(form.elements.low);
});

// Categories: chips in boxes -----------------------------------------------------------------------

enhance("form[data-categories]", (form) => {
  const boards = form.querySelector(".boards"), said = form.querySelector(".said"), words = boards.dataset;
  const rows = [...form.querySelectorAll("tbody tr")].map((row) => ({
    value: row.querySelector("[name=value]").value,
    count: Number(row.querySelector("[name=value]").dataset.count),
    fields: [...row.querySelectorAll("input[name^=group]")],
  }));
  const most = rows[0]?.fields.length ?? 0;
  // The name of a category at a level: its group, or what it was on the level before.
  const nameAt = (row, level) => {
    for (let at = level; at > 0; at--) if (row.fields[at - 1].value.trim()) return row.fields[at - 1].value.trim();
    return row.value;
  };
  const empty = Array.from({ length: most }, () => []);

  function assign(level, member, group) {
    for (const row of rows) if (nameAt(row, level - 1) === member) row.fields[level - 1].value = group === member ? "" : group;
    // What is in one group stays in one group on broader levels.
    for (let at = level + 1; at <= most; at++) {
      const first = new Map();
      for (const row of rows) {
        const below = nameAt(row, at - 1);
        if (!first.has(below)) first.set(below, row.fields[at - 1].value);
        row.fields[at - 1].value = first.get(below);
      }
    }
    changed();
  }

  function changed(focus) {
    show(focus);
    tell(rows[0].fields[0]);
  }

  function listGroups(level) {
    const groups = new Map();
    for (const row of rows) {
      const group = row.fields[level - 1].value.trim(), member = nameAt(row, level - 1);
      if (!groups.has(group)) groups.set(group, new Map());
      groups.get(group).set(member, (groups.get(group).get(member) ?? 0) + row.count);
    }
    for (const name of empty[level - 1]) if (!groups.has(name)) groups.set(name, new Map());
    if (!groups.has("")) groups.set("", new Map());
    return groups;
  }

  function show(focus) {
    boards.replaceChildren();
    for (let level = 1; level <= most; level++) {
      if (level > 1 && !rows.some((row) => row.fields[level - 2].value.trim())) break;
      const groups = listGroups(level), names = ["", ...[...groups.keys()].filter((name) => name)];
      const board = document.createElement("section");
      board.className = "board";
      const head = document.createElement("h3");
      head.textContent = `${words.level.trim()} ${level}`;
      board.append(head);
      const boxes = document.createElement("div");
      boxes.className = "boxes";
      for (const name of names) boxes.append(makeBox(level, name, groups.get(name), names));
      const add = document.createElement("button");
      add.type = "button";
      add.textContent = `+ ${words.new}`;
      add.addEventListener("click", () => {
        let number = 1;
        while (names.includes(`${words.new} ${number}`)) number++;
        empty[level - 1].push(`${words.new} ${number}`);
        show();
      });
      board.append(boxes, add);
      boards.append(board);
    }
    if (focus) boards.querySelector(`[data-level="${focus[0]}"][data-member="${CSS.escape(focus[1])}"]`)?.focus();
  }

  function makeBox(level, name, members, names) {
    const box = document.createElement("div");
    box.className = "group";
    if (name) {
      const field = document.createElement("input");
      field.value = name;
      field.setAttribute("aria-label", words.name);
      // A name that is typed here is the name of the group in every row.
      field.addEventListener("input", (event) => event.stopPropagation());
      field.addEventListener("change", (event) => { event.stopPropagation(); rename(level, name, field.value.trim()); });
      box.append(field);
    } else {
      const title = document.createElement("b");
      title.textContent = words.loose;
      box.append(title);
    }
    for (const [member, count] of members) box.append(makeChip(level, member, count, name, names));
    box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
    box.addEventListener("dragleave", () => box.classList.remove("over"));
    box.addEventListener("drop", (event) => {
      event.preventDefault();
      const [from, member] = JSON.parse(event.dataTransfer.getData("application/json") || "[]");
      if (from === level) assign(level, member, name);
      else box.classList.remove("over");
    });
    return box;
  }

  function makeChip(level, member, count, group, names) {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.className = "chip";
    chip.draggable = true;
    chip.dataset.level = level;
    chip.dataset.member = member;
    chip.textContent = member;
    const size = document.createElement("small");
    size.textContent = ` ${count.toLocaleString("en")}`;
    chip.append(size);
    chip.addEventListener("dragstart", (event) => event.dataTransfer.setData("application/json", JSON.stringify([level, member])));
    chip.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const next = names[names.indexOf(group) + (by ?? 0)];
      if (by === undefined || next === undefined) return;
      event.preventDefault();
      assign(level, member, next);
      show([level, member]);
      said.textContent = `${member} ${words.moved} ${next || words.loose}`;
    });
    return chip;
  }

  function rename(level, before, after) {
    empty[level - 1] = empty[level - 1].map((name) => (name === before ? after : name)).filter((name) => name);
    for (const row of rows) if (row.fields[level - 1].value.trim() === before) row.fields[level - 1].value = after;
    changed();
  }

  form.addEventListener("input", (event) => { if (event.isTrusted && event.target.name?.startsWith("group")) show(); });
  show();
  tell(rows[0].fields[0]);
});
