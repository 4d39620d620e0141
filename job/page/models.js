"use strict";
// Pages of several models: a sweep's results.json (docs/sweeps.md), and a comparison of reports.

const MAX_CURVES = 8;  // curves in one figure
const SIZE_KEYS = ["method.sparsity", "method.width", "method.size"];

const isDone = (variant) => variant.state === "done";
const shortName = (key) => key.slice(key.lastIndexOf(".") + 1);

/** The number in a text; undefined if it is something else. */
function numberIn(text) {
  return /^[+-]?\d+(\.\d*)?(e[+-]?\d+)?$/i.test(text ?? "") ? Number(text) : undefined;
}

/** Groups of items by a name, sorted by it. */
function groupsBy(items, nameOf) {
  const groups = new Map();
  for (const item of items) {
    const name = nameOf(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Settings in words, as far as the method reads them: "dotresize, lambda 0.1, size 0.8". */
function described({ values }, axes) {
  const prefix = (axis) => (axis === "method.name" ? "" : `${shortName(axis)} `);
  return axes.filter((axis) => values[axis]).map((axis) => prefix(axis) + values[axis]).join(", ");
}

const settings = (variant, axes) => axes.map((axis) => variant.values[axis] || "–");

function sizeFigure(series, text) {
  return {
    id: "perplexity-size",
    title: "Perplexity over net size",
    text,
    x: { title: "bytes of the model (% of the dense model's)" },
    y: { title: "perplexity", log: spansOrders(series, "y") },
    series,
  };
}

const sizePoint = (model, label) => ({ x: 100 * model.bytes_fraction, y: model.perplexity, label });
const denseSeries = (perplexity) =>
  ({ name: "dense model", points: [{ x: 100, y: perplexity }], line: false });

/** A series for each combination of names (method, metric), the front, and the dense model. */
function sweepSizeFigure({ axes, variants, dense }) {
  const hasName = (axis) =>
    variants.some(({ values }) => values[axis] && numberIn(values[axis]) === undefined);
  const named = axes.filter((axis) => !SIZE_KEYS.includes(axis) && hasName(axis));
  const others = axes.filter((axis) => !named.includes(axis));
  const done = variants.filter(isDone);
  const series = groupsBy(done, (variant) => described(variant, named)).map(([name, group]) => ({
    name: name || "jobs",
    points: group.map((variant) => sizePoint(variant, described(variant, others))),
    line: false,
  }));
  const front = done.filter((variant) => variant.pareto)
    .map((variant) => sizePoint(variant, described(variant, axes)))
    .sort((a, b) => a.x - b.x);
  series.push({ name: "Pareto front", points: front, marks: false });
  if (dense) series.push(denseSeries(dense.perplexity));
  const texts = front.map(
    ({ x, y, label }) => `${perplexityText(y)} at ${x.toFixed(1)} % (${label})`);
  if (dense) texts.push(`the dense model has ${perplexityText(dense.perplexity)}`);
  return sizeFigure(series, `On the front, by size: ${texts.join("; ")}.`);
}

/** Perplexity over the numbers of an axis, a curve for each combination of others, best first. */
function axisFigures({ axes, variants }, axis) {
  if (SIZE_KEYS.includes(axis)) return [];
  const others = axes.filter((other) => other !== axis);
  const valueOf = (variant) => numberIn(variant.values[axis]);
  const over = variants.filter((variant) => isDone(variant) && valueOf(variant) !== undefined);
  const all = groupsBy(over, (variant) => described(variant, others)).map(([name, group]) => {
    const points = group.map((variant) => ({ x: valueOf(variant), y: variant.perplexity }));
    points.sort((a, b) => a.x - b.x);
    const sorted = [...points].sort((a, b) => a.y - b.y);
    return { name: name || "perplexity", points, least: sorted[0], most: sorted.at(-1) };
  }).filter((curve) => curve.points.length > 1);
  if (all.length === 0) return [];
  all.sort((a, b) => a.least.y - b.least.y);
  const series = all.slice(0, MAX_CURVES);
  const cut = series.length === all.length
    ? "" : `${series.length} of ${all.length} curves are shown, those of least perplexity; ` +
      "the data have all. ";
  const at = (point) => `${perplexityText(point.y)} at ${shortNumber(point.x)}`;
  const texts = series.map(({ name, least, most }) => `${name}: ${at(least)} to ${at(most)}`);
  const short = shortName(axis);
  const figure = {
    id: `perplexity-${axis.replace(/[^a-z]/g, "-")}`,
    title: `Perplexity over ${short}`,
    text: `${cut}Least and most over ${short}: ${texts.join("; ")}.`,
    x: { title: short === "samples" ? "calibration samples" : axis, log: spansOrders(series, "x") },
    y: { title: "perplexity", log: spansOrders(series, "y") },
  };
  return [{ ...figure, series, csv: csvOf({ ...figure, series: all }) }];
}

/** The jobs that have not failed, by net size and perplexity; those that are not done come last. */
function jobsTable({ axes, variants, dense }) {
  const divergence = variants.some((variant) => variant.kl !== undefined);
  const ifMeasured = (...cells) => (divergence ? cells : []);
  const heading = [...axes, "state", "width", "net", "perplexity", "change",
                   ...ifMeasured("KL (nats a token)", "agreement"), "front", "best of its target"];
  const row = (variant) => [
    ...settings(variant, axes), variant.state,
    ...(isDone(variant) ? [
      String(variant.width), percent(variant.bytes_fraction), perplexityText(variant.perplexity),
      dense ? change(dense.perplexity, variant.perplexity) : "",
      ...ifMeasured(variant.kl === undefined ? "" : nats(variant.kl),
                    variant.agreement === undefined ? "" : percent(variant.agreement)),
      variant.pareto ? "yes" : "", variant.best ? "yes" : ""] : [])];
  const order = variants.filter((variant) => !variant.reason);
  order.sort((a, b) => {
    if (!isDone(a) || !isDone(b)) return isDone(b) - isDone(a);
    return a.bytes - b.bytes || a.perplexity - b.perplexity;
  });
  return { caption: "Jobs, by net size and perplexity", heading, rows: order.map(row) };
}

function reasonsTables({ axes, variants }) {
  const rows = variants.filter((variant) => variant.reason)
    .map((variant) => [...settings(variant, axes), variant.state, variant.reason]);
  if (rows.length === 0) return [];
  const heading = [...axes, "state", "reason"];
  return [{ caption: "Refused and failed", heading, rows, prose: true }];
}

function sweepPage({ results }) {
  const facts = [["Directory", results.directory]];
  if (results.dense) {
    facts.push(["Bytes of the dense model", bytesText(results.dense.bytes)],
               ["Its perplexity", perplexityText(results.dense.perplexity)]);
  }
  const overAxes = () => results.axes.flatMap((axis) => axisFigures(results, axis));
  return {
    tables: [{ caption: "The sweep", heading: ["what", "value"], rows: facts, prose: true }],
    figures: results.variants.some(isDone) ? [sweepSizeFigure(results), ...overAxes()] : [],
    details: [jobsTable(results), ...reasonsTables(results)],
  };
}

/** `models` are what ReportSummary (job/report/report.h) has of each report. */
function comparisonPage({ models }) {
  const isScored = ({ perplexity, dense_perplexity }) =>
    perplexity !== undefined && dense_perplexity !== undefined;
  const scored = models.filter(isScored);
  const row = (model) => [
    model.name, model.method, model.target, model.format, model.width, bytesText(model.bytes),
    percent(model.bytes_fraction), isScored(model) ? perplexityText(model.perplexity) : "",
    isScored(model) ? change(model.dense_perplexity, model.perplexity) : "",
    model.kl === undefined ? "" : nats(model.kl),
    model.agreement === undefined ? "" : percent(model.agreement),
    durationText(model.wall_time_s), model.path];
  const heading = ["name", "method", "target", "format", "width", "bytes", "of dense", "perplexity",
                   "change", "KL", "agreement", "took", "output"];
  const series = groupsBy(scored, (model) => model.method).map(([name, group]) => ({
    name,
    points: group.map((model) => sizePoint(model, model.path)),
    line: false,
  }));
  if (scored.length > 0) series.push(denseSeries(scored[0].dense_perplexity));
  const text = "Each model at its net bytes; the table has the figures.";
  return {
    tables: [{ caption: "Models", heading, rows: models.map(row) }],
    figures: series.length > 0 ? [sizeFigure(series, text)] : [],
  };
}
