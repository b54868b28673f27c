// Line charts, by step and by depth. Each is drawn anew when the theme changes.
Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
const charts = new Map();

function axis(title, scaleOf = {}) {
  return {
    ...scaleOf,
    title: {display: Boolean(title), text: title, color: colour("muted")},
    grid: {color: colour("grid"), borderColor: colour("line"), tickColor: colour("line"), ...scaleOf.grid},
    ticks: {color: colour("muted"), maxRotation: 60, autoSkipPadding: 8, ...scaleOf.ticks},
  };
}

function linearAxis() {
  return axis("", {type: "linear", ticks: {callback: (v) => short(v), maxTicksLimit: 7}});
}

// A logarithmic scale where positive values span more than a factor of 30.
function valueAxis(values) {
  const extent = range(values), wide = extent && extent[0] > 0 && extent[1] / extent[0] > 30;
  if (!wide) return linearAxis();
  const shown = extent[1] / extent[0] > 1000 ? ["1"] : ["1", "2", "5"];
  const word = (v) => shown.includes(v.toExponential(3)[0]) && Number(v.toPrecision(1)) === Number(v.toPrecision(6)) ? short(v) : "";
  const lines = {color: (c) => c.tick?.label ? colour("grid") : "transparent"};
  return axis("", {type: "logarithmic", ticks: {callback: word, autoSkip: false}, grid: lines});
}

function canvasOf(figure, label) {
  let plot = figure.querySelector(".plot");
  if (!plot) {
    plot = element("div", {class: "plot"}, element("canvas", {role: "img"}));
    figure.append(plot);
  }
  const canvas = plot.querySelector("canvas");
  canvas.setAttribute("aria-label", label);
  return canvas;
}

function drawChart(id, label, config) {
  charts.get(id)?.destroy();
  const figure = document.getElementById(id);
  const tooltip = {callbacks: {label: (c) => ` ${c.dataset.label}: ${short(c.parsed.y)}`}};
  const legend = {
    display: config.data.datasets.length > 1,
    align: "start",
    labels: {color: colour("ink"), usePointStyle: true, boxHeight: 6, padding: 14},
  };
  charts.set(id, new Chart(canvasOf(figure, label), {
    ...config,
    options: {
      interaction: {mode: "index", intersect: false},
      plugins: {legend, tooltip},
      ...config.options,
    },
  }));
}

// Draws now, and again when the theme changes and for paper.
function keepDrawn(draw) {
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => {
      document.documentElement.classList.toggle("printing", printing);
      draw();
      for (const chart of charts.values()) chart.resize();
    });
  }
}

function line(label, points, look) {
  return {
    label,
    data: points,
    borderColor: look.colour,
    backgroundColor: look.colour,
    borderWidth: look.width ?? 1.75,
    pointRadius: look.points ?? 0,
    pointStyle: look.style ?? "circle",
    pointHitRadius: 8,
    showLine: look.line ?? true,
    spanGaps: false,
  };
}

// "from 8.3 at step 1 to 2.1 at step 400", for those who hear the picture.
function inWords(points, unit = "step") {
  const known = points.filter((p) => p.y !== null);
  if (!known.length) return "without a value";
  const first = known[0], last = known[known.length - 1];
  return `from ${short(first.y)} at ${unit} ${first.x} to ${short(last.y)} at ${unit} ${last.x}`;
}

function pointsOf(steps, values) {
  return steps.map((x, i) => ({x, y: values[i] ?? null}));
}

function drawByStep(id, name, lines) {
  const values = lines.flatMap((l) => l.data.map((p) => p.y));
  drawChart(id, `${name} by step: ` + lines.map((l) => `${l.label} ${inWords(l.data)}`).join("; "), {
    type: "line",
    data: {datasets: lines},
    options: {
      parsing: false,
      scales: {x: axis("step", {type: "linear", ticks: {maxTicksLimit: 9, callback: String}}), y: id === "rate" ? linearAxis() : valueAxis(values)},
    },
  });
}

function drawTraining() {
  const s = run.steps, e = run.evaluations;
  const loss = [line("training", pointsOf(s.step, s.loss), {colour: colour("series-a"), width: 1.25})];
  if (e.step.length) {
    loss.push(line("validation", pointsOf(e.step, e.loss), {colour: colour("series-b"), width: 2.25, points: e.step.length > 40 ? 0 : 3.5, style: "rectRot"}));
  }
  for (const kind of ["spike", "skipped"]) {
    const marks = run.events.filter((v) => v.kind === kind);
    if (!marks.length) continue;
    const look = {colour: colour("warm"), points: 6, style: kind === "spike" ? "triangle" : "crossRot", line: false};
    loss.push(line(kind, marks.map((m) => ({x: m.step, y: m.loss})), look));
  }
  drawByStep("loss", "Loss", loss);
  drawByStep("rate", "Learning rate", [line("learning rate", pointsOf(s.step, s.lr), {colour: colour("series-c"), width: 2})]);
  drawByStep("gradient", "Gradient norm",
             [line("gradient norm", pointsOf(s.step, s.grad_norm), {colour: colour("series-a"), width: 1.25})]);
  drawByStep("speed", "Tokens per second",
             [line("tokens/s", pointsOf(s.step, s.tokens_per_second), {colour: colour("series-c"), width: 1.25})]);
}

function trainingTables() {
  const s = run.steps, rows = (names) => () => evenly(s.step.length, 200).map((i) => [s.step[i], ...names.map((n) => s[n][i])]);
  const evaluation = new Map(run.evaluations.step.map((step, i) => [step, run.evaluations.loss[i]]));
  const steps = [...new Set([...evenly(s.step.length, 200).map((i) => s.step[i]), ...evaluation.keys()])].sort((a, b) => a - b);
  const training = new Map(s.step.map((step, i) => [step, s.loss[i]]));
  addTable(document.getElementById("loss"), "Loss by step", ["step", "training", "validation"],
           () => steps.map((x) => [x, training.get(x), evaluation.get(x)]));
  addTable(document.getElementById("rate"), "Learning rate by step", ["step", "learning rate"], rows(["lr"]));
  addTable(document.getElementById("gradient"), "Gradient norm by step", ["step", "gradient norm"], rows(["grad_norm"]));
  addTable(document.getElementById("speed"), "Tokens per second by step", ["step", "tokens/s"], rows(["tokens_per_second"]));
}

// Sites that have a measure in some record, with its values by record. Between stacks stands a gap: a site that is null.
function bySite(key) {
  const table = run.measures[key] ?? [], sites = [];
  for (const i of run.sites.keys()) {
    if (!table.some((record) => record[i] !== null)) continue;
    const last = sites[sites.length - 1];
    if (last !== undefined && place(run.sites[last]).stack !== place(run.sites[i]).stack) sites.push(null);
    sites.push(i);
  }
  return {sites, names: sites.map((i) => i === null ? "" : shortPlace(run.sites[i])),
          values: table.map((record) => sites.map((i) => i === null ? null : record[i]))};
}

// Along the depth, the first sub-layer of a layer bears the layer's number: of every layer, or of every k-th.
function depthAxis(sites) {
  const places = sites.map((i) => i === null ? null : place(run.sites[i]));
  const starts = (i) => places[i] && places[i].layer !== null && places[i].layer !== places[i - 1]?.layer;
  const each = Math.ceil(places.filter((_, i) => starts(i)).length / 12);
  const word = (i) => {
    const p = places[i], stack = bothStacks && p ? p.stack.slice(0, 3) + " " : "";
    if (!p) return "";
    if (p.layer === null) return shortPlace(run.sites[sites[i]]);
    return starts(i) && p.layer % each === 0 ? `${stack}${p.layer}` : "";
  };
  return axis("layer; a point is a sub-layer", {ticks: {callback: word, autoSkip: false, maxRotation: bothStacks ? 60 : 0}, grid: {display: false}});
}

const depthCharts = [
  {id: "stream", name: "RMS of the stream", key: "stream.rms"},
  {id: "stream-gradient", name: "RMS of the gradient on the stream", key: "stream.grad_rms"},
  {id: "branch", name: "RMS of the branch", key: "branch.rms"},
  {id: "added", name: "What is added over what is kept", key: "step.added"},
];
const pointStyles = ["circle", "rect", "triangle", "rectRot", "star"];

function drawDepth() {
  const records = evenly(run.probe.step.length, 5);
  for (const {id, name, key} of depthCharts) {
    const by = bySite(key);
    document.getElementById(id).hidden = by.sites.length === 0;
    if (id === "added") document.getElementById("branch").classList.toggle("wide", by.sites.length === 0);
    if (!by.sites.length) continue;
    const lines = records.map((r, i) => line(`step ${run.probe.step[r]}`, by.values[r], {
      colour: mix(colour("ramp-from"), colour("ramp-to"), records.length > 1 ? i / (records.length - 1) : 1),
      points: by.sites.length > 40 ? 0 : 3,
      style: pointStyles[i],
      width: i === records.length - 1 ? 2.5 : 1.5,
    }));
    const last = by.values[by.values.length - 1];
    const label = `${name} by depth, at steps ${records.map((r) => run.probe.step[r]).join(", ")}. At the last: ` +
        by.names.map((n, i) => n && `${n} ${short(last[i])}`).filter(Boolean).join(", ");
    drawChart(id, label, {
      type: "line",
      data: {labels: by.names, datasets: lines},
      options: {scales: {x: depthAxis(by.sites), y: valueAxis(records.flatMap((r) => by.values[r]))}},
    });
  }
}

function depthTables() {
  const records = evenly(run.probe.step.length, 12);
  for (const {id, name, key} of depthCharts) {
    const by = bySite(key);
    addTable(document.getElementById(id), `${name}, by place and step`, ["place", ...records.map((r) => `step ${run.probe.step[r]}`)],
             () => by.sites.map((site, i) => [run.sites[site], ...records.map((r) => by.values[r][i])]).filter(([name]) => name));
  }
}
