// The pictures of a comparison: the largest difference of each place, and the difference of each place at each token.
function drawDifferences() {
  const look = {colour: colour("series-a"), points: run.difference.length > 80 ? 0 : 3, width: 1.75};
  const limit = {colour: colour("series-b"), width: 1.5};
  const least = (v) => v === null ? null : Math.max(v, run.floor);
  const words = `Difference by place, tolerance ${short(run.tolerance)}. ` + run.first;
  drawChart("differences", words, {
    type: "line",
    data: {labels: run.places, datasets: [line("difference", run.difference.map(least), look), line("tolerance", run.places.map(() => run.tolerance), limit)]},
    options: {scales: {x: axis("in the order of the pass", {ticks: {autoSkip: true, maxTicksLimit: 12}, grid: {display: false}}),
                       y: valueAxis([...run.difference.filter((v) => v !== null).map(least), run.tolerance])}},
  });
}

const figure = document.getElementById("differences");
addTable(figure, "Difference by place", ["place", "difference"], () => run.places.map((p, i) => [p, run.difference[i]]));
const maps = run.maps.map((map) => {
  const heatMap = new HeatMap(document.getElementById("tokens"));
  heatMap.show(map);
  return heatMap;
});
keepDrawn(() => {
  drawDifferences();
  for (const map of maps) map.draw();
});
