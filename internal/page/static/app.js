// The board's page. No framework, no build: the server sends the state once
// and then what changed, and this file draws it. It sets every text from the
// board as text, never as markup.

const $ = (id) => document.getElementById(id);

// A column for each of these statuses; "other" has the rest. What needs a person comes
// first. RARE columns are hidden while they are empty.
const COLUMNS = ["failed", "blocked", "new", "pending", "assigned", "in_progress", "agent_done", "done", "other"];
const RARE = ["failed", "blocked", "pending", "other"];
const RANK = { critical: 0, high: 1, normal: 2, low: 3, batchable: 4 };

// How many cards a column shows until it is asked for all.
const SHOWN = { done: 25, other: 25 };
const SHOWN_ELSE = 100;
// The first paint shows what a screen holds; the rest follows it.
const SHOWN_FIRST = 12;
const STEPS_ON_CARD = 5;

const state = { tasks: new Map(), agents: [], registry: [], health: "", findings: [], components: [], inbox: {}, failed: 0, failedReasons: [], board: {}, live: false, statuses: [], priorities: [], types: [], commands: [], createCommand: "", configPath: "" };
const cards = new Map(); // row → li; its .task is what it shows
const full = new Set(); // columns that show all their cards
let open = null; // the row whose sheet is open
let offset = 0; // server's clock minus ours, ms
let locked = false;
let painted = false; // the first drawing is on the screen

// ---- small helpers

// harmful are control characters and those that turn text around or that nobody sees, as in
// internal/safe: joiners and variation selectors stay after what they change.
const joining = ["Arab", "Syrc", "Nkoo", "Mand", "Mong", "Deva", "Beng", "Guru", "Gujr", "Orya", "Taml", "Telu", "Knda", "Mlym", "Sinh", "Khmr", "Mymr", "Tibt", "Bali", "Java"]
  .map((script) => `\\p{Script=${script}}`).join("");
const harmful = new RegExp([
  "(?![\\t\\n])\\p{Cc}", "[\\u2028\\u2029\\ufff9-\\ufffb]",
  `(?<![${joining}\\p{So}\\p{Sk}\\ufe0f])\\u200d`, `(?<![${joining}])\\u200c`, "(?<!\\p{Script=Mong})\\u180e", "(?<=^|[ \\p{Variation_Selector}])\\p{Variation_Selector}",
  "(?![\\u200c\\u200d\\u180e\\p{Variation_Selector}])\\p{Default_Ignorable_Code_Point}",
].join("|"), "gu");

// clean shows harmful characters, so that they do nothing.
function clean(text) {
  text = String(text ?? "").replace(/\r\n/g, "\n");
  return /[^\n\t -~]/.test(text) ? text.replace(harmful, (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0")) : text;
}

// QUEUE stands in the place of an agent: any agent may claim the task.
const QUEUE = "queue";
const agentLabel = (a) => (a === QUEUE ? "queue: whichever agent asks first" : a || "nobody");

// label is a status as people read it: agent_done is "Agent done".
function label(status) {
  const text = status === "other" ? "set aside" : String(status).replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (v === false || v == null) continue;
    if (k === "class") e.className = v;
    else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c != null).map((c) => (typeof c === "object" ? c : clean(c))));
  return e;
}

// put sets the text of an element if it differs: screen readers read a text
// whenever it is set.
function put(e, text) {
  text = clean(text);
  if (e.textContent !== text) e.textContent = text;
}

const plural = (n, one, many = one + "s") => `${n.toLocaleString()} ${n === 1 ? one : many}`;

function age(iso) {
  const s = Math.max(0, (Date.now() + offset - Date.parse(iso)) / 1000);
  if (!isFinite(s)) return "";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

// Making a formatter is slow, so there is one of each.
const dayAndTime = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const thisYear = new Intl.DateTimeFormat([], dayAndTime), anyYear = new Intl.DateTimeFormat([], { year: "numeric", ...dayAndTime });

function when(iso) {
  const d = new Date(iso);
  if (isNaN(d)) return iso;
  return (d.getFullYear() === new Date().getFullYear() ? thisYear : anyYear).format(d);
}

// place finds the element for a message: in the open dialog, else on the page.
// Screen readers do not read what is behind a dialog.
function place(selector) {
  return document.querySelector(`dialog[open] ${selector}`) || document.querySelector(`body > ${selector}`);
}

let fading = 0;

function say(text, bad = false) {
  const e = place(".notice");
  put(e, text);
  e.classList.toggle("bad", bad);
  clearTimeout(fading);
  if (text && !bad) fading = setTimeout(() => put(e, ""), 8000);
}

const announce = (text) => put(place(".announce"), text);

// reconcile gives parent one child per item, in the order of the items. An
// element that is there already stays, with the focus and what is typed.
function reconcile(parent, items, key, make, update, strangersStay = false) {
  const wanted = new Set(items.map((item) => String(key(item))));
  const there = new Map([...parent.children].map((e) => [e.dataset.key, e]));
  const had = document.activeElement;
  let at = parent.firstElementChild;
  for (const item of items) {
    while (at && !wanted.has(at.dataset.key)) at = at.nextElementSibling;
    const k = String(key(item));
    const e = there.get(k) || make(item);
    e.dataset.key = k;
    update(e, item);
    if (e === at) at = at.nextElementSibling;
    else if (e.isConnected && parent.moveBefore) parent.moveBefore(e, at);
    else parent.insertBefore(e, at);
  }
  if (!strangersStay) for (const [k, e] of there) if (!wanted.has(k)) e.remove();
  if (had !== document.activeElement && had?.isConnected) had.focus({ preventScroll: true });
}

function fillSelect(select, values, text = (v) => v) {
  const first = select.id.startsWith("by") ? [""] : [];
  const want = [...first, ...values];
  if (select.options.length === want.length && want.every((v, i) => select.options[i].value === v)) return;
  const keep = select.value;
  if (keep && !want.includes(keep)) want.push(keep);
  reconcile(select, want, (v) => "=" + v, (v) => el("option", { value: v }), (e, v) => v === "" && first.length ? null : put(e, text(v)));
  select.value = keep || want[0] || "";
}

// ---- signing in
//
// A link's code buys the pass of the server's process, which each request bears.
// It is of no use once that process has ended, to whoever gets this address
// later. Cookies would be worse: the browser sends them to every port of this
// host.

const pass = () => localStorage.getItem("pass") || ""; // another tab may have signed in meanwhile

// enter exchanges the code in the address, if there is one. It removes the code
// from the address at once, so that no history and no copied link has it.
async function enter() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname + location.search);
  const response = await send("/page/session", { code });
  if (!response.ok) {
    put($("lockedText"), "The code in this address was used already, or is older than a minute. Print a new one:");
    return;
  }
  localStorage.setItem("pass", (await response.json()).pass);
}

// ---- talking to the server

const PATIENCE = 60000; // ms; an edit may wait 45 s for its turn at the board

async function send(path, body, signal = AbortSignal.timeout(PATIENCE)) {
  const headers = { Authorization: "Bearer " + pass() };
  const options = body === undefined ? { headers } : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  try {
    return await fetch(path, { credentials: "omit", signal, ...options });
  } catch {
    throw Object.assign(new Error("the board does not answer"), { offline: true });
  }
}

// ask returns a good answer.
async function ask(path, body, signal) {
  const response = await send(path, body, signal);
  if (response.status === 401) {
    lock();
    throw new Error("this page needs a new link");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new Error([answer.error || `the board answered ${response.status}`, answer.hint].filter(Boolean).join(" — "));
}

const call = async (path, body) => (await ask(path, body)).json();

async function act(what, done) {
  try {
    const answer = await call("/page/do", what);
    say(answer.text || done);
    return true;
  } catch (e) {
    say(`Not done: ${e.message}`, true);
    return false;
  }
}

// once ignores a button while its work runs.
async function once(button, work) {
  if (button.ariaBusy === "true") return;
  button.ariaBusy = "true";
  try {
    await work();
  } finally {
    button.ariaBusy = null;
  }
}

// ---- the board

function columnOf(task) {
  return COLUMNS.includes(task.status) ? task.status : "other";
}

const filtered = () => $("byNeed").value !== "" || $("byAgent").value !== "" || $("byPriority").value !== "" || $("find").value.trim() !== "";

function matcher() {
  const need = $("byNeed").value, agent = $("byAgent").value, priority = $("byPriority").value;
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  return (task) => {
    if (need === "retries" && !task.tries || need === "person" && !stuckAs(task) && !due(task)) return false;
    if (agent && task.agent !== agent) return false;
    if (priority && (task.priority || "normal") !== priority) return false;
    if (!words.length) return true;
    const text = [task.taskId, task.title, task.agent, task.project, task.reason, ...task.steps.map((s) => s.title)].join("\n").toLowerCase();
    return words.every((w) => text.includes(w));
  };
}

function makeCard(task) {
  const button = el("button", { type: "button", "aria-haspopup": "dialog", onclick: () => openSheet(task.slackItemId) });
  const card = el("li", { "data-row": task.slackItemId }, el("div", { class: "top" }), el("h3", { dir: "auto" }, button), el("div", { class: "who" }), el("div", { class: "rest" }));
  cards.set(task.slackItemId, card);
  return card;
}

function drawCard(card, task) {
  const stuck = stuckAs(task);
  if (card.task === task && card.stuck === stuck?.text) return;
  const moved = card.task && card.task !== task && card.isConnected;
  card.task = task;
  card.stuck = stuck?.text;
  const done = task.steps.filter((s) => s.done).length, total = task.steps.length;
  const priority = task.priority || "normal";
  card.className = `card ${priority in RANK ? priority : "normal"} ${stuck ? stuck.kind : ""}`;
  const [top, title, who, rest] = card.children;
  top.replaceChildren(el("span", { class: "id" }, task.taskId || "no id yet"), el("time", { datetime: task.createdAt, title: when(task.createdAt) }, age(task.createdAt)));
  title.firstChild.replaceChildren(el("span", { class: "sr" }, `${task.taskId || "no id yet"}: `), el("bdi", {}, task.title || "(no title)"));
  who.replaceChildren(...[
    el("span", { class: "agent" }, task.agent || "nobody"),
    el("span", { class: `chip ${priority}` }, priority),
    task.type && task.type !== "action" ? el("span", { class: "chip" }, task.type) : null,
    task.project ? el("bdi", { class: "project" }, task.project) : null,
    task.parent ? el("span", { class: "chip" }, `part of ${task.parent}`) : null,
    columnOf(task) === "other" ? el("span", { class: "chip" }, label(task.status)) : null,
    retryOf(task) ? el("span", { class: "chip retry" }, retryOf(task)) : null,
    waits(task) ? el("span", {}, `not before ${when(task.retryAt)}`) : null,
  ].filter(Boolean));
  const reason = task.reason && ["failed", "blocked", "new", "pending", "assigned"].includes(task.status);
  rest.replaceChildren(...[
    stuck ? el("p", { class: "stuck" }, stuck.text) : null,
    reason ? el("p", { class: "reason", dir: "auto" }, task.reason) : null,
    total ? el("ul", { class: "steps", "aria-label": `${done} of ${total} steps done` }, ...stepsOnCard(task.steps)) : null,
    total ? el("div", { class: "progress", "aria-hidden": "true" }, bar(done / total), el("span", {}, `${done}/${total}`)) : null,
  ].filter(Boolean));
  if (moved) {
    card.classList.add("changed");
    card.addEventListener("animationend", () => card.classList.remove("changed"), { once: true });
  }
}

// stuckAs says what keeps a task from going on until somebody does something; null:
// nothing does.
function stuckAs(task) {
  if (task.status === "failed") return { kind: "dead", text: "Dead letter" };
  if (task.status === "blocked") return { kind: "held", text: "Blocked: waits for an answer" };
  if (task.silentSince) return { kind: "held", text: `Silent since ${when(task.silentSince)}` };
  if (["new", "pending", "assigned", "in_progress"].includes(task.status) && stateOf(task.agent)?.state === "left alone") return { kind: "held", text: `${task.agent} is left alone: its runs failed` };
  return null;
}

// stateOf is what an agent is doing.
const stateOf = (agent) => state.registry.find((a) => a.name === agent);

// doing puts what an agent is doing into words, as otm agents does.
function doing(a) {
  return [a.state, a.since ? ` for ${age(a.since)}` : "", a.until ? `, next start ${when(a.until)}` : ""].join("");
}

// retryOf says which retry a task works at or waits for; "": its runs did not fail.
function retryOf(task) {
  if (!waits(task) && !(task.tries > 0 && ["new", "assigned", "in_progress"].includes(task.status))) return "";
  return task.tries > 0 ? `Retry ${task.tries}/${task.maxRetries}` : "Next run";
}

const waits = (task) => task.status === "pending" && task.retryAt;

// stepsOnCard shows the first steps, beginning where the work is.
function stepsOnCard(steps) {
  const next = Math.max(0, steps.findIndex((s) => !s.done));
  const from = Math.max(0, Math.min(next - 1, steps.length - STEPS_ON_CARD));
  const shown = steps.slice(from, from + STEPS_ON_CARD).map((s) => el("li", { class: s.done ? "done" : "" },
    el("span", { class: "tick", "aria-hidden": "true" }), el("bdi", {}, s.title), s.done ? el("span", { class: "sr" }, " (done)") : null));
  const more = steps.length - shown.length;
  if (more > 0) shown.push(el("li", { class: "more" }, `and ${more} more`));
  return shown;
}

function bar(share) {
  const fill = el("i");
  fill.style.setProperty("width", `${Math.round(share * 100)}%`);
  return el("div", { class: "bar-of" }, fill);
}

function order(a, b) {
  const finished = a.status === "done" || columnOf(a) === "other";
  if (finished) return (b.updatedAt || "").localeCompare(a.updatedAt || "") || b.slackItemId.localeCompare(a.slackItemId);
  return !stuckAs(a) - !stuckAs(b) || (RANK[a.priority] ?? 2) - (RANK[b.priority] ?? 2) || (a.createdAt || "").localeCompare(b.createdAt || "") || a.slackItemId.localeCompare(b.slackItemId);
}

function makeColumns() {
  for (const key of COLUMNS) {
    $("board").append(el("section", { class: "column", "data-column": key, "aria-labelledby": `h-${key}` },
      el("h2", { id: `h-${key}`, tabindex: "-1" }, el("span", {}, label(key)), " ", el("span", { class: "count" })), el("ul"),
      el("button", { type: "button", class: "all plain", hidden: true, onclick: () => showAll(key) })));
    $("jump").append(el("button", { type: "button", "data-column": key, onclick: () => jumpTo(key) }, el("span", {}, label(key)), " ", el("span", { class: "count" })));
  }
}

function columnOn(key) {
  return $("board").querySelector(`[data-column="${key}"]`);
}

// jumpTo scrolls to a column at once, and again when the cards around it are
// laid out: a browser guesses the height of cards that it has not drawn.
function jumpTo(key) {
  const jump = () => columnOn(key).scrollIntoView({ block: "start" });
  jump();
  requestAnimationFrame(jump);
  $(`h-${key}`).focus({ preventScroll: true });
}

function showAll(key) {
  const n = columnOn(key).querySelectorAll(".card").length;
  full.add(key);
  drawBoard();
  columnOn(key).querySelectorAll(".card h3 button")[n]?.focus();
}

// drawBoard draws all columns. Cards that are there stay, so that the focus
// and the scroll position stay where they are.
function drawBoard() {
  const matches = matcher();
  const byColumn = new Map(COLUMNS.map((key) => [key, []]));
  let matching = 0;
  for (const task of state.tasks.values()) {
    if (!matches(task)) continue;
    matching++;
    byColumn.get(columnOf(task)).push(task);
  }
  const shown = new Set();
  for (const section of $("board").children) {
    const key = section.dataset.column;
    const tasks = byColumn.get(key).sort(order);
    const limit = full.has(key) ? Infinity : SHOWN[key] ?? SHOWN_ELSE;
    const some = tasks.slice(0, painted ? limit : SHOWN_FIRST);
    for (const t of some) shown.add(t.slackItemId);
    reconcile(section.querySelector("ul"), some, (t) => t.slackItemId, (t) => cards.get(t.slackItemId) || makeCard(t), drawCard, true);
    const all = section.querySelector(".all");
    all.hidden = tasks.length <= limit;
    put(all, `Show all ${tasks.length.toLocaleString()}`);
    const chip = $("jump").querySelector(`[data-column="${key}"]`);
    for (const e of [section, chip]) {
      put(e.querySelector(".count"), tasks.length.toLocaleString());
      e.classList.toggle("empty", tasks.length === 0);
      e.hidden = RARE.includes(key) && tasks.length === 0;
    }
  }
  dropCards(shown);
  const empty = state.tasks.size === 0;
  const unread = !state.live && !state.board.walkAt;
  $("welcome").hidden = locked || !empty || unread;
  $("unread").hidden = locked || !unread;
  $("board").hidden = $("jump").hidden = locked || empty;
  $("matches").hidden = locked || empty || !filtered();
  put($("matchesText"), filtered() ? `${matching.toLocaleString()} of ${plural(state.tasks.size, "task")}` : "");
  const review = [...state.tasks.values()].filter((t) => t.status === "agent_done").length;
  document.title = `${review ? `(${review}) ` : ""}OTM board`;
}

// dropCards removes the cards that are not shown. If one had the focus, its
// column gets it.
function dropCards(shown) {
  for (const [row, card] of cards) {
    if (shown.has(row)) continue;
    const column = card.contains(document.activeElement) ? card.closest(".column") : null;
    card.remove();
    cards.delete(row);
    column?.querySelector("h2").focus({ preventScroll: true });
  }
}

function drawFilters() {
  const known = state.agents.map((a) => a.name);
  const takers = known.length ? [...known, QUEUE] : [];
  const agents = [...new Set([...known, ...[...state.tasks.values()].map((t) => t.agent)])].filter(Boolean).sort();
  const form = $("createForm").elements;
  fillSelect($("byAgent"), agents);
  fillSelect($("byPriority"), state.priorities);
  fillSelect(form.agent, takers, agentLabel);
  $("agentSelect").hidden = known.length === 0;
  $("agentText").hidden = known.length > 0;
  form.agentName.required = known.length === 0;
  const first = form.priority.options.length === 0;
  fillSelect(form.priority, state.priorities);
  fillSelect(form.type, state.types);
  if (first) form.priority.value = "normal";
}

function drawWelcome() {
  $("welcomeAgents").hidden = !state.createCommand;
  $("welcomeNobody").hidden = !!state.createCommand;
  put($("welcomeCommand"), state.createCommand);
  put($("welcomeConfig"), state.configPath);
  const n = state.inbox["new-tasks"] || 0;
  $("welcomeWaiting").hidden = n === 0;
  put($("welcomeWaiting"), n ? `${plural(n, "task")} in the inbox, on the way to the board.` : "");
}

function clearFilters() {
  $("find").value = $("byNeed").value = $("byAgent").value = $("byPriority").value = "";
  drawBoard();
  $("find").focus();
}

// move goes from card to card with the arrow keys.
function move(e) {
  const card = e.target.closest?.(".card");
  if (!card) return;
  const columns = [...document.querySelectorAll(".column:not(.empty)")];
  const at = columns.indexOf(card.closest(".column"));
  const here = [...columns[at].querySelectorAll(".card")], i = here.indexOf(card);
  const beside = (c) => c && [...c.querySelectorAll(".card")].slice(0, i + 1).at(-1);
  const to = {
    ArrowDown: () => here[i + 1], ArrowUp: () => here[i - 1], Home: () => here[0], End: () => here.at(-1),
    ArrowRight: () => beside(columns[at + 1]), ArrowLeft: () => beside(columns[at - 1]),
  }[e.key]?.();
  if (!to) return;
  e.preventDefault();
  to.querySelector("button").focus();
}

// ---- one task

// drafts keeps what was typed to send a task back and not sent: row → text.
const drafts = new Map();
const unsent = new Map(); // and the messages that were typed
const ticking = new Set(); // rows of steps whose tick is on its way

function openSheet(row) {
  open = row;
  $("reworkReason").value = drafts.get(row) || "";
  showRework(drafts.has(row));
  $("reworkAdd").value = "";
  $("reworkSteps").open = false;
  $("reworkDrop").replaceChildren();
  askFor(null);
  $("sayText").value = unsent.get(row) || "";
  $("taskThread").replaceChildren();
  $("taskHistory").replaceChildren();
  put($("taskWhyText"), "…"); // its place is kept, so that nothing moves under the pointer
  $("taskNext").hidden = $("taskLogBox").hidden = true;
  $("taskWhy").classList.toggle("one", due(state.tasks.get(row)));
  for (const s of selects()) delete s.dataset.base;
  if (!$("task").open) $("task").showModal();
  say("");
  drawSheet();
  $("task").scrollTop = 0;
  loadDetail();
  history.replaceState(null, "", `${location.pathname}${location.search}#${state.tasks.get(row)?.taskId || row}`);
}

function showRework(shown) {
  $("reworkForm").hidden = !shown;
  $("reworkOpen").setAttribute("aria-expanded", String(shown));
}

let loading = null; // the row whose detail is on its way
let again = false; // and it changed meanwhile

async function loadDetail() {
  if (loading !== null) {
    again = true;
    return;
  }
  const row = (loading = open);
  try {
    const detail = await call(`/page/task?row=${encodeURIComponent(row)}`);
    if (row === open) drawDetail(detail);
  } catch (e) {
    if (row === open) drawDetail({ why: e.message, history: null });
  }
  loading = null;
  if (open !== null && (again || row !== open)) {
    again = false;
    loadDetail();
  }
}

// steps is what to do, and what may be done instead.
function steps(next, or) {
  return or ? `${next}; or: ${or}` : next;
}

function drawDetail(detail) {
  put($("taskWhyText"), detail.why);
  // The buttons below say what to do about what is due.
  $("taskNext").hidden = !detail.next || due(state.tasks.get(open));
  put($("taskNext"), steps(detail.next, detail.or));
  $("taskBodyBox").hidden = !detail.body;
  put($("taskBody"), detail.body || "");
  $("taskLogBox").hidden = !detail.log;
  if (detail.log) {
    put($("logHeading"), `Last lines of run ${detail.log.run}`);
    put($("logPath"), detail.log.path);
    put($("taskLog"), detail.log.text || detail.log.error || "Nothing was printed.");
  }
  if (!detail.history) return;
  const events = detail.history.map((h, i) => ({ ...h, i }));
  drawLines($("taskThread"), events.filter((h) => h.words));
  drawLines($("taskHistory"), events.reverse());
}

function drawLines(list, lines) {
  reconcile(list, lines, (h) => `${h.i} ${h.at}`, (h) => el("li", {},
    el("time", { datetime: h.at }, when(h.at)), el("span", { class: "by" }, h.who),
    el("span", { dir: "auto" }, h.detail ? `${h.what}: ${h.detail}` : h.what)), () => {});
}

const selects = () => [$("taskStatus"), $("taskAgent"), $("taskPriority")];
const edited = () => selects().filter((s) => "base" in s.dataset && s.value !== s.dataset.base);

// settle sets a select to the board's value, unless the person chose another
// one or has the select open.
function settle(select, value) {
  const theirs = "base" in select.dataset && select.value !== select.dataset.base;
  let choosing = false;
  try {
    choosing = select.matches(":open");
  } catch {
    choosing = document.activeElement === select; // a browser that cannot tell
  }
  if (theirs || choosing) return;
  select.value = value;
  select.dataset.base = value;
}

// gone says where to look for a task without a row, such as one that was archived.
const gone = (id) => (/^T-\d+$/.test(id) ? `${id} is not, or is no longer on the board. What became of it: otm show ${id}` : "The row is no longer on the board.");

function drawSheet() {
  const task = state.tasks.get(open);
  $("task").classList.toggle("gone", !task);
  if (!task) {
    say(gone($("taskId").textContent), true);
    return;
  }
  put($("taskId"), task.taskId || "no id yet");
  put($("taskTitle"), task.title || "(no title)");
  const nobody = task.agent ? [] : [""];
  fillSelect($("taskStatus"), [...new Set([...state.statuses, task.status])], label);
  fillSelect($("taskAgent"), [...nobody, ...new Set([...state.agents.map((a) => a.name), QUEUE, task.agent])].filter((a, i) => a || i === 0), agentLabel);
  fillSelect($("taskPriority"), [...new Set([...state.priorities, task.priority || "normal"])]);
  settle($("taskStatus"), task.status);
  settle($("taskAgent"), task.agent || "");
  settle($("taskPriority"), task.priority || "normal");
  drawEdit();
  drawReview(task);
  drawCommands(task);
  const agent = stateOf(task.agent);
  const facts = [[task.agent, agent?.kind === "ai" && doing(agent)], ["Type", task.type], ["Project", task.project], ["Created", `${age(task.createdAt)} ago`], ["Row", task.slackItemId]];
  reconcile($("taskFacts"), facts.filter(([, v]) => v), ([k]) => k, ([k]) => el("div", {}, el("dt", {}, k), el("dd", { dir: "auto" })), (e, [, v]) => put(e.lastChild, v));
  drawKin(task);
  drawSteps(task);
  drawRuns(task);
  $("sayForm").hidden = !task.taskId || ["done", "cancelled", "archived"].includes(task.status);
  // At blocked, the first sentence has the reason.
  const reason = task.status === "blocked" ? "" : task.reason;
  for (const [box, text, value] of [["taskReasonBox", "taskReason", reason], ["taskResultBox", "taskResult", task.result]]) {
    $(box).hidden = !value;
    put($(text), value);
  }
}

// drawKin leads to the task of which this one is a part, and to its parts.
function drawKin(task) {
  const kin = [...state.tasks.values()].filter((t) => t.taskId && (t.taskId === task.parent || t.parent === task.taskId));
  if (task.parent && !kin.some((t) => t.taskId === task.parent)) kin.unshift({ taskId: task.parent, title: "not on the board" });
  reconcile($("taskKin"), kin, (t) => t.taskId, (t) => el("li", {}, el("span"), " ", el("button", { type: "button", class: "plain", onclick: () => openSheet(t.slackItemId), disabled: !t.slackItemId })), (e, t) => {
    put(e.firstChild, t.taskId === task.parent ? "Part of" : "Its part");
    put(e.lastChild, `${t.taskId}: ${t.title}`);
  });
}

// ending says how a run ended.
function ending(run) {
  if (!run.endedAt) return "goes on";
  const how = [run.words || run.exit || (run.ending === "failed" ? "it ended without a result" : ""), run.exit || run.exitCode == null ? "" : `exit code ${run.exitCode}`, run.free ? "counts no retry" : ""];
  return [run.ending, how.filter(Boolean).join(", ")].filter(Boolean).join(": ");
}

// drawRuns shows the chain of runs, and the next one while the task waits for it.
function drawRuns(task) {
  const runs = [...(task.runs || [])];
  $("taskRunsBox").hidden = runs.length === 0;
  if (waits(task)) runs.push({ run: task.run + 1, next: `${retryOf(task)}, not before ${when(task.retryAt)}` });
  reconcile($("taskRuns"), runs, (r) => r.run, () => el("li", {}, el("b"), el("time"), el("div", {}, el("span", { dir: "auto" }), el("small", { dir: "auto" }))), (e, r) => {
    const [number, began, [how, log]] = [e.children[0], e.children[1], e.children[2].children];
    const last = r.run === runs.at(-1).run;
    e.ariaCurrent = last ? "true" : null;
    put(number, `Run ${r.run}${!last ? "" : r.next ? " (next)" : r.endedAt ? " (last)" : " (current)"}`);
    began.dateTime = r.beganAt || task.retryAt;
    put(began, r.next ? "" : when(r.beganAt));
    put(how, r.next || `${r.agent}, ${r.endedAt ? `until ${when(r.endedAt)}, ` : ""}${ending(r)}`);
    put(log, r.log || "");
  });
}

function drawEdit() {
  const some = edited().length > 0;
  if ($("editButtons").contains(document.activeElement) && !some) $("taskStatus").focus();
  $("editButtons").hidden = !some;
}

// persons reports whether a person works on a task, who is done with it when somebody
// accepts it.
const persons = (task) => ["new", "assigned", "in_progress"].includes(task?.status) && stateOf(task.agent)?.kind === "human";

// due reports whether a task waits for a person's word: a review, an answer, or that the
// person's own work is done.
const due = (task) => task?.status === "agent_done" || task?.status === "blocked" || persons(task);

// drawReview keeps what is being typed for the agent, also when somebody else
// was faster.
function drawReview(task) {
  const typing = !$("reworkForm").hidden && $("reworkReason").value.trim() !== "";
  const asks = task.status === "blocked";
  if (asks) showRework(true);
  if (!due(task) && !typing && $("taskReview").contains(document.activeElement)) $("taskStatus").focus();
  $("taskReview").hidden = !due(task) && !typing;
  $("taskReview").setAttribute("aria-label", asks ? "Answer" : "Review");
  const who = task.agent || "The agent", own = persons(task);
  put($("taskReviewText"), asks ? `${who} waits for an answer.` : own ? `${who}, a person, has it. Is it done?` : due(task) ? `${who} says that it is done. Is it?` : `It is ${label(task.status)} by now: somebody was faster.`);
  $("reviewButtons").hidden = asks;
  $("accept").disabled = task.status !== "agent_done" && !own;
  $("reworkOpen").hidden = own;
  $("reworkSteps").hidden = asks;
  const removable = task.steps.filter((s) => s.number);
  reconcile($("reworkDrop"), removable, (s) => s.slackItemId, () => el("li", {}, el("label", {}, el("input", { type: "checkbox" }), el("span", { dir: "auto" }))), (e, s) => {
    put(e.querySelector("span"), `Remove ${s.number}. ${s.title}`);
    e.firstChild.control.value = s.number;
  });
  put($("reworkLabel"), asks ? "Your answer" : "What is missing?");
  put($("reworkHint"), `${who} gets this as your words, with the task. ` + (asks ? "The history keeps the question and the answer." : "Ticked steps stay ticked: open those that are to be done again."));
  put($("reworkButton"), asks ? "Unblock" : "Rework");
  $("reworkButton").value = asks ? "unblock" : "rework";
  $("rejectButton").hidden = asks;
}

// ---- what else can be done with a task

let asking = null; // the command that asks for words; null: none does

// commandsFor lists the commands for a task as it is, but for those that its review has.
function commandsFor(task) {
  const inReview = due(task) ? ["accept", "reject", "rework", "unblock"] : ["accept"];
  return state.commands.filter((c) => task.taskId && c.from.includes(task.status) && !inReview.includes(c.name))
    .flatMap((c) => (c.resets && task.tries > 0 ? [c, { ...c, reset: true }] : [c]));
}

const nameOf = (c) => label(c.name) + (c.reset ? ", all retries again" : "") + (c.reason ? " …" : "");

// askFor opens the form for the words of a command; null closes it.
function askFor(c) {
  asking = c;
  for (const b of $("taskCommands").querySelectorAll("[aria-expanded]")) b.ariaExpanded = String(!!c && b.dataset.key === nameOf(c));
  $("commandForm").hidden = !c;
  $("commandReason").value = "";
  if (!c) return;
  put($("commandLabel"), `${label(c.name)}: ${c.reason}${c.optional ? " (optional)" : ""}`);
  put($("commandButton"), label(c.name));
  $("commandReason").required = !c.optional;
  $("commandReason").focus();
}

const command = (c, button) => once(button, async () => {
  if (!(await act({ do: c.name, row: open, reason: asking === c ? $("commandReason").value : "", reset: !!c.reset }, `${label(c.name)}: done.`))) return;
  if (asking === c) askFor(null);
  $("taskStatus").focus();
});

// drawCommands keeps a form open while words stand in it, also when the command does not
// suit any more.
function drawCommands(task) {
  const all = commandsFor(task);
  if (asking && !all.some((c) => c.name === asking.name) && !$("commandReason").value) askFor(null);
  const had = $("taskCommands").contains(document.activeElement);
  reconcile($("taskCommands"), all, nameOf, (c) => el("button", { type: "button", onclick: (e) => (c.reason ? askFor(asking?.name === c.name ? null : c) : command(c, e.currentTarget)) }), (e, c) => {
    put(e, nameOf(c));
    if (c.reason) e.ariaExpanded = String(asking?.name === c.name);
  });
  if (had && !$("taskCommands").contains(document.activeElement)) $("taskStatus").focus();
}

function drawSteps(task) {
  const done = task.steps.filter((s) => s.done).length;
  put($("stepsCount"), task.steps.length ? `${done} of ${task.steps.length}` : "none");
  $("taskProgress").hidden = task.steps.length === 0;
  $("taskProgress").max = Math.max(1, task.steps.length);
  $("taskProgress").value = done;
  reconcile($("taskSteps"), task.steps, (s) => s.slackItemId, makeStep, (e, s) => {
    if (!ticking.has(s.slackItemId)) e.querySelector("input").checked = s.done;
    e.classList.toggle("done", s.done);
    put(e.querySelector(".number"), s.number ? `${s.number}.` : "");
    put(e.querySelector("bdi"), s.title);
  });
}

function makeStep(step) {
  const box = el("input", { type: "checkbox" });
  box.addEventListener("change", async () => {
    if (ticking.has(step.slackItemId)) {
      box.checked = !box.checked; // one after the other
      return;
    }
    ticking.add(step.slackItemId);
    const done = box.checked;
    const ok = await act({ do: "tick", row: step.slackItemId, done }, done ? "Step ticked." : "Step opened again.");
    ticking.delete(step.slackItemId);
    if (!ok) box.checked = !done;
  });
  return el("li", {}, el("label", {}, box, el("span", { class: "number" }), " ", el("bdi", {})));
}

function bindSheet() {
  $("edit").addEventListener("change", drawEdit);
  $("undo").addEventListener("click", () => {
    for (const s of edited()) s.value = s.dataset.base;
    drawSheet();
  });
  $("edit").addEventListener("submit", (e) => {
    e.preventDefault();
    const names = { taskStatus: "status", taskAgent: "agent", taskPriority: "priority" };
    const changed = edited();
    const what = { do: "edit", row: open };
    for (const s of changed) what[names[s.id]] = s.value;
    if (!changed.length) return;
    once($("edit"), async () => {
      if (!(await act(what, "Saved."))) return;
      for (const s of changed) s.dataset.base = s.value;
      drawEdit();
    });
  });
  $("accept").addEventListener("click", () => once($("accept"), async () => {
    if (await act({ do: "accept", row: open }, "")) finish("Accepted: the task is done.");
  }));
  $("reworkOpen").addEventListener("click", () => {
    showRework($("reworkForm").hidden);
    if (!$("reworkForm").hidden) $("reworkReason").focus();
  });
  $("reworkReason").addEventListener("input", (e) => drafts.set(open, e.target.value));
  $("reworkForm").addEventListener("submit", (e) => {
    e.preventDefault();
    once($("reworkForm"), async () => {
      const row = open;
      const steps = $("reworkAdd").value.split("\n").map((s) => s.trim()).filter(Boolean);
      const drop = [...$("reworkDrop").querySelectorAll("input:checked")].map((box) => box.value);
      if (!(await act({ do: e.submitter?.value || "rework", row, reason: $("reworkReason").value, steps, drop }, ""))) return;
      drafts.delete(row);
      finish(e.submitter === $("rejectButton") ? "Rejected: the task rests, with your words." : "The agent gets it again, with your words.");
    });
  });
  $("commandForm").addEventListener("submit", (e) => {
    e.preventDefault();
    if (asking) command(asking, $("commandButton"));
  });
  $("commandBack").addEventListener("click", () => {
    askFor(null);
    $("taskStatus").focus();
  });
  $("sayText").addEventListener("input", (e) => unsent.set(open, e.target.value));
  $("sayForm").addEventListener("submit", (e) => {
    e.preventDefault();
    once($("sayButton"), async () => {
      const row = open, text = $("sayText").value;
      if (!(await act({ do: "say", row, text }, "Sent."))) return;
      unsent.delete(row);
      if (open === row && $("sayText").value === text) $("sayText").value = "";
    });
  });
  $("task").addEventListener("close", () => {
    if ($("task").open) return; // this comes late: another task was opened meanwhile
    const row = open;
    open = null;
    if (!drafts.get(row)?.trim()) drafts.delete(row);
    history.replaceState(null, "", location.pathname + location.search);
    // The browser gives the focus back to where it was, if that is still there.
    if (document.activeElement === document.body) (cards.get(row)?.querySelector("h3 button") || $("board")).focus();
  });
}

// finish closes the sheet and shows a message on the page.
function finish(text) {
  $("task").close();
  say(text);
}

// ---- a new task

function bindCreate() {
  const form = $("createForm"), f = form.elements;
  $("newButton").addEventListener("click", () => {
    $("createError").hidden = true;
    $("create").showModal();
    f.title.focus();
  });
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    once($("createSubmit"), async () => {
      const steps = f.steps.value.split("\n").map((s) => s.trim()).filter(Boolean);
      const agent = state.agents.length ? f.agent.value : f.agentName.value;
      try {
        const made = await call("/page/do", { do: "create", title: f.title.value, agent, priority: f.priority.value, type: f.type.value, project: f.project.value, steps });
        $("create").close();
        f.title.value = f.steps.value = ""; // the rest often stays the same
        f.priority.value = "normal";
        say(`${made.id} is dropped: the injector brings it to the board.`);
      } catch (err) {
        $("createError").hidden = false;
        put($("createError"), err.message);
      }
    });
  });
}

// ---- components, room and failed files

// drawHealth shows the server's judgement. The page adds only what the server
// cannot know: that the connection is lost.
function drawHealth() {
  const judged = state.health, problems = state.findings;
  const own = lost ? "Not connected" : unreadable ? "Board not readable" : judged ? "" : "…";
  $("healthDot").className = `dot ${judged && own ? "red" : judged}`;
  put($("healthText"), own || (problems.length ? plural(problems.length, "problem") : judged === "green" ? "All well" : judged));
  const items = own && judged ? [{ text: `${own}: what follows may be old.` }, ...problems] : problems.length || !judged ? problems : [{ text: "None." }];
  reconcile($("problems"), items.map((p, i) => ({ ...p, i })), (p) => p.i, () => el("li", {}, el("span", { dir: "auto" }), el("small", { dir: "auto" })), (e, p) => {
    put(e.firstChild, p.text);
    put(e.lastChild, p.hint ? `→ ${steps(p.hint, p.or)}` : "");
  });
  drawAgents();
  reconcile($("components"), state.components, (c) => c.id, () => el("li", {}, el("span", { class: "dot", "aria-hidden": "true" }), el("div", {}, el("b", {}), el("span", {}), el("small", {}))), (e, c) => {
    e.firstChild.className = `dot ${c.health === "clock error" ? "red" : c.health}`;
    const [name, how, more] = e.lastChild.children;
    put(name, c.id);
    put(how, ` ${c.health}`);
    put(more, c.lastRun ? [`${age(c.lastRun)} ago`, c.result, c.details].filter(Boolean).join(" · ") : c.details || "has never run here");
  });
  const r = state.board;
  $("roomMeter").hidden = !r.limit;
  if (r.limit) Object.assign($("roomMeter"), { max: r.limit, value: r.rows, high: 0.9 * r.limit, low: 0.8 * r.limit, optimum: 0 });
  const waiting = { tasks: state.inbox["new-tasks"], updates: state.inbox["task-updates"] };
  put($("room"), [
    rowsText(), walkText(), waiting.tasks ? `${plural(waiting.tasks, "task")} in the inbox` : "", waiting.updates ? `${plural(waiting.updates, "report")} in the inbox` : "",
  ].filter(Boolean).join(" · "));
  drawFailed(state.failed);
  drawFoot();
}

// drawAgents says what each agent is doing, those that are held up first.
function drawAgents() {
  const held = (a) => ["left alone", "paused", "ended", "not configured"].includes(a.state);
  const all = state.registry.toSorted((a, b) => held(b) - held(a));
  $("agentsHeading").hidden = all.length === 0;
  reconcile($("agents"), all, (a) => a.name, makeAgent, (e, a) => {
    const [name, how, task, more] = e.firstChild.children, button = e.lastChild;
    e.className = held(a) ? "held" : "";
    put(name, a.name);
    put(how, ` ${doing(a)} `);
    task.hidden = !a.taskId;
    put(task, a.taskId ? String(a.taskId) : "");
    const counts = state.statuses.concat("pending").filter((s) => a.tasks[s]).map((s) => `${a.tasks[s]} ${label(s).toLowerCase()}`);
    put(more, [a.lastHeard ? `last word ${age(a.lastHeard)} ago` : "", a.next ? `next ${a.next}` : "", counts.join(", "), ...a.findings.filter((f) => !f.args?.component).map((f) => f.text)].filter(Boolean).join(" · "));
    button.hidden = a.kind !== "ai";
    button.dataset.do = ["paused", "left alone"].includes(a.state) || (a.state === "waits" && a.until) ? "resume" : "pause";
    put(button, label(button.dataset.do));
    button.ariaLabel = `${label(button.dataset.do)} ${a.name}`;
  });
}

function makeAgent(a) {
  const task = el("button", { type: "button", class: "plain", onclick: () => {
    const at = [...state.tasks.values()].find((t) => t.taskId === task.textContent);
    if (!at) return;
    $("health").close();
    openSheet(at.slackItemId);
  } });
  const button = el("button", { type: "button", onclick: () => once(button, () => act({ do: button.dataset.do, agent: a.name }, "")) });
  return el("li", {}, el("div", {}, el("b", { dir: "auto" }), el("span"), task, el("small", { dir: "auto" })), button);
}

function drawFailed(total) {
  const more = total - state.failedReasons.length;
  const items = [...state.failedReasons, ...(total ? [] : [{ name: "", none: "None." }]), ...(more > 0 ? [{ name: "…", none: `and ${more.toLocaleString()} older: otm dead lists all` }] : [])];
  const had = $("failed").contains(document.activeElement);
  reconcile($("failed"), items, (f) => f.name, (f) => (f.none ? el("li", {}, f.none) : makeFailed(f)), () => {});
  if (had && document.activeElement === document.body || had && document.activeElement === $("health")) $("failedHeading").focus();
}

function makeFailed(f) {
  const button = el("button", { type: "button", "aria-label": `${f.renumber ? "Retry with a new id" : "Retry"}: ${f.name}`, onclick: () => once(button, () => act({ do: "retry", name: f.name, newId: !!f.renumber }, "Put back into the inbox.")) },
    f.renumber ? "Retry with a new id" : "Retry");
  return el("li", {}, el("div", { dir: "auto" }, f.taskId ? `${f.taskId}: ` : "", f.error, el("small", {}, [f.name, f.class, f.hint].filter(Boolean).join(" · "))), button);
}

function rowsText() {
  const r = state.board;
  return r.limit ? `${(r.rows ?? 0).toLocaleString()} of ${plural(r.limit, "row")}` : plural(r.rows ?? 0, "row");
}

const walkText = () => (state.board.walkAt ? `list read ${age(state.board.walkAt)} ago` : "");

function drawFoot() {
  put($("live"), walkText() || (source && !troubled() ? "Live" : ""));
  put($("fill"), rowsText());
  $("fill").classList.toggle("tight", state.board.limit > 0 && state.board.rows >= 0.9 * state.board.limit);
}

// ---- the state and its changes

function take(update) {
  const all = update.all;
  if (update.now) offset = Date.parse(update.now) - Date.now();
  for (const key of Object.keys(state)) if (key !== "tasks" && update[key] != null) state[key] = update[key];
  for (const t of update.cards || []) t.steps = t.steps.filter((s) => s.slackItemId); // the others are not on the board yet
  const before = all ? null : state.tasks;
  const moves = [];
  if (all) {
    const old = state.tasks;
    // An unchanged task keeps its card.
    state.tasks = new Map((update.cards || []).map((t) => [t.slackItemId, same(old.get(t.slackItemId), t) ? old.get(t.slackItemId) : t]));
  }
  for (const t of (!all && update.cards) || []) {
    const was = before.get(t.slackItemId);
    if (!was || was.status !== t.status) moves.push(`${t.taskId || "A task"}, ${t.title}: ${label(t.status)}`);
    state.tasks.set(t.slackItemId, t);
  }
  for (const row of update.gone || []) state.tasks.delete(row);
  if (all || update.cards || update.gone || update.agents) {
    drawFilters();
    drawBoard();
  }
  if (all || update.agents) drawHealth();
  drawWelcome();
  if (open && (all || update.gone?.includes(open) || update.cards?.some((t) => t.slackItemId === open))) {
    drawSheet();
    loadDetail();
  }
  if (moves.length) announce(moves.length > 3 ? `${moves.length} tasks changed` : moves.join(". "));
  ready();
}

// ready marks the times of the first drawing and of its painting, and then
// draws the rest.
function ready() {
  if (document.documentElement.dataset.ready) return;
  document.documentElement.dataset.ready = "1";
  performance.mark("otm-drawn");
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("otm-painted");
    painted = true;
    drawBoard();
  }));
}

const same = (a, b) => a !== undefined && JSON.stringify(a) === JSON.stringify(b);

// The server says something every 3 s. After SILENCE the page no longer claims
// to show the present; after LOSS it connects again.
const SILENCE = 8000, LOSS = 30000; // ms

let source = null; // aborts the stream; null while nobody looks at the page
let lost = false; // the server is silent
let unreadable = ""; // why the server cannot read the board

const troubled = () => lost || unreadable !== "";

function drawConnection() {
  const text = lost ? "Not connected: what you see may be old. Trying again …" : unreadable ? `The board cannot be read (${unreadable}): what you see may be old.` : "";
  $("connection").hidden = locked || !text;
  put($("connection"), text);
  if (text && document.querySelector("dialog[open]")) say(text, true);
  drawHealth();
}

function setLost(now) {
  if (lost === now) return;
  if (lost) say("Connected again.");
  lost = now;
  drawConnection();
}

async function start() {
  const first = await call("/page/state");
  if (locked) unlock();
  lost = false;
  unreadable = "";
  take(first);
  openFromAddress();
  if (!document.hidden) follow();
  drawConnection();
}

// startOver says what is wrong, and tries again until the server answers.
function startOver(e) {
  if (locked) return;
  if (!e.offline) unreadable = e.message;
  lost = !!e.offline;
  drawConnection();
  setTimeout(() => {
    if (locked) return;
    if (!state.statuses.length) start().catch(startOver);
    else if (!document.hidden) follow();
  }, 1000);
}

// follow takes changes from the server until the connection breaks, or until
// nobody looks at the page any more. After a gap the server sends the whole
// state.
async function follow() {
  source?.abort();
  const stream = (source = new AbortController());
  let silence, loss;
  const heard = () => {
    clearTimeout(silence);
    clearTimeout(loss);
    silence = setTimeout(() => stream === source && setLost(true), SILENCE);
    loss = setTimeout(() => stream.abort(), LOSS);
  };
  heard();
  try {
    const response = await ask("/page/events", undefined, stream.signal);
    unreadable = "";
    drawConnection();
    for await (const line of lines(response.body)) {
      if (stream !== source) return;
      heard();
      setLost(false);
      if (line) hear(JSON.parse(line));
    }
    throw Object.assign(new Error("the stream ended"), { offline: true });
  } catch (e) {
    if (stream !== source) return;
    source = null;
    startOver(e);
  } finally {
    clearTimeout(silence);
    clearTimeout(loss);
  }
}

// lines yields the lines of a stream until it ends or breaks.
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    const all = (text + value).split("\n");
    text = all.pop();
    yield* all;
  }
}

function hear(event) {
  if (event.trouble === undefined) return take(event);
  unreadable = event.trouble;
  drawConnection();
}

// A browser opens few connections to one server: a page that nobody sees closes
// its stream, and catches up when it is seen again.
let letGo = 0;

function seen() {
  clearTimeout(letGo);
  if (document.hidden) {
    letGo = setTimeout(() => {
      source?.abort();
      source = null;
    }, 5000);
  } else if (locked) {
    start().catch(() => {}); // another tab may have signed in
  } else if (!source && state.statuses.length) {
    follow();
  }
}

function lock() {
  source?.abort();
  source = null;
  const first = !locked;
  locked = true;
  for (const d of document.querySelectorAll("dialog[open]")) d.close();
  document.body.classList.add("locked");
  for (const id of ["board", "jump", "welcome", "unread", "matches", "connection"]) $(id).hidden = true;
  say("");
  $("locked").hidden = false;
  if (first && document.documentElement.dataset.ready) $("lockedTitle").focus();
  ready();
}

function unlock() {
  locked = false;
  document.body.classList.remove("locked");
  $("locked").hidden = true;
}

// openFromAddress opens the task that the address names, if any.
function openFromAddress() {
  const name = location.hash.slice(1) || new URLSearchParams(location.search).get("record_id");
  if (!name || open) return;
  for (const t of state.tasks.values()) if (t.taskId === name || t.slackItemId === name) return openSheet(t.slackItemId);
  if (/^T-\d+$/.test(name)) say(gone(name), true);
}

// copy puts a command into the clipboard.
async function copy(button) {
  try {
    await navigator.clipboard.writeText($(button.dataset.copy).textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($(button.dataset.copy));
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

function bindDialogs() {
  for (const b of document.querySelectorAll("[data-close]")) b.addEventListener("click", () => b.closest("dialog").close());
  // A press on the backdrop closes a dialog, unless something was typed in it.
  for (const d of [$("task"), $("health")]) {
    d.addEventListener("pointerdown", (e) => {
      const box = d.getBoundingClientRect();
      const outside = e.clientX < box.left || e.clientX > box.right || e.clientY < box.top || e.clientY > box.bottom;
      if (outside && !(d === $("task") && ((!$("reworkForm").hidden && $("reworkReason").value) || $("commandReason").value || $("sayText").value || edited().length))) d.close();
    });
  }
  $("healthButton").addEventListener("click", () => {
    $("health").showModal();
    say("");
  });
}

function bindKeys() {
  document.addEventListener("keydown", (e) => {
    if (locked || e.target.closest?.("input, textarea, select, dialog") || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "/") {
      e.preventDefault();
      $("find").focus();
    } else if (e.key === "n") {
      e.preventDefault();
      $("newButton").click();
    } else {
      move(e);
    }
  });
}

setInterval(() => {
  for (const t of document.querySelectorAll(".card time")) put(t, age(t.dateTime));
  drawHealth();
  if (open && state.tasks.has(open)) {
    drawSheet();
    loadDetail();
  }
}, 15000);

makeColumns();
bindSheet();
bindCreate();
bindDialogs();
bindKeys();
for (const id of ["find", "byNeed", "byAgent", "byPriority"]) $(id).addEventListener("input", drawBoard);
$("filters").addEventListener("submit", (e) => e.preventDefault());
$("clear").addEventListener("click", clearFilters);
for (const b of document.querySelectorAll("[data-copy]")) b.addEventListener("click", () => copy(b));
document.addEventListener("visibilitychange", seen);
addEventListener("focus", () => locked && start().catch(() => {}));
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#code=")) enter().then(start).catch(startOver);
  else if (!locked) openFromAddress();
});
enter().then(start).catch(startOver);
