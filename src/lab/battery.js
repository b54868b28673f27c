// The pictures of the battery: one for each experiment that has curves.
function pictureOf(e) {
  const extent = range(e.curves.flatMap((c) => c.x));
  const few = e.curves.every((c) => c.x.length <= 12);  // a mark each
  return {figure: "f" + e.number, name: e.y, unit: e.x, log: few && extent[0] > 0 && extent[1] / extent[0] > 30,
          series: e.curves.map((c) => ({name: c.name, points: pointsOf(c.x, c.y)}))};
}

showSeries(page.experiments.filter((e) => e.curves.length).map(pictureOf));
