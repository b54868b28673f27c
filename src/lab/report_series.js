// Charts of several named series over any x, each with its table. A picture is
// {figure: id, name: what y is, unit: what x is, log: whether x is logarithmic, series: [{name, points: [{x, y}]}]}.
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

function seriesLine({name, points}, i) {
  const names = ["series-a", "series-b", "series-c", "warm", "muted", "ink"];
  const look = {colour: colour(names[i % names.length]), style: pointStyles[i % pointStyles.length], points: points.length > 20 ? 0 : 3.5};
  return {...line(name, points, look), borderDash: dashes[Math.floor(i / names.length) % dashes.length]};
}

function seriesInWords({name, points}, unit) {
  const known = points.filter((p) => p.y !== null);
  const each = known.map((p) => `${short(p.y)} at ${unit} ${p.x}`).join(", ");
  return `${name} ${known.length > 8 || !known.length ? inWords(points, unit) : each}`;
}

// Every x that some series has, rising.
function allX(series) {
  return [...new Set(series.flatMap((s) => s.points.map((p) => p.x)))].sort((a, b) => a - b);
}

function drawSeries(p) {
  const lines = p.series.map(seriesLine), values = lines.flatMap((l) => l.data.map((d) => d.y));
  const x = p.log ? axis(p.unit, {type: "logarithmic", ticks: {callback: (v) => short(v), autoSkip: false},
                                  afterBuildTicks: (a) => { a.ticks = allX(p.series).map((value) => ({value})); }})
                  : axis(p.unit, {type: "linear", ticks: {maxTicksLimit: 9, callback: String, ...(allX(p.series).every(Number.isInteger) ? {precision: 0} : {})}});
  const label = `${p.name} by ${p.unit}: ` + p.series.map((s) => seriesInWords(s, p.unit)).join("; ");
  drawChart(document.getElementById(p.figure), label, {type: "line", data: {datasets: lines}, options: {parsing: false, scales: {x, y: valueAxis(values)}}});
}

// Rows at even strides over every x, and at every x of a series of few points.
function seriesTable(p) {
  const rows = () => {
    const xs = allX(p.series), maps = p.series.map((s) => new Map(s.points.map((d) => [d.x, d.y])));
    const few = allX(p.series.filter((s) => s.points.length <= 60));
    return [...new Set([...evenly(xs.length, 200).map((i) => xs[i]), ...few])].sort((a, b) => a - b).map((x) => [x, ...maps.map((m) => m.get(x))]);
  };
  addTable(document.getElementById(p.figure), `${p.name} by ${p.unit}`, [p.unit, ...p.series.map((s) => s.name)], rows);
}

function showSeries(pictures) {
  keepDrawn(() => pictures.forEach(drawSeries));
  pictures.forEach(seriesTable);
}
