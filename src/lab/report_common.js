// What every picture of a page uses: the page's data, numbers in words, colours of the theme, names of places and
// measures, tables.
let page, bothStacks;

// The runs that the page shows: of a report one or two, of any other page its own data.
function runs() { return page.runs ?? [page]; }

function take(data) {
  page = data;
  const stacks = (run) => new Set([...(run.sites ?? []), ...Object.keys(run.formulas ?? {})].filter((at) => place(at).layer !== null).map((at) => place(at).stack));
  bothStacks = runs().some((run) => stacks(run).size > 1);  // then names of places begin with their stack
}

take(JSON.parse(document.getElementById("data").textContent));

function short(x) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e5 || size < 1e-3) return x.toExponential(1).replace("e+", "e");
  return String(Number(x.toPrecision(3)));
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function channels(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function mix(from, to, share) {
  const a = channels(from), b = channels(to);
  return `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * share)).join(",")})`;
}

function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

// "decoder.3.feed_forward" as {stack, layer, part}; "decoder" and "token_embedding" have no layer.
function place(at) {
  const parts = at.split(".");
  const layer = /^\d+$/.test(parts[1] ?? "") ? Number(parts[1]) : null;
  return layer === null ? {stack: parts[0], layer, part: parts.slice(1).join(".")}
                        : {stack: parts[0], layer, part: parts.slice(2).join(".")};
}

const partNames = {attention: "attention", cross_attention: "cross", feed_forward: "ffn"};

// A short name for an axis: "3 ffn", "enc 3 ffn" where the model has both stacks; "out" for a stack's end.
function shortPlace(at) {
  const p = place(at);
  const stack = bothStacks ? p.stack.slice(0, 3) + " " : "";
  if (p.layer !== null) return `${stack}${p.layer} ${partNames[p.part] ?? p.part}`;
  return at === "encoder" || at === "decoder" ? `${stack}out` : at;
}

const measureNames = {
  "stream.rms": "Stream: RMS",
  "stream.mean": "Stream: mean",
  "stream.max": "Stream: largest |x|",
  "stream.median": "Stream: median |x|",
  "stream.kurtosis": "Stream: kurtosis",
  "stream.not_finite": "Stream: elements that are not finite",
  "stream.mean_over_rms": "Stream: mean over RMS",
  "stream.token_cosine": "Stream: mean cosine between tokens",
  "stream.residual": "Stream: what differs between tokens, share of the norm",
  "stream.effective_rank": "Stream: effective rank",
  "stream.grad_norm": "Stream: gradient norm",
  "stream.grad_rms": "Stream: gradient RMS",
  "branch.rms": "Branch: RMS",
  "branch.mean": "Branch: mean",
  "branch.max": "Branch: largest |x|",
  "branch.median": "Branch: median |x|",
  "branch.kurtosis": "Branch: kurtosis",
  "branch.not_finite": "Branch: elements that are not finite",
  "branch.mean_over_rms": "Branch: mean over RMS",
  "branch.grad_norm": "Branch: gradient norm",
  "branch.grad_rms": "Branch: gradient RMS",
  "step.added": "Sub-layer: what is added over what is kept",
  "step.ratio": "Sub-layer: branch RMS over stream RMS",
  "step.cosine": "Sub-layer: cosine of the stream before and after",
  "step.angle": "Sub-layer: angle that the stream turns, over pi",
  "attention.max_logit": "Attention: largest |logit|",
  "attention.entropy": "Attention: entropy over ln n",
  "attention.least_entropy": "Attention: entropy over ln n, of the sharpest head",
  "attention.first_mass": "Attention: weight of the first token",
  "attention.query_norm": "Attention: norm of a query",
  "attention.key_norm": "Attention: norm of a key",
  "streams.cosine": "Streams: cosine between them",
  "streams.amax": "Streams: composite gain, largest sum of a row or column",
  "streams.row_sum": "Streams: largest row sum of the product of their maps",
  "streams.least_row_sum": "Streams: least row sum of the product of their maps",
  "streams.column_sum": "Streams: largest column sum of the product of their maps",
  "streams.least_column_sum": "Streams: least column sum of the product of their maps",
  "scale.alpha": "Formula: alpha, on the shortcut",
  "scale.gate": "Formula: g, on the branch",
  "scale.input": "Formula: s, on the normed input",
  "layer.grad_norm": "Layer: gradient norm of its weights",
  "layer.drop_loss": "Layer: rise of the loss without it",
  "layers.grad_first_over_last": "Layers: gradient norm, first over last",
  "layers.grad_cv": "Layers: gradient norm, coefficient of variation",
  "layers.stream_grad_first_over_last": "Layers: gradient on the stream, first over last",
  "logits.log_z": "Logits: log Z",
  "logits.max": "Logits: largest |z|",
  "logits.mean": "Logits: mean",
  "logits.rms": "Logits: RMS",
  "function.loss": "Model: loss on the fixed batch",
  "function.rms": "Model: RMS of its output on the fixed batch",
  "function.drift": "Model: RMS of its output's change since the start",
  "function.update": "Model: RMS of its output's change by the update",
  "function.perturbation": "Model: change of its output for small changes of the weights",
  "weights.grad_rms": "Weights: gradient RMS",
  "weights.grad_norm": "Weights: gradient norm",
  "weights.rms": "Weights: RMS",
  "weights.update_rms": "Weights: update RMS",
  "weights.update_ratio": "Weights: update over weights",
};
function measureName(key) {
  return measureNames[key] ?? key;
}

// Where a figure has its picture of each run: in itself, or of two runs in a panel for each, side by side.
function panels(figure) {
  if (runs().length === 1) return [figure];
  let pair = figure.querySelector(".pair");
  if (!pair) {
    pair = element("div", {class: "pair"}, ...runs().map((run) => element("div", {}, element("h4", {}, run.name))));
    figure.append(pair);
  }
  return [...pair.children];
}

// What belongs to one run, named as such where there are two.
function named(run, words) {
  return runs().length === 1 ? words : `${run.name}: ${words}`;
}

// The container's table, which is filled while it is open: head is a list of names, rows a function that returns lists.
function addTable(container, title, head, rows) {
  let details = container.querySelector(":scope > details");
  if (!details) {
    details = element("details", {}, element("summary", {}, "Data table"));
    details.addEventListener("toggle", () => details.fill());
    container.append(details);
  }
  details.firstChild.setAttribute("aria-label", `Data table: ${title}`);
  let filled = false;
  details.fill = () => {
    if (!details.open || filled) return;
    filled = true;
    const body = element("tbody");
    for (const [name, ...values] of rows()) {
      body.append(element("tr", {}, element("th", {scope: "row"}, String(name)),
                          ...values.map((v) => element("td", {}, typeof v === "string" ? v : short(v)))));
    }
    const headRow = element("tr", {}, ...head.map((h) => element("th", {scope: "col"}, h)));
    const table = element("table", {}, element("caption", {}, title), element("thead", {}, headRow), body);
    const scroll = element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": title}, table);
    const before = details.querySelector(".scroll"), top = before?.scrollTop ?? 0;
    before?.remove();
    details.append(scroll);
    scroll.scrollTop = top;
  };
  details.fill();
}

// Gives a list its choices, [{label, options: [{value, words}]}], and keeps what is chosen while it is among them.
function fillSelect(select, groups) {
  const chosen = select.value, key = JSON.stringify(groups);
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  select.replaceChildren(...groups.filter((g) => g.options.length).map(({label, options}) =>
      element("optgroup", {label}, ...options.map(({value, words}) => element("option", {value}, words)))));
  if (groups.some((g) => g.options.some((o) => o.value === chosen))) select.value = chosen;
}

// The figure's list of choices with its label; made where it is not there yet.
function selectOf(figure, id, label, changed) {
  let select = figure.querySelector("select");
  if (!select) {
    select = element("select", {id});
    select.addEventListener("change", changed);
    figure.append(element("p", {class: "controls"}, element("label", {for: id}, label), select));
  }
  return select;
}

// At most `most` of the numbers 0 .. count - 1 at even strides, the first and the last among them.
function evenly(count, most) {
  if (count <= most) return [...Array(count).keys()];
  return [...Array(most).keys()].map((i) => Math.round(i * (count - 1) / (most - 1)));
}

function range(values) {
  const known = values.filter((v) => v !== null && v !== undefined);
  return known.length ? [Math.min(...known), Math.max(...known)] : null;
}
