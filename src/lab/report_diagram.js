// The block diagram of a layer's sub-layers, drawn from the formula y = N_out(alpha x + g N_branch(F(s N_in(x)))) as this
// model has it: the stream runs down on the left, the branch on the right.
const partTitles = {attention: "Attention", cross_attention: "Cross-attention", feed_forward: "Feed-forward"};

function svg(name, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

// Draws downward from one height to the next.
class Drawing {
  constructor(weights) {
    this.parts = [];
    this.weights = weights;
  }
  add(...parts) { this.parts.push(...parts); }
  text(x, y, words, kind = "", anchor = "start") { this.add(svg("text", {x, y, class: kind, "text-anchor": anchor}, words)); }
  box(x, y, words, kind = "", small = "") {
    this.add(svg("rect", {x: x - 86, y: y - 15, width: 172, height: 30, rx: 6, class: "box " + kind}));
    this.text(x, small ? y - 1.5 : y + 4.5, words, "", "middle");
    if (small) this.text(x, y + 11, small, "quiet", "middle");
  }
  plus(x, y) {
    this.add(svg("circle", {cx: x, cy: y, r: 12, class: "box"}),
             svg("path", {d: `M${x - 6} ${y} h12 M${x} ${y - 6} v12`, stroke: "currentColor", "stroke-width": 1.5}));
  }
  path(d, kind, dashed = false) {
    this.add(svg("path", {d, class: kind, "stroke-width": this.weights[kind], "stroke-linejoin": "round", ...(dashed ? {"stroke-dasharray": "2 6"} : {})}));
  }
  head(x, y, kind, turn = 0) {
    const size = 4 + this.weights[kind];
    this.add(svg("path", {d: `M${-size} ${-size} L0 0 L${size} ${-size} Z`, class: kind + "-head", transform: `translate(${x} ${y}) rotate(${turn})`}));
  }
}

const railX = 52, branchX = 216, secondX = 326;

// What the shortcut is multiplied by; null where there is none.
function shortcutWords(f) {
  if (f.unit) return "× (1 − g)";
  if (f.streams > 1) return "H_res";
  if (f.shortcut !== "constant") return f.shortcut === "scalar" ? "× a (learned)" : "× a (by channel)";
  return f.alpha === 0 ? null : f.alpha === 1 ? "" : `× ${short(f.alpha)}`;
}

// The boxes of the branch from the stream to the sum, in order.
function branchBoxes(f, part) {
  const boxes = [];
  if (f.streams > 1) boxes.push({words: `H_pre: reads ${f.streams} streams`});
  if (f.norm_in) boxes.push({words: f.norm, kind: "norm"});
  if (f.s !== 1) boxes.push({words: `× ${short(f.s)}`});
  const title = f.parallel ? "Attention + feed-forward" : partTitles[part] ?? part;
  const inside = [f.norm_inner ? "norm inside" : "", f.head_scale ? "heads scaled" : ""].filter((w) => w).join(", ");
  boxes.push({words: title, small: inside, kind: "f"});
  if (f.norm_branch) boxes.push({words: f.norm, kind: "norm"});
  boxes[boxes.length - 1].measured = true;  // the branch is measured before its factor
  if (f.gate !== "constant") boxes.push({words: f.gate === "scalar" ? "× g (learned)" : "× g (learned, by channel)"});
  else if (f.gate_value !== 1) boxes.push({words: `× ${short(f.gate_value)}`});
  if (f.streams > 1) boxes.push({words: "H_post: to each stream"});
  return boxes;
}

// The stream r of branches alone, which this branch joins too. It is not measured.
function secondStream(d, f, sum) {
  d.text(secondX + 8, 20, "r");
  d.path(`M${secondX} 8 V${sum - 13}`, "second");
  d.head(secondX, sum - 13, "second");
  d.path(`M${branchX} ${sum} H${secondX - 13}`, "branch");
  d.head(secondX - 13, sum, "branch", -90);
  if (f.dual !== 1) d.text(branchX + 26, sum + 17, `× ${short(f.dual)}`);
  d.path(`M${secondX} ${sum + 12} V${sum + 40}`, "second");
  d.head(secondX, sum + 46, "second");
  d.text(secondX + 12, sum + 38, "r'");
  d.plus(secondX, sum);
}

function sublayerDrawing(at, f, value, after) {
  const part = place(at).part;
  const stream = value(at, "stream.rms"), branch = value(at, "branch.rms"), largest = Math.max(stream ?? 0, branch ?? 0, after ?? 0) || 1;
  const width = (x) => x === null ? 2 : 1.25 + 4.75 * Math.min(1, x / largest);
  const d = new Drawing({stream: width(stream), branch: width(branch), after: width(after), second: 2});
  const boxes = branchBoxes(f, part), fork = 54, sum = fork + 30 + boxes.length * 46 + 34;

  d.text(railX - 34, 20, "x");
  d.text(railX + 14, 20, `RMS ${short(stream)}`);
  d.text(railX + 14, 36, `gradient RMS ${short(value(at, "stream.grad_rms"))}`, "quiet");
  d.path(`M${railX} 8 V${fork}`, "stream");
  const kept = shortcutWords(f);
  d.path(`M${railX} ${fork} V${sum - 13}`, "stream", kept === null);
  if (kept !== null) d.head(railX, sum - 13, "stream");
  d.text(railX + 14, sum - 24, kept ?? "no shortcut", kept === null ? "quiet" : "");

  d.path(`M${railX} ${fork} H${branchX} V${sum} H${railX + 13}`, "branch");
  d.head(railX + 13, sum, "branch", 90);
  boxes.forEach((b, i) => {
    const y = fork + 34 + i * 46;
    d.box(branchX, y, b.words, b.kind, b.small);
    if (b.measured) d.text(branchX + 8, y + (i === boxes.length - 1 ? 36 : 27.5), `RMS ${short(branch)}`);
  });
  d.text(branchX - 4, sum + 17, `added / kept: ${short(value(at, "step.added"))}`, "quiet", "end");
  d.plus(railX, sum);
  if (f.dual !== 0) secondStream(d, f, sum);

  let end = sum + 12;
  if (f.norm_out) {
    d.path(`M${railX} ${end} V${end + 26}`, "after");
    d.add(svg("rect", {x: railX - 44, y: end + 26, width: 112, height: 30, rx: 6, class: "box norm"}));
    d.text(railX + 12, end + 45.5, f.norm, "", "middle");
    end += 56;
  }
  d.path(`M${railX} ${end} V${end + 34}`, "after");
  d.head(railX, end + 40, "after");
  d.text(railX - 34, end + 36, "y");
  d.text(railX + 14, end + 36, `RMS ${short(after)}`);

  const title = `${shortPlace(at)}: ${f.text}`;
  const words = `${title}. Stream RMS ${short(stream)}, branch RMS ${short(branch)}, added over kept ${short(value(at, "step.added"))}, ` +
      `result RMS ${short(after)}.`;
  return svg("svg", {viewBox: `0 0 ${f.dual !== 0 ? 360 : 320} ${end + 52}`, role: "img", "aria-label": words}, ...d.parts);
}

// A run's sub-layers as its config has them, with the values that were measured last, where there are some.
function lastValues(run) {
  const last = run.probe.step.length - 1;
  const value = (at, key) => run.measures[key]?.[last]?.[run.sites.indexOf(at)] ?? null;
  const streams = run.sites.filter((at) => value(at, "stream.rms") !== null);
  const after = (at) => streams.includes(at) ? value(streams[streams.indexOf(at) + 1], "stream.rms") : null;
  const when = run.measured ?? (last < 0 ? "nothing measured yet" : `measured at step ${run.probe.step[last]}`);
  return {value, after, when};
}

function diagramTable(panel, run) {
  const {value, after, when} = lastValues(run);
  addTable(panel, named(run, `Values on the edges, ${when}`), ["sub-layer", "stream RMS", "branch RMS", "added / kept", "RMS after", "gradient RMS"],
           () => Object.keys(run.formulas).map((at) => [at, value(at, "stream.rms"), value(at, "branch.rms"), value(at, "step.added"), after(at),
               value(at, "stream.grad_rms")]));
}

function showLayer() {
  const layer = document.getElementById("layer").value, figure = document.getElementById("diagram");
  panels(figure).forEach((panel, i) => {
    const run = runs()[i], {value, after, when} = lastValues(run);
    const sites = Object.keys(run.formulas).filter((at) => at.startsWith(layer + "."));
    if (runs().length > 1) panel.hidden = sites.length === 0;
    panel.querySelector(":scope > .blocks")?.remove();
    panel.querySelector(":scope > .when")?.remove();
    const blocks = sites.map((at) => element("div", {}, element("h4", {}, partTitles[place(at).part] ?? place(at).part),
        element("p", {class: "formula"}, run.formulas[at].text), sublayerDrawing(at, run.formulas[at], value, after(at))));
    const table = panel.querySelector(":scope > details"), parts = [element("p", {class: "when"}, when), element("div", {class: "blocks"}, ...blocks)];
    table ? table.before(...parts) : panel.append(...parts);
  });
}

function showDiagram() {
  const figure = document.getElementById("diagram");
  const layers = [...new Set(runs().flatMap((run) => Object.keys(run.formulas).map((at) => at.split(".").slice(0, 2).join("."))))];
  figure.hidden = layers.length === 0;
  if (figure.hidden) return;
  fillSelect(selectOf(figure, "layer", "Layer", showLayer), [{label: "Layers", options: layers.map((l) => ({value: l, words: l.replace(".", " layer ")}))}]);
  showLayer();
  panels(figure).forEach((panel, i) => diagramTable(panel, runs()[i]));
}
