// Talks to /turn and shows, turn by turn, what was searched and why. Every text is set as text, never as HTML.

const PATHS = {
  raw: "The visitor’s own words",
  intent: "Short reply, made into a text query",
  keywords: "Short reply, made into graph keywords",
  reference: "Longer follow-up, checked for what it refers to",
};
const DECISIONS = {
  raw: "searched as written",
  resolve: "resolved",
  keep: "kept as written",
  ambiguous: "kept: it could mean several things",
  error: "kept: the check gave no answer",
};
const FALLBACKS = {
  disabled: "The rewriter is off.",
  first_turn: "A first message: there is nothing before it to resolve against.",
  gate_declined: "The message can be searched as it is.",
  timeout: "The check took too long; the visitor’s own words are searched.",
  model_error: "The model failed; the visitor’s own words are searched.",
  quota: "The model quota of this minute is used up; the visitor’s own words are searched.",
  search_failed: "The resolved search failed; the visitor’s own words were searched instead.",
  not_in_history: "The name does not stand in the conversation, so it was not used.",
  company: "The name is the company itself, so it was not used.",
  already_named: "The message names it already.",
};
const FAILURES = {
  superseded: "stopped by a newer message",
  stopping: "the server is stopping",
  unavailable: "this tenant is not available; the server’s log says why",
  failed: "the turn failed; the server’s log says why",
};
// What visitor and assistant have said, and the message that follows.
const STARTERS = {
  Velmora: [
    {
      said: ["Do you have a tool that keeps track of stock?", "Yes, Stokarel counts stock and deliveries. Shall I tell you more?"],
      next: "Which retailers already run it?",
      about: "a follow-up that does not name its product",
    },
    {
      said: ["Bonjour, que proposez-vous pour planifier une équipe ?", "Nous avons un outil de planning, Planivaro. Dans quel secteur travaillez-vous ?"],
      next: "Santé",
      about: "one word that answers a question",
    },
    {
      said: ["What do you offer for care homes?", "Planivaro handles night rotas. Would you like a customer example?"],
      next: "Yes",
      about: "a yes to an offer",
    },
    { said: [], next: "Hi, we need something to keep track of stock in our shops", about: "a first message" },
  ],
};
const OPEN_PASSAGES = 3;
const KEPT_MESSAGES = 60; // what is sent of a long conversation; a request has a size limit

const $ = (id) => document.getElementById(id);
const state = { tenants: [], turns: [], selected: null, running: null, key: "" };

function el(tag, props = {}, ...children) {
  const { data, aria, ...rest } = props;
  const node = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(aria ?? {})) node.setAttribute(`aria-${name}`, value);
  Object.assign(node.dataset, data ?? {});
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

const ms = (value) => (value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(value < 10 ? 1 : 0)} ms`);
const words = (reason) => String(reason).replaceAll("_", " ");

// ---- the server

function headers() {
  const sent = { "content-type": "application/json" };
  if (state.key) sent.authorization = `Bearer ${state.key}`;
  return sent;
}

async function loadTenants() {
  const answer = await fetch("/tenants", { headers: headers() });
  $("key-form").hidden = answer.status !== 401;
  if (answer.status === 401) {
    if (state.key) say("That key is not accepted.");
    $("key").focus();
    return;
  }
  const { tenants, rewriter } = await answer.json();
  state.tenants = tenants;
  $("tenant").replaceChildren(
    ...tenants.map(({ id, company_name }) => el("option", { value: id }, company_name ? `${id} (${company_name})` : id)),
  );
  $("tenant").disabled = tenants.length === 0;
  const preferred = tenants.find(({ rag_mode }) => rag_mode !== "naive");
  if (preferred) $("tenant").value = preferred.id;
  $("rewriter").checked = rewriter;
  $("rewriter").disabled = !rewriter; // a request can switch it off, never on
  showTenant();
}

async function* ask(turn, rewriter, signal) {
  const body = { tenant: turn.tenant, message: turn.message, history: turn.history, rewriter };
  const answer = await fetch("/turn", { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!answer.ok) {
    const { detail } = await answer.json().catch(() => ({ detail: answer.statusText }));
    const wait = answer.headers.get("retry-after");
    throw new Error(wait ? `${detail}; try again in ${wait} s` : detail);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const [name, data] = buffer.slice(0, end).split("\n");
      buffer = buffer.slice(end + 2);
      yield { event: name.slice("event: ".length), ...JSON.parse(data.slice("data: ".length)) };
    }
  }
}

// ---- turns

function historyBefore(index) {
  const messages = state.turns.slice(0, index).flatMap((turn, at) => [
    { at, role: "user", content: turn.message },
    ...(turn.answer ? [{ at, role: "assistant", content: turn.answer.slice(0, 8000) }] : []),
  ]);
  return messages.slice(-KEPT_MESSAGES);
}

function newTurn(message) {
  const places = historyBefore(state.turns.length);
  return {
    message,
    places, // where in the page each sent message stands
    history: places.map(({ role, content }) => ({ role, content })),
    tenant: $("tenant").value,
    rewriter: $("rewriter").checked,
    answer: "",
    events: [],
    final: null,
    failure: "",
    compared: null,
    isEdited: false,
    isGiven: false, // said by the page, not searched
  };
}

function start({ said: [message, answer], next }) {
  if (message) state.turns.push({ ...newTurn(message), answer, isGiven: true });
  send(next);
}

async function send(message) {
  const turn = newTurn(message);
  state.turns.push(turn);
  state.selected = turn;
  state.running = new AbortController();
  setRunning(true);
  render();
  try {
    for await (const event of ask(turn, turn.rewriter, state.running.signal)) onEvent(turn, event);
    if (!turn.final && !turn.failure) turn.failure = "the connection was cut";
  } catch (error) {
    turn.failure = error.name === "AbortError" ? "stopped" : error.message;
  }
  state.running = null;
  setRunning(false);
  if (turn.failure) {
    say(`No answer: ${turn.failure}`);
    render();
  }
  if (document.activeElement === document.body) $("message").focus();
}

function onEvent(turn, event) {
  switch (event.event) {
    case "token":
      turn.answer += event.text;
      renderTurn(turn); // and nothing else: a click or a focus elsewhere on the page must survive
      break;
    case "final":
      turn.final = event;
      turn.answer = event.answer;
      say(`${summary(turn)}. ${passagesOf(event).length} passages.`);
      render();
      break;
    case "error":
      turn.failure = FAILURES[event.reason] ?? words(event.reason);
      break;
    default:
      turn.events.push(event);
      say(told(event));
      renderTurn(turn);
      if (turn === state.selected) renderDetails();
  }
}

async function compare(turn) {
  const button = $("compare");
  button.disabled = true;
  say("Searching the visitor’s own words for comparison…");
  try {
    for await (const event of ask(turn, false)) {
      if (event.event === "final") turn.compared = event;
      if (event.event === "error") throw new Error(FAILURES[event.reason] ?? event.reason);
    }
    say("The comparison is there.");
  } catch (error) {
    say(`No comparison: ${error.message}`);
  }
  render();
  $("comparison")?.scrollIntoView({ block: "nearest" });
}

function told(event) {
  switch (event.event) {
    case "path": return `${PATHS[event.path] ?? event.path}…`;
    case "search_started": return `Started: ${event.name}…`;
    case "decision": return `Decision: ${DECISIONS[event.decision] ?? event.decision}…`;
    case "search_cancelled": return `Cancelled (${words(event.cause)}): ${event.name}…`;
    case "documents": return `Found ${event.documents} documents…`;
    default: return `${words(event.event)}…`;
  }
}

function summary(turn) {
  const { record } = turn.final;
  if (record.redirected) return "Answered by another branch";
  const decision = DECISIONS[record.decision] ?? record.decision;
  const said = record.entity && !record.rejected && record.changed ? `${decision}: ${record.entity}` : decision;
  return said[0].toUpperCase() + said.slice(1);
}

const passagesOf = (final) => final.documents.filter(({ kind }) => kind === "chunk");
const graphHitsOf = (final) => final.documents.filter(({ kind }) => kind !== "chunk");

// ---- conversation

function say(text) {
  $("status").textContent = text;
}

function setRunning(isRunning) {
  $("send").disabled = isRunning;
  $("stop").hidden = !isRunning;
}

function render() {
  $("empty").hidden = state.turns.length > 0;
  const focused = document.activeElement?.dataset?.keep;
  $("turns").replaceChildren(...state.turns.map(turnView));
  if (focused) document.querySelector(`[data-keep="${focused}"]`)?.focus();
  if (state.running) scrollToEnd();
  renderDetails();
}

function renderTurn(turn) {
  const index = state.turns.indexOf(turn);
  if (index < 0) return; // a new conversation has begun
  $("turns").children[index].replaceWith(turnView(turn, index));
  scrollToEnd();
}

function scrollToEnd() {
  $("scroll").scrollTop = $("scroll").scrollHeight;
}

function turnView(turn, index) {
  const marks = marksFor(index);
  const view = el(
    "li",
    { className: "turn" },
    el("div", { className: "bubble visitor" }, el("span", { className: "visually-hidden" }, "Visitor: "), marked(turn.message, marks.user)),
    turn.isGiven ? "" : el("div", { className: "under right" }, chip(turn, index)),
  );
  if (turn.isEdited) {
    view.append(editor(turn, index));
    return view;
  }
  const text = turn.answer || (turn.failure ? `No answer: ${turn.failure}.` : "…");
  view.append(
    el(
      "div",
      { className: `bubble assistant${turn.answer ? "" : " waiting"}` },
      el("span", { className: "visually-hidden" }, "Assistant: "),
      marked(text, turn.answer ? marks.assistant : []),
    ),
  );
  if (turn.final || turn.isGiven) {
    view.append(
      el("div", { className: "under" }, el("button", {
        type: "button", className: "link", data: { keep: `edit-${index}` }, aria: { label: `Edit the answer of turn ${index + 1}` },
        onclick: () => { turn.isEdited = true; render(); $("edited").focus(); },
      }, "Edit answer")),
    );
  }
  return view;
}

function chip(turn, index) {
  const label = turn.final ? summary(turn) : turn.failure ? "no answer" : told(turn.events.at(-1) ?? { event: "sent" });
  const tone = turn.final?.record.decision ?? (turn.failure ? "error" : "raw");
  return el("button", {
    type: "button",
    className: `chip ${tone}`,
    data: { keep: `why-${index}` },
    aria: { current: String(turn === state.selected), label: `Why, turn ${index + 1}: ${label}` },
    onclick: () => {
      state.selected = turn;
      render();
      if (matchMedia("(max-width: 820px)").matches) $("why").focus();
    },
  }, label);
}

function editor(turn, index) {
  const field = el("textarea", { id: "edited", className: "edit", maxLength: 8000, value: turn.answer, aria: { label: `Answer of turn ${index + 1}` } });
  const close = (keep) => {
    if (keep && field.value.trim()) turn.answer = field.value.trim();
    turn.isEdited = false;
    render();
    document.querySelector(`[data-keep="edit-${index}"]`)?.focus();
  };
  field.onkeydown = (event) => { if (event.key === "Escape") close(false); };
  return el("div", {}, field, el(
    "div", { className: "under" },
    el("button", { type: "button", onclick: () => close(true) }, "Keep"),
    el("button", { type: "button", className: "quiet", onclick: () => close(false) }, "Cancel"),
  ));
}

// Evidence counts characters as Python does; a JavaScript string counts UTF-16 units.
function marksFor(index) {
  const marks = { user: [], assistant: [] };
  for (const { message, start, end } of state.selected?.final?.record.evidence ?? []) {
    const place = state.selected.places[message];
    if (place?.at === index) marks[place.role].push([start, end]);
  }
  return marks;
}

function marked(text, ranges) {
  const characters = Array.from(text);
  const parts = [];
  let from = 0;
  for (const [start, end] of [...ranges].sort((one, other) => one[0] - other[0])) {
    if (start < from) continue;
    parts.push(characters.slice(from, start).join(""), el("mark", {}, characters.slice(start, end).join("")));
    from = end;
  }
  parts.push(characters.slice(from).join(""));
  return parts;
}

// ---- details

function renderDetails() {
  const turn = state.selected;
  if (!turn) {
    $("details").replaceChildren(legend());
  } else if (!turn.final) {
    const lines = turn.events.map((event) => el("li", {}, told(event)));
    $("details").replaceChildren(card("As it happens", el("ul", {}, lines), turn.failure ? el("p", {}, `No answer: ${turn.failure}.`) : ""));
  } else {
    const { record, spans } = turn.final;
    const wasOpen = Object.fromEntries([...$("details").querySelectorAll("details[data-name]")].map((d) => [d.dataset.name, d.open]));
    $("details").replaceChildren(
      ...[verdict(turn), evidence(turn), timeLine(record), comparison(turn), channels(record), passages(turn), spanTree(spans), raw(record)].filter(Boolean),
    );
    for (const node of $("details").querySelectorAll("details[data-name]")) node.open = wasOpen[node.dataset.name] ?? node.open;
  }
}

function legend() {
  const rows = [
    ["A first message", "is searched as written: nothing has been said that it could refer to."],
    ["A short reply", "such as “Yes” or “Santé” is resolved first: into a text query, or into keywords where the tenant has a graph."],
    ["A longer follow-up", "is searched at once, while a check looks for the product it refers to. A name that stands in the conversation is appended and searched instead."],
    ["Whenever a check fails", "the visitor’s own words are searched, and the turn costs no more time."],
  ];
  return card("How to read this side", el("dl", { className: "legend" }, rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
}

function card(title, ...children) {
  return el("section", { className: "card" }, el("h3", {}, title), ...children);
}

function verdict(turn) {
  const { record } = turn.final;
  const reason = record.fallback ? FALLBACKS[record.fallback] ?? `${words(record.fallback)}.` : "";
  const by = record.model ? `Decided by ${record.model}${record.check_ms === null ? "" : ` in ${ms(record.check_ms)}`}.` : "";
  return el(
    "section",
    { className: `card verdict ${record.decision}` },
    el("p", { className: "quiet-text" }, `Turn ${state.turns.indexOf(turn) + 1} · ${turn.tenant} · ${PATHS[record.path] ?? record.path}`),
    el("p", { className: "decision" }, el("b", {}, summary(turn))),
    reason ? el("p", {}, reason) : "",
    by ? el("p", { className: "quiet-text" }, by) : "",
    record.problems.length ? el("p", { className: "quiet-text" }, `On the way: ${record.problems.join(", ")}.`) : "",
    record.redirected ? "" : el("p", { className: "searched" }, ...appended(record)),
  );
}

function appended({ message, query }) {
  return query !== message && query.startsWith(message)
    ? [message, el("ins", {}, query.slice(message.length))]
    : query === message ? [query] : [el("ins", {}, query)];
}

function evidence(turn) {
  const found = turn.final.record.evidence.filter(({ message }) => turn.history[message]);
  if (!found.length) return null;
  return card("Evidence in the conversation", ...found.map(({ message, start, end }) => {
    const { role, content } = turn.history[message];
    const characters = Array.from(content);
    const [from, to] = [Math.max(0, start - 60), Math.min(characters.length, end + 60)];
    return el(
      "p", { className: "evidence" },
      el("span", { className: "who" }, role === "user" ? "Visitor: " : "Assistant: "),
      from > 0 ? "…" : "", ...marked(characters.slice(from, to).join(""), [[start - from, end - from]]), to < characters.length ? "…" : "",
    );
  }));
}

function timeLine(record) {
  const lanes = record.searches.map((search) => ({ ...search, kind: search.fate === "failed" ? "failed" : ["used", "unused"].includes(search.fate) ? "" : "cut" }));
  if (record.check_ms !== null) {
    lanes.push({ name: "check", fate: record.decision, started_ms: record.check_started_ms, ended_ms: record.check_started_ms + record.check_ms, kind: "check" });
  }
  if (!lanes.length) return null;
  const total = Math.max(record.total_ms, 0.01, ...lanes.map(({ ended_ms }) => ended_ms ?? 0));
  const rows = lanes.sort((one, other) => one.started_ms - other.started_ms).map(({ name, fate, cause, error, started_ms, ended_ms, kind }) => {
    const ended = ended_ms ?? record.total_ms;
    const bar = el("span", { className: `bar ${kind}` });
    bar.style.left = `${(100 * started_ms) / total}%`;
    bar.style.width = `${Math.max(0.5, (100 * (ended - started_ms)) / total)}%`;
    const why = cause ?? error;
    return el("li", {}, el("span", {}, name), el("span", { className: "lane", aria: { hidden: "true" } }, bar),
      el("span", { className: "took" }, `${ms(ended - started_ms)} · ${words(fate)}${why ? ` (${words(why)})` : ""}`));
  });
  const notes = [`${ms(record.total_ms)} in all.`];
  if (record.saved_ms > 0) notes.push(`The early search hid ${ms(record.saved_ms)} of the check.`);
  return card("Time line", el("ul", { className: "time" }, rows), el("p", {}, notes.join(" ")));
}

function comparison(turn) {
  const { final, compared } = turn;
  if (!compared) {
    if (!final.record.changed) return null;
    return card("Comparison",
      el("button", { id: "compare", type: "button", className: "quiet", data: { keep: "compare" }, onclick: () => compare(turn) }, "Search the same with the rewriter off"));
  }
  const key = (passage) => passage.chunk_id ?? passage.text;
  const column = (title, one, other) => {
    const others = new Set(passagesOf(other).map(key));
    return el("div", {}, el("h4", {}, title), el("p", { className: "searched" }, ...appended(one.record)),
      el("ol", { className: "passages" }, passagesOf(one).map((passage) => el("li", {}, heading(passage), others.has(key(passage)) ? "" : el("div", { className: "only" }, "only here")))));
  };
  return el("section", { className: "card", id: "comparison" }, el("h3", {}, "Comparison"),
    el("div", { className: "compare" }, column("As decided", final, compared), column("Rewriter off", compared, final)));
}

function heading(passage) {
  return passage.title ?? passage.source ?? passage.text.slice(0, 80);
}

function passages(turn) {
  const found = passagesOf(turn.final);
  const hits = graphHitsOf(turn.final);
  const list = found.map((passage, rank) => {
    const title = heading(passage);
    const text = passage.text.startsWith(title) ? passage.text.slice(title.length).trim() : passage.text;
    const from = [passage.source, passage.lang].filter(Boolean).join(" · ");
    const name = `passage-${state.turns.indexOf(turn)}-${rank}`;
    return el("li", {}, el("details", { open: rank < OPEN_PASSAGES, data: { name } },
      el("summary", {}, title, " ", el("span", { className: "source" }, from)), el("p", { className: "text" }, text)));
  });
  return card(
    "Passages found",
    found.length ? el("ol", { className: "passages" }, list) : el("p", {}, "No passage was found."),
    hits.length
      ? el("details", { data: { name: "graph" } }, el("summary", {}, `Entities and relations (the first ${hits.length})`), el("ul", { className: "hits" }, hits.map((hit) => el("li", {}, hit.text))))
      : "",
  );
}

function channels({ channels: sent, query }) {
  const tags = (list) => (list.length ? list.map((word) => el("span", { className: "tag" }, word)) : ["none"]);
  const rows = [["Text", [sent.vector_text || query]]];
  if (sent.facts.sent && sent.facts.sent !== sent.vector_text) rows.push(["Bound to the company", [sent.facts.sent]]);
  if (sent.rag_mode === "naive") {
    rows.push(["Graph", ["none on this tier"]]);
  } else {
    rows.push(["Entities", tags(sent.ll_keywords)], ["Themes", tags(sent.hl_keywords)]);
    if (sent.keyword_source) rows.push(["Keywords from", [sent.keyword_source === "supplied" ? "the rewriter" : sent.keyword_source]]);
    const { chunks, entities, relations } = sent.facts;
    if (entities !== undefined) rows.push(["Found", [`${chunks} passages, ${entities} entities, ${relations} relations`]]);
  }
  return card("Channels", el("dl", {}, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, ...value)])));
}

function spanTree(spans) {
  if (!spans.length) return null;
  const branch = (list) => el("ul", {}, list.map((span) => {
    const took = span.ended_ms === null ? "open" : ms(span.ended_ms - span.started_ms);
    const tokens = span.usage?.total ? ` · ${span.usage.total} tokens` : "";
    const fate = span.status === "ok" ? "" : el("span", { className: span.status === "cancelled" ? "cancelled" : "failed" }, ` ${span.status} (${words(span.cause ?? span.error)})`);
    return el("li", {}, el("span", { className: "name" }, span.name), el("span", { className: "facts" }, ` ${span.kind} · ${took}${tokens}`), fate, span.children.length ? branch(span.children) : "");
  }));
  return el("section", { className: "card spans" }, el("h3", {}, "Spans"), branch(spans));
}

function raw(record) {
  return el("details", { data: { name: "raw" } }, el("summary", {}, "The decision record as JSON"),
    el("pre", { tabIndex: 0, aria: { label: "Decision record" } }, JSON.stringify(record, null, 2)));
}

// ---- controls

function showTenant() {
  const tenant = state.tenants.find(({ id }) => id === $("tenant").value);
  $("mode").textContent = tenant ? (tenant.rag_mode === "naive" ? "passages" : "passages + graph") : "";
  $("starters").replaceChildren(
    ...(STARTERS[tenant?.company_name] ?? []).map((starter) =>
      el("button", { type: "button", className: "quiet", onclick: () => start(starter) }, `“${starter.next}”`, el("small", {}, starter.about))),
  );
}

function restart() {
  state.running?.abort();
  Object.assign(state, { turns: [], selected: null });
  say("");
  render();
  $("message").focus();
}

$("tenant").onchange = () => { showTenant(); restart(); say(`A new conversation with ${$("tenant").value}.`); };
$("restart").onclick = restart;
$("stop").onclick = () => state.running?.abort();
$("composer").onsubmit = (event) => {
  event.preventDefault();
  const message = $("message").value.trim();
  if (!message || state.running || !$("tenant").value) return;
  $("message").value = "";
  send(message);
};
$("message").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
};
$("key-form").onsubmit = (event) => {
  event.preventDefault();
  state.key = $("key").value;
  loadTenants();
};

render();
loadTenants().catch(() => say("The server does not answer."));
