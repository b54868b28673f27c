// Puts the page together, and keeps its pictures in the colours of the theme and of paper.
function drawAll() {
  drawTraining();
  if (run.probe.step.length) {
    drawDepth();
    heat?.draw();
    updates?.draw();
  }
}

if (run.probe.step.length) {
  makeDiagram();
  makeHeatMaps();
} else {
  document.getElementById("instrument").hidden = true;
  document.getElementById("no-probe").hidden = false;
}
keepDrawn(drawAll);
trainingTables();
if (run.probe.step.length) depthTables();
