"use strict";
// Transport plans (job/report/transport_picture.h): figures of them all, and the gallery, where the
// reader chooses which of them are shown. A plan is {name, text, picture}.

const LEVELS_PER_DECADE = 32;
const TOP_LEVEL = 255;
// Ten equidistant colours of matplotlib's viridis (CC0).
const VIRIDIS = [
  [0x44, 0x01, 0x54], [0x48, 0x28, 0x78], [0x3e, 0x49, 0x89], [0x31, 0x68, 0x8e],
  [0x26, 0x82, 0x8e], [0x1f, 0x9e, 0x89], [0x35, 0xb7, 0x79], [0x6e, 0xce, 0x58],
  [0xb5, 0xde, 0x2b], [0xfd, 0xe7, 0x25]];

const levelsOf = (picture) => Uint8Array.from(atob(picture.levels), (byte) => byte.charCodeAt(0));
const massOf = (picture, level) =>
  level === 0 ? 0 : picture.largest * 10 ** ((level - TOP_LEVEL) / LEVELS_PER_DECADE);

/** Red, green, blue and opacity at a place from 0 to 1 of the colour scale. */
function viridis(at) {
  const place = Math.min(Math.max(at, 0), 1) * (VIRIDIS.length - 1);
  const below = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const share = place - below;
  const mix = (low, high) => Math.round(low * (1 - share) + high * share);
  return [...VIRIDIS[below].map((low, i) => mix(low, VIRIDIS[below + 1][i])), 255];
}

/**
 * The scale of all pictures of a page: a colour means the same mass in each. The number of a colour
 * is a level minus the picture's shift, the levels by which its largest mass is below that of all.
 * Colour 0 is transparent.
 */
function colourScale(pictures) {
  const largest = Math.max(...pictures.map((picture) => picture.largest));
  const shiftOf = (picture) =>
    Math.round(Math.min(LEVELS_PER_DECADE * Math.log10(largest / picture.largest), TOP_LEVEL));
  let lowest = TOP_LEVEL - 1;
  for (const picture of pictures) {
    const shift = shiftOf(picture);
    for (const level of levelsOf(picture)) {
      if (level > shift) lowest = Math.min(lowest, level - shift);
    }
  }
  const range = TOP_LEVEL - lowest;
  const ticks = [1, 0.75, 0.5, 0.25, 0].map(
    (part) => largest * 10 ** ((-range * part) / LEVELS_PER_DECADE));
  const colours = Array.from(
    { length: TOP_LEVEL + 1 }, (_, i) => (i === 0 ? [0, 0, 0, 0] : viridis((i - lowest) / range)));
  return { shiftOf, ticks, colours };
}

/** A canvas of `columns` pixels a row; `pixels` has the colour of each. */
function painted(columns, pixels, attributes) {
  const height = pixels.length / columns;
  const canvas = element("canvas", { width: columns, height, ...attributes });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  pixels.forEach((pixel, i) => image.data.set(pixel, 4 * i));
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A pixel for each cell, and an empty line between the kept rows and the merged ones. */
function planPixels({ rows, columns, ...picture }, scale) {
  const shift = scale.shiftOf(picture);
  const colourOf = (level) => scale.colours[Math.max(0, level - shift)];
  const pixels = Array.from(levelsOf(picture), colourOf);
  const gap = rows > columns ? new Array(columns).fill(scale.colours[0]) : [];
  return [...pixels.slice(0, columns ** 2), ...gap, ...pixels.slice(columns ** 2)];
}

/** The mass of each cell. Rows and columns are named after their first channels. */
function planCsv(picture) {
  const { rows, columns, block } = picture;
  const massText = (level) => exponential(massOf(picture, level), 3);
  const masses = Array.from(levelsOf(picture), massText);
  const nameOf = (row) =>
    (row < columns ? `kept ${row * block}` : `merged ${(row - columns) * block}`);
  const line = (row) => [nameOf(row), ...masses.slice(row * columns, (row + 1) * columns)];
  return csvOfRows([
    ["first channel", ...Array.from({ length: columns }, (_, i) => i * block)],
    ...Array.from({ length: rows }, (_, row) => line(row))]);
}

/** The share of the largest cell in its row's mass, in the mean over the rows that have mass. */
function meanLargestShare(picture) {
  const masses = Array.from(levelsOf(picture), (level) => massOf(picture, level));
  const shares = [];
  for (let first = 0; first < masses.length; first += picture.columns) {
    const row = masses.slice(first, first + picture.columns);
    const sum = row.reduce((a, b) => a + b, 0);
    if (sum > 0) shares.push(Math.max(...row) / sum);
  }
  return shares.length === 0 ? 0 : shares.reduce((a, b) => a + b, 0) / shares.length;
}

function planText(junction, hiddenSize) {
  const picture = junction.transport;
  const kept = hiddenSize
    ? `${separated(junction.width)} of ${counted(hiddenSize, "channel")}`
    : counted(junction.width, "channel");
  const merged = picture.merged_targets === undefined
    ? "" : `, that of a merged one over ${shortNumber(picture.merged_targets)}`;
  return `${kept} are kept: ${counted(picture.rows, "row")} and ` +
    `${counted(picture.columns, "column")} of ${counted(picture.block, "channel")} each. ` +
    `${percent(picture.stays)} of the mass of the kept channels stays on themselves. ` +
    `In the mean over the rows the largest cell has ${percent(meanLargestShare(picture))} of a ` +
    "row's mass. The mass of a kept channel is spread over " +
    `${shortNumber(picture.kept_targets)} channels (effective number)${merged}.`;
}

/** The plans of a report; junctions that share a map have one, "embed to layers.3.mlp". */
function plansOf({ junctions = [], method }) {
  return junctions.flatMap((junction, first) => {
    if (!junction.transport) return [];
    let last = first;
    while (junctions[last + 1]?.sinkhorn && !junctions[last + 1].transport) ++last;
    const name = last === first ? junction.name : `${junction.name} to ${junctions[last].name}`;
    return [{ name, text: planText(junction, method.hidden_size), picture: junction.transport }];
  });
}

/** The spread of the plans' mass over depth, and the share that stays; nothing with one plan. */
function planFigures({ junctions = [] }) {
  if (junctions.filter((junction) => junction.transport).length < 2) return [];
  const of = (name, valueOf) =>
    seriesOver(name, junctions, ({ transport }) => transport && valueOf(transport));
  const targets = [of("kept channels", (plan) => plan.kept_targets),
                   of("merged channels", (plan) => plan.merged_targets)];
  return [
    categoryFigure(
      {
        id: "transport-targets",
        title: "Spread of the mass of a channel",
        x: { title: "junction" },
        y: { title: "channels (effective number)", log: spansOrders(targets, "y") },
      },
      junctions, targets),
    categoryFigure(
      {
        id: "transport-stays",
        title: "Mass of the kept channels that stays on themselves",
        x: { title: "junction" },
        y: { title: "share of their mass (%)", fromZero: true },
      },
      junctions, [of("stays (%)", (plan) => 100 * plan.stays)])];
}

/** One picture of the gallery, with a choice of the plan that it shows. */
function planPanel(plans, shown, scale) {
  const select = element("select", { "aria-label": "Junction of this picture" });
  select.append(...plans.map((plan, i) => new Option(plan.name, i)));
  select.value = shown;
  const cells = element("div", { class: "cells" });
  const text = element("p", { class: "plan-text" });
  const panel = element("div", { class: "plan", role: "group" },
                        element("p", { class: "plan-name" }, select), cells, text);
  const show = ({ name, text: words, picture }) => {
    const image = painted(
      picture.columns, planPixels(picture, scale),
      { class: "picture", role: "img", "aria-label": `Transport plan of ${name}. ${words}` });
    cells.replaceChildren(
      element("span", { class: "rows", "aria-hidden": "true" }, "channels of the source"),
      image,
      element("span", { class: "columns", "aria-hidden": "true" }, "channels that are kept"));
    text.replaceChildren(
      element("span", {}, words), " ",
      csvLink(`transport-plan-${name}.csv`, `the plan of ${name}`, planCsv(picture)));
    panel.setAttribute("aria-label", name);
  };
  select.addEventListener("change", () => show(plans[select.value]));
  show(plans[shown]);
  return panel;
}

/** All plans of a report, three of them shown at first: the first, the middle and the last one. */
function planGallery(report, principalComponents) {
  const plans = plansOf(report);
  if (plans.length === 0) return [];
  const scale = colourScale(plans.map((plan) => plan.picture));
  const shown = new Set([0, Math.floor(plans.length / 2), plans.length - 1]);
  const order = principalComponents
    ? "Channels are principal components here, the one of the largest eigenvalue first."
    : "Channels are in the order of the model.";
  const panels = Array.from(shown, (index) => planPanel(plans, index, scale));
  const bar = Array.from({ length: 256 }, (_, i) => viridis(i / 255));
  const ticks = scale.ticks.flatMap((mass) => [element("span", {}, scientific(mass)), " "]);
  return [element(
    "section", { class: "plans", id: "transport-plans", "aria-labelledby": "plans-title" },
    element("h2", { id: "plans-title" }, "Transport plans"),
    element("p", {},
            "How much of its mass each channel of the source (row) gives to each channel that is " +
            `kept (column); a whole plan has the mass 1. ${order} Rows above the gap are the ` +
            "kept ones: what stays where it is lies on the diagonal. Below the gap are the merged " +
            "ones, by the kept one that takes most of their mass."),
    element("div", { class: "plan-row" }, ...panels),
    element("div", { class: "scale" },
            element("p", {}, "Mass of a cell (share of the plan's mass, logarithmic); cells " +
                             "without a colour have less"),
            painted(bar.length, bar, { "aria-hidden": "true" }),
            element("p", { class: "ticks" }, ...ticks)))];
}
