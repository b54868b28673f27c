// The pictures of a comparison: the largest difference of each place, and the difference of each place at each token.
function drawDifferences() {
  const look = {colour: colour("series-a"), points: page.difference.length > 80 ? 0 : 3, width: 1.75};
  const limit = {colour: colour("series-b"), width: 1.5};
  const least = (v) => v === null ? null : Math.max(v, page.floor);
  const words = `Difference by place, tolerance ${short(page.tolerance)}. ` + page.first;
  drawChart(document.getElementById("differences"), words, {
    type: "line",
    data: {labels: page.places, datasets: [line("difference", page.difference.map(least), look), line("tolerance", page.places.map(() => page.tolerance), limit)]},
    options: {scales: {x: axis("in the order of the pass", {ticks: {autoSkip: true, maxTicksLimit: 12}, grid: {display: false}}),
                       y: valueAxis([...page.difference.filter((v) => v !== null).map(least), page.tolerance])}},
  });
}

const maps = showMaps(document.getElementById("tokens"), page.maps);
keepDrawn(() => {
  drawDifferences();
  for (const map of maps) map.draw();
});
addTable(document.getElementById("differences"), "Difference by place", ["place", "difference"], () => page.places.map((p, i) => [p, page.difference[i]]));
