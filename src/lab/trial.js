// The pictures of a trial: a line for each series.
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

function lookOf(i) {
  const names = ["series-a", "series-b", "series-c", "warm", "muted", "ink"];
  return {colour: colour(names[i % names.length]), style: pointStyles[i % pointStyles.length], width: 1.75,
          dash: dashes[Math.floor(i / names.length) % dashes.length]};
}

function seriesLine(i, points, radius) {
  const look = lookOf(i);
  return {...line(run.series[i].name, points, {...look, points: radius}), borderDash: look.dash};
}

function words(points, unit) {
  const known = points.filter((p) => p.y !== null);
  if (!known.length) return "without a value";
  return known.length > 8 ? inWords(points).replaceAll("step", unit) : known.map((p) => `${short(p.y)} at ${unit} ${p.x}`).join(", ");
}

const pictures = [
  {id: "curves", name: "Loss", unit: "step", radius: 0, points: (s) => pointsOf(s.steps, s.curve)},
  {id: "rates", name: "Loss", unit: run.lr_key, radius: 4, log: true,
   points: (s) => s.rates.map((r, i) => ({x: Number(r), y: s.mean[i]}))},
  {id: "stream", name: "RMS of the stream", unit: "sub-layer", radius: 3, points: (s) => s.stream.map((y, i) => ({x: i, y}))},
  {id: "gradient", name: "RMS of the gradient", unit: "sub-layer", radius: 3, points: (s) => s.gradient.map((y, i) => ({x: i, y}))},
].filter((p) => document.getElementById(p.id));

function drawPicture(p) {
  const lines = run.series.map((s, i) => seriesLine(i, p.points(s), p.radius));
  const values = lines.flatMap((l) => l.data.map((d) => d.y));
  const rates = [...new Set(lines.flatMap((l) => l.data.map((d) => d.x)))];
  const x = p.log ? axis(p.unit, {type: "logarithmic", ticks: {callback: (v) => short(v), autoSkip: false},
                                  afterBuildTicks: (a) => { a.ticks = rates.sort((u, v) => u - v).map((value) => ({value})); }})
                  : axis(p.unit, {type: "linear", ticks: {maxTicksLimit: 9, callback: String}});
  const label = `${p.name} by ${p.unit}: ` + lines.map((l) => `${l.label} ${words(l.data, p.unit)}`).join("; ");
  drawChart(p.id, label, {type: "line", data: {datasets: lines}, options: {parsing: false, scales: {x, y: valueAxis(values)}}});
}

function tableOf(p) {
  const all = run.series.map((s) => new Map(p.points(s).map((d) => [d.x, d.y])));
  const xs = [...new Set(all.flatMap((m) => [...m.keys()]))].sort((a, b) => a - b);
  const rows = () => evenly(xs.length, 60).map((i) => [xs[i], ...all.map((m) => m.get(xs[i]))]);
  addTable(document.getElementById(p.id), `${p.name} by ${p.unit}`, [p.unit, ...run.series.map((s) => s.name)], rows);
}

function drawPictures() {
  for (const p of pictures) drawPicture(p);
}

drawPictures();
for (const p of pictures) tableOf(p);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPictures);
for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(event, () => {
    document.documentElement.classList.toggle("printing", printing);
    drawPictures();
    for (const chart of charts.values()) chart.resize();
  });
}
