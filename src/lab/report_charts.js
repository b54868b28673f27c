// Line charts, by step and by depth. Each is drawn anew when the theme changes.
Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
const charts = new Map();  // by what they are in

function axis(title, scaleOf = {}) {
  return {
    ...scaleOf,
    title: {display: Boolean(title), text: title, color: colour("muted")},
    grid: {color: colour("grid"), borderColor: colour("line"), tickColor: colour("line"), ...scaleOf.grid},
    ticks: {color: colour("muted"), maxRotation: 60, autoSkipPadding: 8, ...scaleOf.ticks},
  };
}

// A tick is a round number, with as many digits as tell it from its neighbours.
function tickWord(v) {
  const size = Math.abs(v), round = Number(v.toPrecision(8));
  return size !== 0 && (size >= 1e5 || size < 1e-3) ? round.toExponential().replace("e+", "e") : String(round);
}

function linearAxis() {
  return axis("", {type: "linear", ticks: {callback: tickWord, maxTicksLimit: 7}});
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

// The same scale for the panels of several runs, whose values these are: rounded outward.
function sharedAxis(values) {
  const scale = valueAxis(values), extent = range(values);
  if (runs().length === 1 || !extent) return scale;
  if (scale.type === "linear") return {...scale, suggestedMin: extent[0], suggestedMax: extent[1]};
  const steps = (x) => [1, 2, 5, 10].map((s) => s * 10 ** Math.floor(Math.log10(x)));
  return {...scale, min: steps(extent[0]).findLast((s) => s <= extent[0]), max: steps(extent[1]).find((s) => s >= extent[1])};
}

function canvasOf(container, label) {
  let plot = container.querySelector(":scope > .plot");
  if (!plot) {
    plot = element("div", {class: "plot"}, element("canvas", {role: "img"}));
    container.append(plot);
  }
  const canvas = plot.querySelector("canvas");
  canvas.setAttribute("aria-label", label);
  return canvas;
}

// Draws the container's chart, or what it shows now.
function drawChart(container, label, {type, data, options}) {
  const tooltip = {callbacks: {label: (c) => ` ${c.dataset.label}: ${short(c.parsed.y)}`}};
  const legend = {
    display: data.datasets.length > 1,
    align: "start",
    labels: {color: colour("ink"), usePointStyle: true, boxHeight: 6, padding: 14},
  };
  const canvas = canvasOf(container, label), all = {interaction: {mode: "index", intersect: false}, plugins: {legend, tooltip}, ...options};
  const chart = charts.get(container) ?? new Chart(canvas, {type, data, options: all});
  if (charts.has(container)) {
    chart.data = data;
    chart.options = all;
    chart.update();
  }
  charts.set(container, chart);
  // A legend of several lines does not take its room from the picture.
  canvas.parentElement.style.setProperty("--legend", `${Math.max(0, Math.round(chart.legend.height ?? 0) - 32)}px`);
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

// A value with none before or after it would be a line of no length.
function isAlone(points, i) {
  const known = (p) => p && p.y !== null;
  return known(points[i]) && !known(points[i - 1]) && !known(points[i + 1]);
}

function line(label, points, look) {
  return {
    label,
    data: points,
    borderColor: look.colour,
    backgroundColor: look.colour,
    borderWidth: look.width ?? 1.75,
    borderDash: look.dash ?? [],
    pointRadius: look.points || points.map((_, i) => isAlone(points, i) ? 2.5 : 0),
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

// The charts by step: their lines, [{name, points, look}], from all runs.
function trainingCharts() {
  const two = runs().length > 1, own = (i) => colour(i === 0 ? "series-a" : "series-b");
  const one = (name, key, look) => runs().map((run, i) =>
      ({name: two ? run.name : name, points: pointsOf(run.steps.step, run.steps[key]), look: {...look, colour: two ? own(i) : colour(look.colour)}}));
  const loss = runs().flatMap((run, i) => {
    const few = run.evaluations.step.length <= 40;
    const look = {colour: two ? own(i) : colour("series-b"), width: 2.25, points: few ? 3.5 : 0, style: "rectRot", dash: two ? [6, 3] : []};
    const lines = [{name: named(run, "training"), points: pointsOf(run.steps.step, run.steps.loss), look: {colour: own(i), width: 1.25}}];
    return run.evaluations.step.length ? [...lines, {name: named(run, "validation"), points: pointsOf(run.evaluations.step, run.evaluations.loss), look}] : lines;
  });
  return [{id: "loss", name: "Loss", lines: loss},
          {id: "rate", name: "Learning rate", lines: one("learning rate", "lr", {colour: "series-c", width: 2})},
          {id: "gradient", name: "Gradient norm", lines: one("gradient norm", "grad_norm", {colour: "series-a", width: 1.25})},
          {id: "speed", name: "Tokens per second", lines: one("tokens/s", "tokens_per_second", {colour: "series-c", width: 1.25})}];
}

// Steps that spiked or were skipped, at the height of the loss.
function eventLines() {
  return runs().flatMap((run) => ["spike", "skipped"].map((kind) => {
    const look = {colour: colour("warm"), points: 6, style: kind === "spike" ? "triangle" : "crossRot", line: false};
    return line(named(run, kind), run.events.filter((e) => e.kind === kind).map((e) => ({x: e.step, y: e.loss})), look);
  })).filter((l) => l.data.length);
}

function drawTraining() {
  for (const {id, name, lines} of trainingCharts()) {
    const datasets = [...lines.map((l) => line(l.name, l.points, l.look)), ...(id === "loss" ? eventLines() : [])];
    const values = datasets.flatMap((l) => l.data.map((p) => p.y)), figure = document.getElementById(id);
    const scales = {x: axis("step", {type: "linear", ticks: {maxTicksLimit: 9, precision: 0, callback: String}}), y: id === "rate" ? linearAxis() : valueAxis(values)};
    drawChart(figure, `${name} by step: ` + datasets.map((l) => `${l.label} ${inWords(l.data)}`).join("; "),
              {type: "line", data: {datasets}, options: {parsing: false, scales}});
    seriesTable({figure: id, name, unit: "step", series: lines});
  }
}

// Sites that have a measure in some record, with its values by record. Between stacks stands a gap: a site that is null.
function bySite(run, key) {
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
function depthAxis(run, sites) {
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

function drawDepthPanel(panel, run, chart, by, scale) {
  const records = evenly(run.probe.step.length, 5);
  const lines = records.map((r, i) => line(`step ${run.probe.step[r]}`, by.values[r], {
    colour: mix(colour("ramp-from"), colour("ramp-to"), records.length > 1 ? i / (records.length - 1) : 1),
    points: by.sites.length > 40 ? 0 : 3,
    style: pointStyles[i],
    width: i === records.length - 1 ? 2.5 : 1.5,
  }));
  const last = by.values[by.values.length - 1];
  const label = named(run, `${chart.name} by depth, at steps ${records.map((r) => run.probe.step[r]).join(", ")}. At the last: `) +
      by.names.map((n, i) => n && `${n} ${short(last[i])}`).filter(Boolean).join(", ");
  drawChart(panel, label, {type: "line", data: {labels: by.names, datasets: lines}, options: {scales: {x: depthAxis(run, by.sites), y: scale}}});
  const shown = evenly(run.probe.step.length, 12);
  addTable(panel, named(run, `${chart.name}, by place and step`), ["place", ...shown.map((r) => `step ${run.probe.step[r]}`)],
           () => by.sites.map((site, i) => [run.sites[site], ...shown.map((r) => by.values[r][i])]).filter(([name]) => name));
}

// A panel of a run that lacks the measure is hidden, and a figure of nothing else.
function drawDepth() {
  for (const chart of depthCharts) {
    const figure = document.getElementById(chart.id), all = runs().map((run) => bySite(run, chart.key));
    const shown = all.some((by) => by.sites.length > 0);
    figure.hidden = !shown;
    if (chart.id === "added") document.getElementById("branch").classList.toggle("wide", !shown);
    if (!shown) continue;
    const scale = () => sharedAxis(all.flatMap((by, i) => evenly(runs()[i].probe.step.length, 5).flatMap((r) => by.values[r] ?? [])));
    panels(figure).forEach((panel, i) => {
      if (runs().length > 1) panel.hidden = all[i].sites.length === 0;
      if (all[i].sites.length) drawDepthPanel(panel, runs()[i], chart, all[i], scale());
    });
  }
}
