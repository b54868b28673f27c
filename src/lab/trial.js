// The pictures of a trial: a line for each series.
const byDepth = (values) => values.map((y, x) => ({x, y}));

showSeries([
  {figure: "curves", name: "Loss", unit: "step", points: (s) => pointsOf(s.steps, s.curve)},
  {figure: "rates", name: "Loss", unit: page.lr_key, log: true, points: (s) => pointsOf(s.rates.map(Number), s.mean)},
  {figure: "stream", name: "RMS of the stream", unit: "sub-layer", points: (s) => byDepth(s.stream)},
  {figure: "gradient", name: "RMS of the gradient", unit: "sub-layer", points: (s) => byDepth(s.gradient)},
].filter((p) => document.getElementById(p.figure))
 .map((p) => ({...p, series: page.series.map((s) => ({name: s.name, points: p.points(s)}))})));
