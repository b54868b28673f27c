// The pictures of a trace: the block diagram with this text's values, the stream along the depth, where attention goes,
// and the way back.
const depthLines = [
  {id: "stream", lines: [["RMS of the stream", "stream.rms", "series-a"], ["RMS of the branch", "branch.rms", "series-b"]]},
  {id: "added", lines: [["added / kept", "step.added", "series-c"]]},
  {id: "gradient", lines: [["by the shortcut", "gradient.shortcut", "series-a"], ["through the branch", "gradient.branch", "series-b"],
                           ["straight", "gradient.straight", "series-c"]]},
];

function shownLines(lines) {
  return lines.filter(([, key]) => page.measures[key]).map(([name, key, look]) => ({name, look, ...bySite(page, key)}));
}

function drawDepthLines() {
  for (const {id, lines} of depthLines) {
    const shown = shownLines(lines);
    if (!document.getElementById(id) || !shown.length) continue;
    const words = shown.map((l) => `${l.name}: ` + l.names.map((n, i) => `${n} ${short(l.values[0][i])}`).join(", ")).join("; ");
    drawChart(document.getElementById(id), words, {
      type: "line",
      data: {labels: shown[0].names, datasets: shown.map((l) => line(l.name, l.values[0], {colour: colour(l.look), points: 3, width: 2}))},
      options: {scales: {x: depthAxis(page, shown[0].sites), y: id === "gradient" ? linearAxis() : valueAxis(shown.flatMap((l) => l.values[0]))}},
    });
  }
}

const maps = Object.entries(page.maps).flatMap(([id, all]) =>
    showMaps(document.getElementById(id), all.map((map) => ({...map, rows: map.rows.map(shortPlace)}))));
showDiagram();
keepDrawn(() => {
  drawDepthLines();
  for (const map of maps) map.draw();
});
for (const {id, lines} of depthLines) {
  const shown = shownLines(lines), figure = document.getElementById(id);
  if (!figure || !shown.length) continue;
  addTable(figure, "By sub-layer", ["sub-layer", ...shown.map((l) => l.name)],
           () => shown[0].sites.filter((i) => i !== null).map((i) => [page.sites[i], ...shown.map((l) => l.values[0][l.sites.indexOf(i)])]));
}
