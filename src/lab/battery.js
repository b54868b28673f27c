// The pictures of the battery: one for each experiment that has curves.
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

function batteryLine(c, i) {
  const names = ["series-a", "series-b", "series-c", "warm", "muted", "ink"];
  const look = {colour: colour(names[i % names.length]), style: pointStyles[i % pointStyles.length], points: c.x.length > 20 ? 0 : 3.5};
  return {...line(c.name, c.x.map((x, k) => ({x, y: c.y[k]})), look), borderDash: dashes[Math.floor(i / names.length) % dashes.length]};
}

function drawExperiment(e) {
  const lines = e.curves.map(batteryLine), values = lines.flatMap((l) => l.data.map((d) => d.y)), xs = lines.flatMap((l) => l.data.map((d) => d.x));
  const spread = range(xs), wide = spread[0] > 0 && spread[1] / spread[0] > 30 && e.x !== "step";
  const marks = [...new Set(xs)].sort((a, b) => a - b);
  const x = wide ? axis(e.x, {type: "logarithmic", ticks: {callback: (v) => short(v), autoSkip: false},
                              afterBuildTicks: (a) => { a.ticks = marks.map((value) => ({value})); }})
                 : axis(e.x, {type: "linear", ticks: {maxTicksLimit: 9, callback: String}});
  const words = lines.map((l) => `${l.label} from ${short(l.data[0].y)} at ${l.data[0].x} to ${short(l.data[l.data.length - 1].y)} at ${l.data[l.data.length - 1].x}`);
  drawChart("f" + e.number, `${e.y} by ${e.x}: ${words.join("; ")}`, {type: "line", data: {datasets: lines}, options: {parsing: false, scales: {x, y: valueAxis(values)}}});
}

function experimentTable(e) {
  const maps = e.curves.map((c) => new Map(c.x.map((x, i) => [x, c.y[i]])));
  const xs = [...new Set(maps.flatMap((m) => [...m.keys()]))].sort((a, b) => a - b);
  addTable(document.getElementById("f" + e.number), `${e.y} by ${e.x}`, [e.x, ...e.curves.map((c) => c.name)],
           () => evenly(xs.length, 60).map((i) => [xs[i], ...maps.map((m) => m.get(xs[i]))]));
}

const drawn = run.experiments.filter((e) => e.curves.length);
function drawExperiments() {
  for (const e of drawn) drawExperiment(e);
}

drawExperiments();
for (const e of drawn) experimentTable(e);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawExperiments);
for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(event, () => {
    document.documentElement.classList.toggle("printing", printing);
    drawExperiments();
    for (const chart of charts.values()) chart.resize();
  });
}
