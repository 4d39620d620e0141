"use strict";
// Figures as data, and drawing them with Chart.js. A figure has
//   id, title, text    its file's name, its heading, its main numbers in words
//   x, y               axes: {title (with the unit), log, fromZero}
//   categories         names along x; absent: x is a number
//   bars               stacked bars over the categories
//   series             [{name, points: [{x, y, label}], line, marks}]; x is the index of a category
//   csv                all of its data; by default that of its series

/** Series with the value of each entry that has one, over the entries' indices. */
function seriesOver(name, entries, valueOf, more = {}) {
  const points = entries.map((entry, x) => ({ x, y: valueOf(entry) }));
  return { name, points: points.filter(({ y }) => y !== undefined), ...more };
}

/** Least and largest value of the points' x or y. Without points the largest is 0. */
function rangeOf(series, of) {
  let [low, high] = [Infinity, 0];
  for (const point of series.flatMap((each) => each.points)) {
    low = Math.min(low, point[of]);
    high = Math.max(high, point[of]);
  }
  return { low, high };
}

/** True if all values are positive and so far apart that the axis should be logarithmic. */
function spansOrders(series, of) {
  const { low, high } = rangeOf(series, of);
  return low > 0 && high / low >= 5;
}

/** "184 (layers.0.mlp) to 227 (embed), mean 205". */
function spanText({ points }, names) {
  const low = points.reduce((a, b) => (b.y < a.y ? b : a));
  const high = points.reduce((a, b) => (b.y >= a.y ? b : a));
  if (low.y === high.y) return shortNumber(low.y);
  const mean = points.reduce((sum, point) => sum + point.y, 0) / points.length;
  return `${shortNumber(low.y)} (${names[low.x]}) to ${shortNumber(high.y)} (${names[high.x]}), ` +
    `mean ${shortNumber(mean)}`;
}

/** Completes a figure over categories: leaves out series without points, and says their spans. */
function categoryFigure(about, entries, series, nameOf = (entry) => entry.name) {
  const categories = entries.map(nameOf);
  const shown = series.filter((each) => each.points.length > 0);
  const text = shown.map((each) => `${each.name}: ${spanText(each, categories)}`).join("; ");
  return { ...about, categories, series: shown, text: `${text}.` };
}

function csvOf({ x, y, categories, series }) {
  if (!categories) {
    const labels = series.some((each) => each.points.some((point) => point.label));
    const ifLabels = (cell) => (labels ? [cell] : []);
    const rowsOf = ({ name, points }) =>
      points.map((point) => [name, point.x, point.y, ...ifLabels(point.label)]);
    const heading = ["series", x.title, y.title, ...ifLabels("label")];
    return csvOfRows([heading, ...series.flatMap(rowsOf)]);
  }
  const columns = series.map((each) => new Map(each.points.map((point) => [point.x, point.y])));
  return csvOfRows([
    [x.title, ...series.map((each) => each.name)],
    ...categories.map((name, i) => [name, ...columns.map((column) => column.get(i))])]);
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Series differ in mark and dash too, not only in colour.
const MARKS = ["circle", "rect", "triangle", "rectRot", "cross", "star", "rectRounded", "crossRot"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

const plainTick = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
const scientificTick = new Intl.NumberFormat(
  "en", { notation: "scientific", maximumSignificantDigits: 2 });

function tickText(value) {
  const plain = value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6);
  return (plain ? plainTick : scientificTick).format(value);
}

// Labels 1, 2, 5, 10, 20 ... on a logarithmic axis; only powers of ten over many decades.
function tick(value) {
  if (this.type !== "logarithmic") return tickText(value);
  const leading = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
  const wanted = this.max / this.min > 1000 ? [1] : [1, 2, 5];
  return wanted.some((each) => Math.abs(each - leading) < 1e-6) ? tickText(value) : null;
}

function scale(figure, of, more) {
  const { title, log = false, fromZero = false } = figure[of];
  const { low, high } = rangeOf(figure.series, of);
  return {
    type: log ? "logarithmic" : "linear",
    beginAtZero: fromZero,
    title: { display: true, text: title, color: colour("--soft") },
    ticks: {
      color: colour("--soft"), maxRotation: 60, autoSkip: !log, autoSkipPadding: 8, callback: tick,
    },
    grid: { color: colour("--line"), borderColor: colour("--line") },
    // A logarithmic axis ends a little beyond its data, not at the next power of ten.
    ...(log ? { min: low / 1.2, max: high * 1.2 } : {}),
    ...more,
  };
}

// Chart.js itself writes the names on a category axis.
function categoryScale(figure) {
  const stacked = figure.bars ?? false;
  const { beginAtZero, ...made } = scale(figure, "x", { type: "category", stacked });
  const { callback, ...ticks } = made.ticks;
  // Bars and lone points keep a distance from the axes.
  const offset = stacked || figure.series.some((each) => each.line === false);
  return { ...made, offset, ticks };
}

function dataset(figure, { name, points, line = true, marks = true }, i) {
  const shown = colour(`--series-${i % 8}`);
  let data = points;
  if (figure.categories) {
    data = new Array(figure.categories.length).fill(null);
    for (const point of points) data[point.x] = point.y;
  }
  return {
    label: name,
    data,
    borderColor: shown,
    backgroundColor: shown,
    borderWidth: figure.bars ? 0 : 2,
    borderDash: DASHES[Math.floor(i / 2) % DASHES.length],
    showLine: line,
    pointStyle: figure.bars ? "rect" : marks ? MARKS[i % MARKS.length] : "line",
    pointRadius: marks ? (points.length > 60 ? 2 : 4) : 0,
    pointHoverRadius: 6,
  };
}

function tooltip(item) {
  const label = item.raw?.label;
  return `${item.dataset.label}${label ? `: ${label}` : ""}: ${tickText(item.parsed.y)}`;
}

function chartOf(figure) {
  return {
    type: figure.bars ? "bar" : figure.categories ? "line" : "scatter",
    data: {
      labels: figure.categories,
      datasets: figure.series.map((each, i) => dataset(figure, each, i)),
    },
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      interaction: { mode: figure.categories ? "index" : "nearest", intersect: false },
      scales: {
        x: figure.categories ? categoryScale(figure) : scale(figure, "x"),
        y: scale(figure, "y", { stacked: figure.bars ?? false }),
      },
      plugins: {
        legend: {
          display: figure.series.length > 1,
          position: "bottom",
          labels: { color: colour("--ink"), usePointStyle: true, boxHeight: 8, padding: 12 },
        },
        tooltip: { callbacks: { label: tooltip } },
      },
    },
  };
}

/** A figure's element. `drawFigures` draws it once it is in the page, and knows how wide it is. */
function figureElement(figure) {
  const label = `${figure.title}. ${figure.text}`;
  const plot = element("canvas", { role: "img", "aria-label": label });
  plot.figure = figure;
  return element(
    "figure", { id: figure.id }, element("h2", {}, figure.title),
    element("div", { class: figure.series.length > 4 ? "plot tall" : "plot" }, plot),
    element("figcaption", {}, `${figure.text} `,
            csvLink(`${figure.id}.csv`, figure.title, figure.csv ?? csvOf(figure))));
}

function drawFigures() {
  for (const canvas of document.querySelectorAll("figure canvas")) {
    Chart.getChart(canvas)?.destroy();
    new Chart(canvas, chartOf(canvas.figure));
  }
}
