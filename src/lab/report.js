// Puts the page of one run or of two together. Called again with newer data, it keeps what is open and chosen.
function showRuns() {
  document.body.classList.toggle("two", runs().length > 1);
  drawTraining();
  showDiagram();
  drawDepth();
  showHeatMaps();
  const without = runs().filter((run) => !run.probe.step.length), notice = document.getElementById("no-probe");
  const whose = runs().length === 1 ? "This run" : without.map((run) => run.name).join(" and ");
  notice.hidden = without.length === 0;
  notice.textContent = `Without measurements: ${whose}. The folder holds no readable probe.jsonl.`;
}

keepDrawn(showRuns);
