// The little that a page does by itself. Without this script every form and link still works.
// - a form is sent in the background, and only the content of the page is replaced
// - the progress of jobs is heard from the server, and a page fetches itself when one has ended
// - data-fetch opens a part of a page in the dialog; data-live sends a form as soon as it changes

const main = () => document.getElementById("main");
const dialog = () => document.getElementById("dialog");

// A click on a link or a form counts only if no later one has overtaken it. A page that fetches
// itself overtakes none: what is on its way is newer. No message is lost with an answer that is.
let turn = 0, onTheirWay = 0, unread = [];
const MESSAGES = "main > .flash[role=alert]";

async function load(url, options = {}, how = {}) {
  if (how.byItself && onTheirWay) return;
  onTheirWay += how.byItself ? 0 : 1;
  try { await exchange(url, options, how); } finally { onTheirWay -= how.byItself ? 0 : 1; }
  if (!onTheirWay) main().prepend(...unread.splice(0));
  prepare();
}

async function exchange(url, options, { push = true, keepScroll = false, byItself = false }) {
  const mine = ++turn;
  main().setAttribute("aria-busy", "true");
  let answer, page;
  try {
    answer = await fetch(url, { credentials: "same-origin", ...options });
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    if (mine === turn) main().removeAttribute("aria-busy");
    show("The studio does not answer. Is it still running in its terminal?");
    return;
  }
  if (mine !== turn) return unread.push(...page.querySelectorAll(MESSAGES));
  if (!page.getElementById("main")) {
    main().removeAttribute("aria-busy");
    show(page.querySelector("h1")?.textContent ?? "Something went wrong.");
    return;
  }
  if (byItself) unread.push(...document.querySelectorAll(MESSAGES));
  // Another page begins at its top. On the same one, what a refused form held is still there.
  const same = new URL(answer.url).pathname === location.pathname;
  const refused = same && options.method === "POST" && page.querySelector("main > .flash.bad") !== null;
  const focus = document.activeElement?.id;
  const open = [...document.querySelectorAll("details[open][id]")].map((item) => item.id);
  const scroll = window.scrollY;
  const typed = byItself || refused ? collectTyped() : [];
  document.title = page.title;
  document.body.className = page.body.className;
  document.body.dataset.events = page.body.dataset.events ?? "";
  for (const part of [".bar", ".history", "#jobs", "#main"]) {
    const old = document.querySelector(part), fresh = page.querySelector(part);
    if (old && fresh) old.replaceWith(fresh);
    else if (fresh) document.querySelector("main").before(fresh);
    else if (old) old.remove();
  }
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  for (const restore of typed) restore();
  if (push && answer.url !== location.href) history.pushState({}, "", answer.url);
  if (keepScroll && same) window.scrollTo(0, scroll); else if (push) window.scrollTo(0, 0);
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
}

const refresh = () => load(location.href, {}, { push: false, keepScroll: true, byItself: true });

// A page that fetches itself must not take away what somebody is just filling in.
function collectTyped() {
  return [...main().querySelectorAll("input[id]:not([type=file]), textarea[id], select[id]:not([multiple])")].filter((field) => {
    if (field.tagName === "SELECT") return field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
    return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
  }).map(({ id, tagName, value, checked }) => () => {
    const field = document.getElementById(id);
    if (!field || field.tagName !== tagName) return;
    field.value = value;
    if (checked !== undefined) field.checked = checked;
  });
}

function show(text) {
  const line = document.createElement("p");
  line.className = "flash bad";
  line.setAttribute("role", "alert");
  line.textContent = text;
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "dismiss", textContent: "×", ariaLabel: "Close" });
  button.dataset.dismiss = "";
  line.append(button);
  main().prepend(line);
}

function encode(form, button) {
  const fields = new URLSearchParams(new FormData(form));
  // What was typed into another form of the page goes along, so that nobody has to save it first.
  const other = document.getElementById(form.dataset.along ?? "");
  if (other) for (const [name, value] of new FormData(other)) fields.append(name, value);
  if (button?.name) fields.append(button.name, button.value);
  return fields;
}

function send(form, button) {
  // Attributes, since a field that is called "method" or "action" hides the form's own property.
  const method = (button?.getAttribute("formmethod") || form.getAttribute("method") || "get").toUpperCase();
  const url = button?.hasAttribute("formaction") ? button.formAction : new URL(form.getAttribute("action") || "", location.href).href;
  const fields = encode(form, button);
  const options = { keepScroll: form.dataset.stay !== undefined || method === "POST" };
  if (form.dataset.upload !== undefined) return upload(form);
  if (method === "GET") return load(`${url.split("?")[0]}?${fields}`, {}, options);
  return load(url, { method, body: fields }, options);
}

// Files go up as they are, one after the other, so that the server can stream them to the disk.
async function upload(form) {
  const files = [...form.querySelector("input[type=file]").files];
  const bar = form.querySelector("progress"), note = form.querySelector("[data-note]");
  const most = Number(form.dataset.most || Infinity), batch = crypto.randomUUID();
  if (files.some((file) => file.size > most)) return show(form.dataset.tooLarge);
  let last;
  for (const [index, file] of files.entries()) {
    if (note) note.textContent = file.name;
    const query = new URLSearchParams({ name: file.name, number: index, of: files.length, batch });
    last = await new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open("POST", `${form.action}?${query}`);
      request.upload.onprogress = (event) => { if (bar) { bar.hidden = false; bar.value = event.loaded / event.total; } };
      request.onload = () => resolve(request);
      request.onerror = () => resolve(null);
      request.send(file);
    });
    if (!last || last.status >= 400) {
      const page = new DOMParser().parseFromString(last?.responseText ?? "", "text/html");
      if (bar) bar.hidden = true;
      if (note) note.textContent = "";
      const said = [page.querySelector("h1"), page.querySelector("p")].map((item) => item?.textContent ?? "");
      return show(said.join(" ").trim() || "The upload broke off.");
    }
  }
  return load(last ? last.responseURL : location.href, {}, {});
}

async function fetchPart(url, into) {
  into.dataset.url = url;
  const answer = await fetch(url, { credentials: "same-origin" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  into.replaceChildren(...page.body.childNodes);
  prepare(into);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog" || form.dataset.plain !== undefined) return;
  event.preventDefault();
  if (form.dataset.part) { fetchPart(`${form.dataset.part}?${encode(form)}`, document.getElementById("dialog-body")); return; }
  if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return;
  if (form.closest("dialog")) dialog().close();
  send(form, event.submitter);
});

// What is chosen in the picker goes into the field; one that also names something keeps that name.
function choose(button) {
  const field = document.getElementById(button.dataset.field);
  const name = field.dataset.named === undefined ? "" : `/${field.value.split("/").pop()}`;
  field.value = `${button.dataset.choose.replace(/\/$/, "")}${name}`;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  dialog().close();
  field.focus();
}

document.addEventListener("click", (event) => {
  const dismissed = event.target.closest("[data-dismiss]");
  if (dismissed) return dismissed.parentElement.remove();
  const chosen = event.target.closest("[data-choose]");
  if (chosen) return choose(chosen);
  const part = event.target.closest("[data-fetch]");
  if (part) {
    event.preventDefault();
    const into = part.dataset.into ? document.querySelector(part.dataset.into) : document.getElementById("dialog-body");
    const at = part.dataset.at ? `&at=${encodeURIComponent(document.getElementById(part.dataset.at).value)}` : "";
    fetchPart(part.dataset.fetch + at, into).then(() => { if (!part.dataset.into) dialog().showModal(); });
    return;
  }
  const link = event.target.closest("a[href]");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  load(link.href);
});

// Rows and marks that can be clicked can be reached and pressed by keyboard, too.
document.addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === " ") && event.target.matches?.("[data-fetch]:not(button, a)")) {
    event.preventDefault();
    event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }
  if (event.key === "z" && (event.ctrlKey || event.metaKey) && !event.target.matches("input, textarea, select")) {
    event.preventDefault();
    document.querySelector(`form[action$="/history/${event.shiftKey ? "redo" : "undo"}"] button:enabled`)?.click();
  }
});

let timer;
document.addEventListener("change", (event) => {
  const form = event.target.form;
  if (form?.dataset.live === undefined) return;
  turn++; // an answer to what was ticked before must not take back what is ticked now
  clearTimeout(timer);
  timer = setTimeout(() => form.requestSubmit(), 80);
});

// A form with data-check asks the server while one types whether what it says is possible.
document.addEventListener("input", (event) => {
  const mirror = event.target.dataset?.mirror;
  if (mirror) document.getElementById(mirror).textContent = event.target.value;
  const form = event.target.form;
  if (form?.dataset.check === undefined) return;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const answer = await fetch(form.dataset.check, { method: "POST", body: encode(form) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    form.querySelector("[data-verdict]")?.replaceChildren(...page.body.childNodes);
  }, 250);
});

window.addEventListener("popstate", () => load(location.href, {}, { push: false }));

// Progress ---------------------------------------------------------------------------------------

let events, address;
const ended = new Set();

function listen() {
  const wanted = document.body.dataset.events;
  if (wanted === address) return;
  events?.close();
  address = wanted;
  if (!wanted) return;
  events = new EventSource(wanted);
  events.addEventListener("job", (event) => follow(JSON.parse(event.data)));
}

function follow(job) {
  const waits = document.querySelector(`[data-await="${job.job}"]`);
  const over = !["waiting", "running"].includes(job.state);
  if (over) {
    ended.add(job.job);
    const part = waits?.closest("[data-url]");
    if (part) fetchPart(part.dataset.url, part);
    else if (waits) refresh();
    else for (const row of document.querySelectorAll(`#jobs [data-job="${job.job}"]`)) row.remove();
    document.dispatchEvent(new CustomEvent("job-ended", { detail: job }));
    return;
  }
  for (const row of document.querySelectorAll(`[data-job="${job.job}"]`)) {
    const bar = row.querySelector("progress");
    if (job.share === null) bar.removeAttribute("value"); else bar.value = job.share;
    const what = row.querySelector("[data-job-what]");
    const title = what.textContent.split(":")[0];
    what.textContent = job.what && job.what.toLowerCase() !== title.toLowerCase() ? `${title}: ${job.what}` : title;
    row.querySelector("[data-job-left]").textContent = left(job.seconds_left);
  }
}

function left(seconds) {
  if (seconds === null || seconds < 1) return "";
  if (seconds < 90) return `about ${Math.ceil(seconds)} s left`;
  return `about ${Math.ceil(seconds / 60)} min left`;
}

// What single pages add: a page's script registers itself for an attribute.
const enhancers = [];
export function enhance(selector, function_) {
  enhancers.push([selector, function_]);
  prepare();
}
export { refresh, load, fetchPart };

function prepare(within = document) {
  for (const [selector, function_] of enhancers) {
    for (const item of within.querySelectorAll(selector)) {
      if (item.dataset.ready === undefined) { item.dataset.ready = ""; function_(item); }
    }
  }
  // What is wider than its place can be scrolled by keyboard, too.
  for (const area of within.querySelectorAll(".scroll, figure, pre")) {
    if (area.scrollWidth > area.clientWidth) area.tabIndex = 0;
  }
  // A page that was made before a job ended, and arrives after we have heard of it, must not wait.
  const late = [...within.querySelectorAll("[data-await]")].find((item) => ended.has(item.dataset.await));
  if (late) follow({ job: late.dataset.await, state: "done" });
  if (within === document) listen();
}

prepare();
