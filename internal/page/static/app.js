// The board's page. No framework, no build: the server sends the state once
// and then what changed, and this file draws it. Every text from the board is
// set as textContent, never as markup.

const $ = (id) => document.getElementById(id);

const COLUMNS = [
  ["new", "New"], ["assigned", "Assigned"], ["in_progress", "In progress"], ["blocked", "Blocked"],
  ["agent_done", "To review"], ["done", "Done"], ["other", "Set aside"],
];
const LABELS = {
  new: "New", assigned: "Assigned", pending: "Pending", in_progress: "In progress", blocked: "Blocked",
  agent_done: "Agent done", done: "Done", rejected: "Rejected", failed: "Failed", cancelled: "Cancelled", archived: "Archived",
};
const RANK = { critical: 0, high: 1, normal: 2, low: 3, batchable: 4 };

const state = { tasks: new Map(), agents: [], components: [], failed: [], room: {}, waiting: {}, statuses: [], priorities: [], types: [] };
const cards = new Map(); // row → li
let open = null; // the row whose sheet is open
let offset = 0; // server clock minus ours, ms

// ---- small helpers

function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (v === false || v == null) continue;
    if (k === "class") e.className = v;
    else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

function age(iso) {
  const s = Math.max(0, (Date.now() + offset - Date.parse(iso)) / 1000);
  if (!isFinite(s)) return "";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

function when(iso) {
  const d = new Date(iso);
  return isNaN(d) ? iso : d.toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function say(text, bad = false) {
  $("notice").textContent = text;
  $("notice").classList.toggle("bad", bad);
}

async function call(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, { credentials: "same-origin", ...options });
  if (response.status === 401) {
    lock();
    throw new Error("this page needs a new link");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error([answer.error || `the board answered ${response.status}`, answer.hint].filter(Boolean).join(" — "));
  return answer;
}

async function act(what, done) {
  try {
    await call("/page/do", what);
    say(done);
    return true;
  } catch (e) {
    say(e.message, true);
    if (open) drawSheet();
    return false;
  }
}

// ---- the board

function columnOf(task) {
  return COLUMNS.some(([key]) => key === task.status) ? task.status : "other";
}

function matches(task) {
  const agent = $("byAgent").value, priority = $("byPriority").value;
  if (agent && task.agent !== agent) return false;
  if (priority && task.priority !== priority) return false;
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [task.id, task.title, task.agent, task.project, task.reason, ...task.steps.map((s) => s.title)].join("\n").toLowerCase();
  return words.every((w) => text.includes(w));
}

function drawCard(task) {
  const done = task.steps.filter((s) => s.done).length, total = task.steps.length;
  const priority = task.priority || "normal";
  return el("li", { class: `card ${priority}`, "data-row": task.row },
    el("div", { class: "top" }, el("span", {}, task.id || "no id yet"), el("time", { datetime: task.createdAt, title: when(task.createdAt) }, age(task.createdAt))),
    el("h3", {}, el("button", { type: "button", "aria-haspopup": "dialog", onclick: () => openSheet(task.row) }, task.title || "(no title)")),
    el("div", { class: "who" },
      el("span", {}, task.agent || "nobody"),
      priority !== "normal" ? el("span", { class: `chip ${priority}` }, priority) : el("span", { class: "chip" }, priority),
      task.type && task.type !== "action" ? el("span", { class: "chip" }, task.type) : null,
      task.project ? el("span", {}, task.project) : null,
      columnOf(task) === "other" ? el("span", { class: "chip" }, LABELS[task.status] || task.status) : null,
      total ? el("span", {}, `${done}/${total}`) : null),
    task.reason && (task.status === "blocked" || task.status === "new") ? el("p", { class: "reason" }, task.reason) : null,
    total ? el("ul", { class: "steps", "aria-label": `${done} of ${total} steps done` },
      ...task.steps.slice(0, 6).map((s) => el("li", { class: s.done ? "done" : "" }, el("span", { "aria-hidden": "true" }, s.done ? "✓" : "○"), el("span", {}, s.title, s.done ? el("span", { class: "skip" }, " (done)") : null))),
      total > 6 ? el("li", {}, `and ${total - 6} more`) : null) : null,
    total ? progressBar(done / total) : null);
}

function progressBar(share) {
  const fill = el("i");
  fill.style.setProperty("width", `${Math.round(share * 100)}%`);
  return el("div", { class: "bar", "aria-hidden": "true" }, fill);
}

function order(a, b) {
  const finished = a.status === "done" || columnOf(a) === "other";
  if (finished) return (b.updatedAt || "").localeCompare(a.updatedAt || "");
  return (RANK[a.priority] ?? 2) - (RANK[b.priority] ?? 2) || (a.createdAt || "").localeCompare(b.createdAt || "") || a.row.localeCompare(b.row);
}

// drawBoard draws all columns. Cards that did not change are kept, so that the
// focus and the scroll position stay where they are.
function drawBoard(changed = null) {
  const focused = document.activeElement?.closest?.(".card")?.dataset.row;
  const shown = [...state.tasks.values()].filter(matches);
  const byColumn = Map.groupBy ? Map.groupBy(shown, columnOf) : shown.reduce((m, t) => m.set(columnOf(t), [...(m.get(columnOf(t)) || []), t]), new Map());
  const board = $("board");
  if (!board.children.length) {
    for (const [key, label] of COLUMNS) {
      board.append(el("section", { class: "column", "data-key": key, "aria-labelledby": `h-${key}` },
        el("h2", { id: `h-${key}` }, el("span", {}, label), el("span", { class: "count" })), el("ul")));
    }
  }
  for (const section of board.children) {
    const tasks = (byColumn.get(section.dataset.key) || []).sort(order);
    section.querySelector(".count").textContent = tasks.length;
    section.classList.toggle("empty", tasks.length === 0);
    section.hidden = section.dataset.key === "other" && tasks.length === 0;
    section.querySelector("ul").replaceChildren(...tasks.map((t) => {
      if (!cards.has(t.row) || changed?.has(t.row)) {
        const fresh = !cards.has(t.row);
        cards.set(t.row, drawCard(t));
        if (changed && !fresh) cards.get(t.row).classList.add("changed");
      }
      return cards.get(t.row);
    }));
  }
  for (const row of [...cards.keys()]) if (!state.tasks.has(row)) cards.delete(row);
  const empty = state.tasks.size === 0;
  $("welcome").hidden = !empty;
  board.hidden = empty;
  if (focused && cards.get(focused) && document.activeElement === document.body) cards.get(focused).querySelector("button")?.focus();
}

function fillSelect(select, values, label = (v) => v) {
  const keep = select.value, first = select.id.startsWith("by") ? [select.options[0]] : [];
  select.replaceChildren(...first, ...values.map((v) => el("option", { value: v }, label(v))));
  if ([...select.options].some((o) => o.value === keep)) select.value = keep;
}

function drawFilters() {
  const agents = [...new Set([...state.agents.map((a) => a.name), ...[...state.tasks.values()].map((t) => t.agent)])].filter(Boolean).sort();
  fillSelect($("byAgent"), agents);
  fillSelect($("byPriority"), state.priorities);
  fillSelect($("createForm").elements.priority, state.priorities);
  fillSelect($("createForm").elements.type, state.types);
  if (!$("createForm").elements.priority.dataset.set) {
    $("createForm").elements.priority.value = "normal";
    $("createForm").elements.priority.dataset.set = "1";
  }
  $("agents").replaceChildren(...agents.map((a) => el("option", { value: a })));
}

// ---- one task

function openSheet(row) {
  open = row;
  $("sendBackForm").hidden = true;
  $("sendBackOpen").setAttribute("aria-expanded", "false");
  $("taskHistory").replaceChildren();
  $("taskWhy").textContent = "";
  drawSheet();
  if (!$("task").open) $("task").showModal();
  loadDetail();
}

async function loadDetail() {
  const row = open;
  try {
    const detail = await call(`/page/task?row=${encodeURIComponent(row)}`);
    if (row !== open) return;
    $("taskWhy").textContent = detail.why || "";
    $("taskWhy").hidden = !detail.why;
    $("taskHistory").replaceChildren(...detail.history.map((h) => el("li", {},
      el("time", { datetime: h.at }, when(h.at)), el("span", { class: "by" }, h.who), el("span", {}, h.detail ? `${h.what}: ${h.detail}` : h.what))));
  } catch (e) {
    $("taskWhy").textContent = e.message;
  }
}

function drawSheet() {
  const task = state.tasks.get(open);
  if (!task) {
    if ($("task").open) $("task").close();
    return;
  }
  $("taskId").textContent = task.id || "no id yet";
  $("taskTitle").textContent = task.title;
  fillSelect($("taskStatus"), state.statuses, (s) => LABELS[s] || s);
  $("taskStatus").value = task.status;
  const agents = [...new Set([...state.agents.map((a) => a.name), task.agent])].filter(Boolean);
  fillSelect($("taskAgent"), task.agent ? agents : ["", ...agents], (a) => a || "nobody");
  $("taskAgent").value = task.agent || "";
  fillSelect($("taskPriority"), state.priorities);
  $("taskPriority").value = task.priority || "normal";
  const facts = [["Type", task.type], ["Project", task.project], ["Age", age(task.createdAt)], ["Row", task.row]];
  $("taskFacts").replaceChildren(...facts.filter(([, v]) => v).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
  $("taskReview").hidden = task.status !== "agent_done";
  const done = task.steps.filter((s) => s.done).length;
  $("taskProgress").max = Math.max(1, task.steps.length);
  $("taskProgress").value = done;
  $("taskSteps").replaceChildren(...task.steps.map((s) => el("li", {}, el("label", {},
    Object.assign(el("input", { type: "checkbox", "data-row": s.row, onchange: (e) => act({ do: "tick", row: s.row, done: e.target.checked }, e.target.checked ? "Step ticked." : "Step opened again.") }), { checked: s.done }),
    el("span", {}, s.title)))));
  for (const [box, text, value] of [["taskReasonBox", "taskReason", task.reason], ["taskResultBox", "taskResult", task.result]]) {
    $(box).hidden = !value;
    $(text).textContent = value || "";
  }
}

function bindSheet() {
  $("taskStatus").addEventListener("change", (e) => act({ do: "status", row: open, status: e.target.value }, "Status changed."));
  $("taskAgent").addEventListener("change", (e) => act({ do: "assign", row: open, agent: e.target.value }, "Assigned."));
  $("taskPriority").addEventListener("change", (e) => act({ do: "priority", row: open, priority: e.target.value }, "Priority changed."));
  $("approve").addEventListener("click", async () => {
    if (await act({ do: "approve", row: open }, "Approved: the task is done.")) $("task").close();
  });
  $("sendBackOpen").addEventListener("click", () => {
    const hidden = $("sendBackForm").hidden;
    $("sendBackForm").hidden = !hidden;
    $("sendBackOpen").setAttribute("aria-expanded", String(hidden));
    if (hidden) $("sendBackReason").focus();
  });
  $("sendBackForm").addEventListener("submit", async (e) => {
    e.preventDefault();
    if (await act({ do: "sendback", row: open, reason: $("sendBackReason").value }, "Sent back: the agent gets it again.")) {
      $("sendBackReason").value = "";
      $("task").close();
    }
  });
  $("task").addEventListener("close", () => {
    const row = open;
    open = null;
    cards.get(row)?.querySelector("button")?.focus();
  });
}

// ---- a new task

function bindCreate() {
  $("newButton").addEventListener("click", () => {
    $("createError").hidden = true;
    $("create").showModal();
    $("createForm").elements.title.focus();
  });
  $("createForm").addEventListener("submit", async (e) => {
    e.preventDefault();
    const f = e.target.elements;
    const steps = f.steps.value.split("\n").map((s) => s.trim()).filter(Boolean);
    try {
      const made = await call("/page/do", { do: "create", title: f.title.value, agent: f.agent.value, priority: f.priority.value, type: f.type.value, project: f.project.value, steps });
      $("create").close();
      e.target.reset();
      f.priority.value = "normal";
      say(`${made.id} is dropped and on its way to the board.`);
    } catch (err) {
      $("createError").textContent = err.message;
      $("createError").hidden = false;
    }
  });
}

// ---- components, room and failed files

function drawHealth() {
  const rank = { green: 0, "not installed": 1, yellow: 2, "clock error": 3, red: 3 };
  const worst = state.components.reduce((w, c) => Math.max(w, rank[c.state] ?? 3, c.result === "error" ? 3 : c.result === "partial" ? 2 : 0), 0);
  const failed = state.failed.length;
  $("healthDot").className = "dot " + (worst >= 3 ? "red" : worst === 2 || failed ? "yellow" : worst === 1 ? "" : "green");
  $("healthText").textContent = failed ? `${failed} failed` : worst >= 2 ? "Needs a look" : worst === 1 ? "Not all running" : "All well";
  $("components").replaceChildren(...state.components.map((c) => el("li", {},
    el("span", { class: `dot ${c.state === "clock error" ? "red" : c.state}`, "aria-hidden": "true" }), " ", c.id, `: ${c.state}`,
    el("small", {}, c.lastRun ? `${age(c.lastRun)} ago · ${c.result}${c.details ? " · " + c.details : ""}` : "was never started here"))));
  const r = state.room, waiting = state.waiting;
  $("room").textContent = [
    r.limit ? `${r.rows} of ${r.limit} rows` : `${r.rows ?? 0} rows`,
    r.walkAt ? `read ${age(r.walkAt)} ago` : "", waiting.newTasks ? `${waiting.newTasks} tasks in the inbox` : "", waiting.updates ? `${waiting.updates} reports in the inbox` : "",
  ].filter(Boolean).join(" · ");
  $("failed").replaceChildren(...(failed ? state.failed.map((f) => el("li", {},
    el("div", {}, f.taskId ? `${f.taskId}: ` : "", f.error, el("small", {}, `${f.name} · ${f.class}${f.hint ? " · " + f.hint : ""}`)),
    el("button", { type: "button", "aria-label": `Retry ${f.name}`, onclick: () => act({ do: "retry", name: f.name }, "Put back into the inbox.") }, "Retry")))
    : [el("li", {}, "None.")]));
}

// ---- the state and its changes

function take(update, all) {
  if (update.now) offset = Date.parse(update.now) - Date.now();
  for (const key of ["agents", "components", "failed", "room", "waiting", "statuses", "priorities", "types"]) {
    if (update[key] !== undefined) state[key] = update[key];
  }
  if (update.createCommand) $("welcomeCommand").textContent = update.createCommand;
  let changed = null;
  if (all) {
    state.tasks = new Map(update.tasks.map((t) => [t.row, t]));
    cards.clear();
  } else if (update.tasks || update.gone) {
    changed = new Set((update.tasks || []).map((t) => t.row));
    for (const t of update.tasks || []) state.tasks.set(t.row, t);
    for (const row of update.gone || []) state.tasks.delete(row);
  }
  if (all || update.tasks || update.gone || update.agents) {
    drawFilters();
    drawBoard(changed);
  }
  if (all || update.components || update.failed || update.room || update.waiting) drawHealth();
  if (open && (all || changed?.has(open) || update.gone?.includes(open))) {
    drawSheet();
    if (open) loadDetail();
  }
  document.documentElement.dataset.ready = "1";
}

let source = null;

async function start() {
  const first = await call("/page/state");
  take(first, true);
  follow(first.version);
}

// follow listens for changes. The browser connects again by itself; after a
// gap the server sends the whole state.
function follow(version) {
  source?.close();
  source = new EventSource(`/page/events?version=${encodeURIComponent(version)}`);
  let lost = false;
  source.addEventListener("state", (e) => take(JSON.parse(e.data), true));
  source.addEventListener("change", (e) => take(JSON.parse(e.data), false));
  source.addEventListener("open", () => {
    if (lost) say("Connected again.");
    lost = false;
  });
  source.addEventListener("error", async () => {
    lost = true;
    say("The connection to the board is lost; what you see may be old.", true);
    if (source.readyState !== EventSource.CLOSED) return;
    await new Promise((resolve) => setTimeout(resolve, 2000));
    start().catch(() => follow(""));
  });
}

function lock() {
  source?.close();
  for (const d of document.querySelectorAll("dialog[open]")) d.close();
  $("board").hidden = $("welcome").hidden = true;
  $("locked").hidden = false;
  document.documentElement.dataset.ready = "1";
}

// enter exchanges the code in the address, if there is one, for a session. It
// leaves the address at once, so that it ends up in no history and no link.
async function enter() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const response = await fetch("/page/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
  if (!response.ok) $("lockedText").textContent = "The code in this address was used already, or is older than a minute. Print a new one:";
}

for (const b of document.querySelectorAll("[data-close]")) b.addEventListener("click", () => b.closest("dialog").close());
for (const d of document.querySelectorAll("dialog")) d.addEventListener("click", (e) => e.target === d && d.close());
for (const id of ["find", "byAgent", "byPriority"]) $(id).addEventListener("input", () => drawBoard());
$("filters").addEventListener("submit", (e) => e.preventDefault());
$("healthButton").addEventListener("click", () => $("health").showModal());
document.addEventListener("keydown", (e) => {
  if (e.target.closest("input, textarea, select, dialog") || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "/") { e.preventDefault(); $("find").focus(); }
  if (e.key === "n") { e.preventDefault(); $("newButton").click(); }
});
setInterval(() => {
  for (const t of document.querySelectorAll(".card time")) t.textContent = age(t.dateTime);
  drawHealth();
}, 15000);
bindSheet();
bindCreate();
enter().then(start).catch((e) => say(e.message, true));
