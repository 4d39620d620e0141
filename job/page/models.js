"use strict";
// Pages of several models: a sweep, from its results.json (docs/sweeps.md), and a comparison.

const MAX_CURVES = 8;  // curves in one figure

const isDone = (variant) => variant.state === "done";
const shortName = (key) => key.slice(key.lastIndexOf(".") + 1);

/** Parses a number; undefined if the text is anything else. */
function numberIn(text) {
  return /^[+-]?\d+(\.\d*)?(e[+-]?\d+)?$/i.test(text ?? "") ? Number(text) : undefined;
}

/** Groups the items by name: [name, items] of each group, sorted by name. */
function groupsBy(items, nameOf) {
  const groups = new Map();
  for (const item of items) {
    const name = nameOf(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Describes the settings that the method reads: "dotresize, lambda 0.1, size 0.8". */
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

/**
 * Plots perplexity over net size: a series for each combination of names (method, metric), the
 * Pareto front, and the dense model. Axes that set the size are never such names.
 */
function sweepSizeFigure({ axes, variants, dense }, sizeKeys) {
  const hasName = (axis) =>
    variants.some(({ values }) => values[axis] && numberIn(values[axis]) === undefined);
  const named = axes.filter((axis) => !sizeKeys.includes(axis) && hasName(axis));
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
    ({ x, y, label }) => `${perplexityText(y)} at ${decimals(x, 1)} % (${label})`);
  if (dense) texts.push(`the dense model has ${perplexityText(dense.perplexity)}`);
  return sizeFigure(series, `On the front, by size: ${texts.join("; ")}.`);
}

/** Plots perplexity over an axis of numbers: a curve for each setting of the others, best first. */
function axisFigures({ axes, variants }, axis) {
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

/** Lists the jobs without a reason: finished ones by net size and perplexity, then the others. */
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

function sweepPage({ results, size_keys }) {
  const facts = [["Directory", results.directory]];
  if (results.dense) {
    facts.push(["Bytes of the dense model", bytesText(results.dense.bytes)],
               ["Its perplexity", perplexityText(results.dense.perplexity)]);
  }
  const numbers = results.axes.filter((axis) => !size_keys.includes(axis));
  const figures = () =>
    [sweepSizeFigure(results, size_keys), ...numbers.flatMap((axis) => axisFigures(results, axis))];
  return {
    tables: [{ caption: "The sweep", heading: ["what", "value"], rows: facts, prose: true }],
    figures: results.variants.some(isDone) ? figures() : [],
    details: [jobsTable(results), ...reasonsTables(results)],
  };
}

function comparisonPage({ models }) {
  const scored = models.filter(({ perplexity, dense_perplexity }) =>
    perplexity !== undefined && dense_perplexity !== undefined);
  if (scored.length === 0) return {};
  const series = groupsBy(scored, (model) => model.method).map(([name, group]) => ({
    name,
    points: group.map((model) => sizePoint(model, model.path)),
    line: false,
  }));
  series.push(denseSeries(scored[0].dense_perplexity));
  const text = "Each model at its net bytes; the table has the figures.";
  return { figures: [sizeFigure(series, text)] };
}
