// Heat maps: rows are places of the model, columns are sampled steps. The colours are those of cividis (Nunez, Anderton
// and Renslow 2018), which is read alike with and without colour blindness.
const cividis = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];

function heatColour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (cividis.length - 1), i = Math.min(Math.floor(at), cividis.length - 2);
  return mix(cividis[i], cividis[i + 1], at - i);
}

// Share of the scale that a value has: logarithmic where the values are positive and span a factor of ten or more.
function heatScale(values) {
  const extent = range(values);
  if (!extent) return null;
  const [low, high] = extent, log = low > 0 && high / low >= 10;
  const share = (v) => high === low ? 0.5 : log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
  return {low, high, log, share};
}

class HeatMap {
  // map: {rows: names, columns: steps, values: [column][row], title, unit: what a column is, where not a step}
  constructor(container) {
    this.canvas = element("canvas", {tabindex: "0", role: "img"});
    this.reading = element("p", {class: "reading", "aria-live": "polite"});
    container.append(element("div", {class: "heat"}, this.canvas), this.reading);
    this.canvas.addEventListener("pointermove", (e) => this.point(e));
    this.canvas.addEventListener("pointerdown", (e) => this.point(e));
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.map && this.draw()).observe(this.canvas.parentElement);
  }

  // `values` set the scale: the map's own, or those of several maps that share one. A cell that is being read stays so.
  show(map, values = map.values.flat()) {
    const read = this.at && {column: this.map.columns[this.at.x], row: this.map.rows[this.at.y]};
    this.map = map;
    this.unit = map.unit ?? "step ";
    this.at = null;
    this.scale = heatScale(values);
    const words = this.scale ? `from ${short(this.scale.low)} to ${short(this.scale.high)}` : "without a value";
    this.canvas.setAttribute("aria-label", `Heat map of ${map.title}: ${map.rows.length} rows by ${map.columns.length} columns, ${words}. ` +
        "Arrow keys read its cells.");
    const x = map.columns.indexOf(read?.column), y = map.rows.indexOf(read?.row);
    if (x >= 0 && y >= 0) return this.read(x, y);
    this.say("Point at a cell, or focus the picture and use the arrow keys, to read it.");
    this.draw();
  }

  layout(width) {
    const rows = this.map.rows.length, narrow = width < 480;
    const row = Math.max(rows > 60 ? 7 : 11, Math.min(22, 420 / rows));
    this.context.font = `${narrow ? 10 : 12}px ${getComputedStyle(document.body).fontFamily}`;
    const label = Math.max(...this.map.rows.map((r) => this.context.measureText(r).width));
    const left = Math.min(label + 10, width * 0.36), top = 2;
    return {left, top, row, column: (width - left - 1) / this.map.columns.length, bottom: top + row * rows, height: top + row * rows + 62};
  }

  draw() {
    const width = this.canvas.parentElement.clientWidth, pixels = window.devicePixelRatio || 1;
    const c = this.context = this.canvas.getContext("2d");
    const l = this.placed = this.layout(width);
    this.canvas.width = Math.round(width * pixels);
    this.canvas.height = Math.round(l.height * pixels);
    this.canvas.style.height = `${l.height}px`;
    c.scale(pixels, pixels);
    c.font = `${width < 480 ? 10 : 12}px ${getComputedStyle(document.body).fontFamily}`;
    this.map.values.forEach((column, x) => column.forEach((v, y) => {
      c.fillStyle = v === null || !this.scale ? colour("grid") : heatColour(this.scale.share(v));
      c.fillRect(l.left + x * l.column, l.top + y * l.row, Math.ceil(l.column) + 0.5, l.row - (l.row > 9 ? 1 : 0));
    }));
    this.labels(c, l, width);
    if (!this.at) return;
    c.strokeStyle = colour("warm");
    c.lineWidth = 2;
    c.strokeRect(l.left + this.at.x * l.column, l.top + this.at.y * l.row, Math.max(l.column, 3), l.row - 1);
  }

  labels(c, l, width) {
    c.fillStyle = colour("muted");
    c.textBaseline = "middle";
    const each = Math.ceil(13 / l.row);
    this.map.rows.forEach((name, y) => y % each === 0 && c.fillText(name, 0, l.top + (y + 0.5) * l.row, l.left - 8));
    for (const i of evenly(this.map.columns.length, width < 480 ? 3 : 6)) {
      const text = `${i === 0 ? this.unit : ""}${this.map.columns[i]}`, x = l.left + (i + 0.5) * l.column;
      c.textAlign = i === 0 ? "left" : i === this.map.columns.length - 1 ? "right" : "center";
      c.fillText(text, i === 0 ? l.left : i === this.map.columns.length - 1 ? width - 1 : x, l.bottom + 11);
    }
    c.textAlign = "left";
    if (!this.scale) return;
    const bar = Math.min(180, width - l.left - 175), top = l.bottom + 34;  // the legend
    for (let i = 0; i < bar; ++i) {
      c.fillStyle = heatColour(i / bar);
      c.fillRect(l.left + 52 + i, top, 1.5, 10);
    }
    c.fillStyle = colour("muted");
    c.textAlign = "right";
    c.fillText(short(this.scale.low), l.left + 46, top + 5);
    c.textAlign = "left";
    c.fillText(short(this.scale.high) + (this.scale.log ? "  (log scale)" : ""), l.left + 58 + bar, top + 5);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), l = this.placed;
    this.read(Math.floor((event.clientX - box.left - l.left) / l.column), Math.floor((event.clientY - box.top - l.top) / l.row));
  }

  key(event) {
    const move = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    if (!move) return;
    event.preventDefault();
    const from = this.at ?? {x: this.map.columns.length - 1 - move[0], y: -move[1]};
    this.read(from.x + move[0], from.y + move[1]);
  }

  read(x, y) {
    if (x < 0 || y < 0 || x >= this.map.columns.length || y >= this.map.rows.length) return;
    this.at = {x, y};
    const value = this.map.values[x][y];
    this.say(` at ${this.map.rows[y]}, ${this.unit}${this.map.columns[x]}`, value === null ? "no value" : short(value));
    this.draw();
  }

  // A reader of the screen hears what is put here, so the same is not put twice.
  say(words, figure = "") {
    if (this.reading.textContent !== figure + words) this.reading.replaceChildren(element("b", {}, figure), words);
  }
}

// The map of one measure over those places that have it; nothing where none has.
function heatOf(run, names, table, title) {
  if (!table) return null;
  const rows = [...names.keys()].filter((i) => table.some((r) => r[i] !== null));
  return {title, rows: rows.map((i) => shortPlace(names[i])), columns: run.probe.step, values: table.map((r) => rows.map((i) => r[i]))};
}

function heatTable(container, map, unit = "step ") {
  const columns = evenly(map.columns.length, 12);
  addTable(container, `${map.title}, by place and ${unit.trim() || "column"}`, ["place", ...columns.map((x) => `${unit}${map.columns[x]}`)],
           () => map.rows.map((name, y) => [name, ...columns.map((x) => map.values[x][y])]));
}

// Several maps below one another in a figure, each with its title and table. Returns what draws them.
function showMaps(figure, all) {
  return all.map((map) => {
    const spot = element("div", {}, ...(all.length > 1 ? [element("h4", {}, map.title)] : []));
    figure.append(spot);
    const heatMap = new HeatMap(spot);
    heatMap.show(map);
    heatTable(spot, map, map.unit);
    return heatMap;
  });
}

const heatMaps = new Map();  // by what they are in

// Shows a map for each run, or null for one that has none, all on one scale.
function showHeat(figure, maps) {
  const values = maps.flatMap((map) => map?.values.flat() ?? []);
  panels(figure).forEach((panel, i) => {
    if (runs().length > 1) panel.hidden = !maps[i];
    if (!maps[i]) return;
    if (!heatMaps.has(panel)) heatMaps.set(panel, new HeatMap(panel));
    heatMaps.get(panel).show(maps[i], values);
    heatTable(panel, maps[i]);
  });
}

// Every measure that some run has, in the order of the first that has it.
function measureGroups() {
  const options = (prefix, measures, words) => [...new Set(runs().flatMap((run) => Object.keys(run[measures])))]
      .map((key) => ({value: prefix + key, words: words(key)}));
  return [{label: "By site", options: options("s:", "measures", measureName)},
          {label: "By tensor", options: options("p:", "parameter_measures", (key) => "Tensor: " + key.replaceAll("_", " "))}];
}

function showMeasure() {
  const select = document.getElementById("measure"), key = select.value.slice(2), title = select.selectedOptions[0].textContent;
  showHeat(document.getElementById("heat"), runs().map((run) =>
      select.value.startsWith("s:") ? heatOf(run, run.sites, run.measures[key], title) : heatOf(run, run.parameters, run.parameter_measures[key], title)));
}

function showHeatMaps() {
  const figure = document.getElementById("heat"), groups = measureGroups();
  figure.hidden = groups.every((g) => g.options.length === 0);
  if (!figure.hidden) {
    fillSelect(selectOf(figure, "measure", "Measure", showMeasure), groups);
    showMeasure();
  }
  const updates = document.getElementById("updates"), key = "weights.update_ratio";
  const maps = runs().map((run) => heatOf(run, run.sites, run.measures[key], "Update over weights"));
  updates.hidden = maps.every((map) => !map);
  if (!updates.hidden) showHeat(updates, maps);
}
