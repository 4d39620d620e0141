"use strict";
// The page of a job: its report.json (docs/output.md).

const MAX_SPECTRA = 8;  // curves in one figure
const MAX_PHASES = 7;   // series in one figure, besides one for the other phases

// Units that may be cut: the list of report.json with their sublayers, the keys of their sizes, and
// for the first one of a list the name of the predicted damage.
const CUTS = [
  { list: "mlps", part: "MLPs", id: "mlp-width", title: "Features of the MLPs (d_ff)", parts: "features",
    left: "width", source: "intermediate_size" },
  { list: "mlps", id: "experts", title: "Experts of the mixtures", parts: "experts",
    left: "experts", source: "source_experts" },
  { list: "attentions", part: "value heads", id: "value-head-dim", title: "Channels of a value head",
    parts: "channels", left: "value_head_dim", source: "head_dim" },
];

// Settings and measures that the page lists if the report has them: name, and place in the report.
const FACTS = [
  ["Model", "model.path"],
  ["Dtype of the model", "model.dtype"],
  ["Output", "output.path"],
  ["Dtype of the output", "output.dtype"],
  ["model_type of the output", "output.model_type"],
  ["Method", "method.name"],
  ["Sparsity", "method.sparsity"],
  ["Size", "method.size"],
  ["λ", "method.lambda"],
  ["Metric", "method.metric"],
  ["One map for each", "method.map_sharing"],
  ["Shortcuts", "method.shortcuts"],
  ["Head", "method.head"],
  ["MLPs", "method.mlp"],
  ["Allocation", "method.allocate"],
  ["Features by layer", "allocation.features"],
  ["Experts by layer", "allocation.experts"],
  ["Predicted KL (nats a token)", "allocation.predicted_kl"],
  ["Measured KL (nats a token)", "allocation.measured_kl"],
  ["Calibration text", "calibration.text"],
  ["Calibration tokens from", "calibration.tokens"],
  ["Calibration tokens", "calibration.token_count"],
  ["Samples", "calibration.samples"],
  ["Tokens a sample", "calibration.seqlen"],
  ["Activations", "calibration.activations"],
  ["Statistics", "calibration.statistics"],
  ["Schedule", "calibration.schedule"],
  ["Seconds of calibration", "calibration.seconds"],
  ["Tokens a second", "calibration.tokens_per_second"],
  ["Evaluation text", "evaluation.text"],
  ["Evaluation tokens from", "evaluation.tokens"],
  ["Predicted tokens", "evaluation.predicted_tokens"],
  ["Tokens a window", "evaluation.seqlen"],
  ["Device", "device"],
  ["Compute dtype", "compute_dtype"],
];

/** Writes a value of the report for people. */
function valueText(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Number.isInteger(value)) return separated(value);
  if (typeof value === "number") return shortNumber(value);
  if (Array.isArray(value) && value.length === 1) return valueText(value[0]);
  return (typeof value === "string" ? value : JSON.stringify(value)).slice(0, 300);
}

/** Adds the dtypes of single tensors to the one that most have: "bfloat16, some float32". */
function withDtypes(model) {
  const others = [...new Set(Object.values(model?.other_dtypes ?? {}))].sort();
  const dtype = [model?.dtype, ...others.map((dtype) => `some ${dtype}`)].join(", ");
  return others.length > 0 ? { ...model, dtype } : model;
}

function factsTable(report) {
  const shown = { ...report, model: withDtypes(report.model), output: withDtypes(report.output) };
  const valueAt = (place) => place.split(".").reduce((at, key) => at?.[key], shown);
  const known = FACTS.filter(([, place]) => valueAt(place) !== undefined);
  return {
    caption: "What was done",
    heading: ["what", "value"],
    rows: known.map(([name, place]) => [name, valueText(valueAt(place))]),
    prose: true,
  };
}

/** Explains the measures whose names do not explain them. */
function termsTable({ compressed, junctions = [] }) {
  const rows = [];
  const add = (term, meaning) => rows.push([term, meaning]);
  if (compressed.kl !== undefined) {
    add("KL", "how far the predictions are from the dense model's (nats a token, mean over the " +
              "tokens); 0 if they are the same");
  }
  if (compressed.agreement !== undefined) {
    add("agreement", "share of the tokens at which both models hold the same one most likely");
  }
  add("bytes", "size of all stored tensors of the model, each counted once, in its own dtype");
  if (junctions.some((junction) => junction.mapped)) {
    add("effective rank", "directions that hold 99 % of the energy of a junction's activations");
  }
  return { caption: "Terms", heading: ["term", "meaning"], rows, prose: true };
}

function ranksTable({ ranks = [] }) {
  const rows = ranks.map((rank) => [
    String(rank.rank), rank.host, rank.gpu || "–", `${rank.first_sublayer} to ${rank.end_sublayer}`,
    bytesText(rank.peak_memory_bytes)]);
  return { caption: "Ranks", heading: ["rank", "host", "GPU", "sublayers", "peak memory"], rows };
}

/** Plots the predicted rise of the loss by layer, stacked by part, if the metric is the loss's. */
function damageFigures(report) {
  const { junctions = [], shortcuts = [], method, compressed } = report;
  if (method.metric !== "fisher") return [];
  const layerOf = (name) => (name.startsWith("layers.") ? name.split(".", 2).join(".") : name);
  const layers = [];
  const partOf = (name, entries) => {
    const sums = new Map();
    for (const entry of entries.filter((each) => each.predicted_rise !== undefined)) {
      const layer = layerOf(entry.name);
      if (!layers.includes(layer)) layers.push(layer);
      sums.set(layer, (sums.get(layer) ?? 0) + entry.predicted_rise);
    }
    return { name, sums };
  };
  const parts = [partOf("maps", junctions),
                 ...CUTS.filter(({ part }) => part).map(({ part, list }) => partOf(part, report[list] ?? [])),
                 partOf("shortcuts", shortcuts)];
  const series = parts.filter(({ sums }) => sums.size > 0)
    .map(({ name, sums }) => seriesOver(name, layers, (layer) => sums.get(layer)));
  if (series.length === 0) return [];
  const total = series.flatMap((each) => each.points).reduce((sum, point) => sum + point.y, 0);
  const measured = compressed.kl === undefined ? "" : `; the measured KL is ${nats(compressed.kl)}`;
  return [{
    id: "predicted-damage",
    title: "Predicted damage by layer",
    text: `The bars sum to ${nats(total)} nats a token${measured}.`,
    x: { title: "layer" },
    y: { title: "rise of the loss (nats a token)", fromZero: true },
    categories: layers,
    bars: true,
    series,
  }];
}

function widthFigures({ junctions = [], method }) {
  if (!junctions.some((junction) => junction.mapped)) return [];
  const of = (name, valueOf, more) => seriesOver(name, junctions, valueOf, more);
  const ifMapped = (valueOf) => (junction) => (junction.mapped ? valueOf(junction) : undefined);
  const widths = [of("effective rank (τ = 0.99)", ifMapped((junction) => junction.effective_rank)),
                  of("width", (junction) => junction.width)];
  if (method.hidden_size) {
    widths.push(of("hidden_size of the source", () => method.hidden_size, { marks: false }));
  }
  const energy = of("retained energy (%)", ifMapped((junction) => 100 * junction.retained_energy));
  return [
    categoryFigure(
      {
        id: "effective-rank",
        title: "Effective rank and width over depth",
        x: { title: "junction" },
        y: { title: "channels", fromZero: true },
      },
      junctions, widths),
    categoryFigure(
      {
        id: "retained-energy",
        title: "Retained energy per junction",
        x: { title: "junction" },
        y: { title: "retained energy (%)" },
      },
      junctions, [energy])];
}

/** Plots the energy beyond the leading directions. Points of 0, such as the last, are left out. */
function spectrumFigures({ junctions = [] }) {
  const all = junctions.filter((junction) => junction.spectrum?.ranks.length > 0);
  if (all.length === 0) return [];
  const count = Math.min(all.length, MAX_SPECTRA);
  // Spread evenly over the depth, with the first and the last one.
  const place = (i) => (count === 1 ? 0 : Math.floor((i * (all.length - 1)) / (count - 1)));
  const shown = Array.from({ length: count }, (_, i) => all[place(i)]);
  const series = shown.map(({ name, spectrum: { ranks, energy } }) => {
    const points = ranks.map((rank, i) => ({ x: rank, y: 1 - energy[i] }));
    return { name, points: points.filter(({ y }) => y > 0), marks: false };
  });
  const columns = all.map(({ spectrum: { ranks, energy } }) =>
    new Map(ranks.map((rank, i) => [rank, energy[i].toFixed(9)])));
  const allRanks = new Set(all.flatMap((junction) => junction.spectrum.ranks));
  const ranks = [...allRanks].sort((a, b) => a - b);
  return [{
    id: "spectrum",
    title: "Spectrum: energy beyond the r leading directions",
    text: "Of the eigenvalues of each junction's Gram matrix: what a projection on the r leading " +
      `ones leaves out. ${count} of ${counted(all.length, "junction")} shown; the data have all, ` +
      "as cumulative energy.",
    x: { title: "rank r (directions)", log: spansOrders(series, "x") },
    y: { title: "fraction of the energy of the activations", log: spansOrders(series, "y") },
    series,
    csv: csvOfRows([["rank", ...all.map((junction) => junction.name)],
                    ...ranks.map((rank) => [rank, ...columns.map((column) => column.get(rank))])]),
  }];
}

/** Plots the sizes that are left of shortcuts and of cut sublayers. */
function sublayerFigures(report) {
  const over = (entries, id, title, y, keys) => {
    if (entries.length === 0) return [];
    const series = keys.map(([name, key]) => seriesOver(name, entries, (entry) => entry[key]));
    return [categoryFigure({ id, title, x: { title: "sublayer" }, y }, entries, series)];
  };
  const { shortcuts = [], mlps = [], method } = report;
  // With the metric of the loss, the figure of the predicted damage has these errors.
  const mlpsWithErrors = method.metric === "fisher" ? [] : mlps;
  return [
    ...over(shortcuts, "shortcut-rank", "Rank of the shortcuts over depth",
            { title: "rank beside the identity", fromZero: true },
            [["rank", "rank"], ["exact rank", "exact_rank"]]),
    ...CUTS.flatMap(({ list, id, title, parts, left, source }) =>
      over((report[list] ?? []).filter((entry) => entry[source]), id, `${title} over depth`,
           { title: parts, fromZero: true }, [["left", left], ["of the source", source]])),
    ...over(mlpsWithErrors, "mlp-predicted-rise", "Predicted error by the cut of the MLPs",
            { title: "half the squared error of the sublayer's output" },
            [["predicted error", "predicted_rise"]])];
}

function healingFigures({ heal }) {
  if (heal?.update_share === undefined) return [];
  const last = heal.held_out_kl.length - 1;
  const nameOf = (i) => (i === last ? "kept" : i === 0 ? "folded" : String(i));
  const epochs = heal.held_out_kl.map((kl, i) => ({ name: nameOf(i), kl }));
  return [
    categoryFigure(
      {
        id: "healed-layers",
        title: "Error behind each layer, on held-out windows",
        x: { title: "layer" },
        y: { title: "relative squared error", fromZero: true },
      },
      heal.layers, [seriesOver("folded", heal.layers, (layer) => layer.folded_error),
                    seriesOver("healed", heal.layers, (layer) => layer.healed_error)]),
    categoryFigure(
      {
        id: "healing",
        title: "Divergence on held-out windows, while the output is healed",
        x: { title: "epochs" },
        y: { title: "KL, nats per token", fromZero: true },
      },
      epochs, [seriesOver("KL", epochs, (epoch) => epoch.kl)])];
}

function sinkhornFigures({ junctions = [] }) {
  const of = (name) => seriesOver(name, junctions, (junction) => junction.sinkhorn?.[name]);
  const [iterations, violation] = [of("iterations"), of("violation")];
  if (iterations.points.length === 0) return [];
  const figures = [categoryFigure(
    {
      id: "sinkhorn-iterations",
      title: "Sinkhorn iterations",
      x: { title: "junction" },
      y: { title: "iterations", fromZero: true },
      bars: true,
    },
    junctions, [iterations])];
  if (violation.points.length === 0) return figures;
  const about = {
    id: "sinkhorn-violation",
    title: "Violation of the marginals that Sinkhorn has left",
    x: { title: "junction" },
    y: { title: "ℓ1 violation of a marginal", log: spansOrders([violation], "y") },
  };
  return [...figures, categoryFigure(about, junctions, [violation])];
}

/** Plots the longest phases, and all others as one series. The CSV file has each phase. */
function timeFigure({ ranks, wall_time_s }) {
  const totals = new Map();
  for (const [phase, seconds] of ranks.flatMap((rank) => Object.entries(rank.seconds))) {
    totals.set(phase, (totals.get(phase) ?? 0) + seconds);
  }
  const phases = [...totals].sort(([a, x], [b, y]) => y - x || (a < b ? 1 : -1));
  const means = phases.slice(0, 3).map(
    ([phase, seconds]) => `${phase} ${shortNumber(seconds / ranks.length)} s`);
  const meansText = means.length > 0 ? `; mean over the ranks: ${means.join(", ")}` : "";
  const all = phases.map(([phase]) => seriesOver(phase, ranks, (rank) => rank.seconds[phase]));
  const figure = {
    id: "time",
    title: "Time by rank and phase",
    text: `${shortNumber(wall_time_s)} s of wall time${meansText}.`,
    x: { title: "rank" },
    y: { title: "wall time (s)", fromZero: true },
    categories: ranks.map((rank) => String(rank.rank)),
    bars: true,
    series: all,
  };
  if (all.length <= MAX_PHASES + 1) return figure;
  const rest = phases.slice(MAX_PHASES).map(([phase]) => phase);
  const restOf = (rank) => rest.reduce((sum, phase) => sum + (rank.seconds[phase] ?? 0), 0);
  const series = [...all.slice(0, MAX_PHASES), seriesOver("the other phases", ranks, restOf)];
  return { ...figure, series, csv: csvOf(figure) };
}

function rankFigures(report) {
  const { ranks = [] } = report;
  if (ranks.length === 0) return [];
  const gibibytes = (bytes) => (bytes === undefined ? undefined : bytes / 2 ** 30);
  const of = (name, key) =>
    seriesOver(name, ranks, (rank) => gibibytes(rank[key]), { line: false });
  const memory = {
    id: "memory",
    title: "Peak memory by rank",
    x: { title: "rank" },
    y: { title: "peak memory (GiB)", fromZero: true },
  };
  const series = [of("host", "peak_memory_bytes"), of("GPU", "peak_device_memory_bytes")];
  return [timeFigure(report), categoryFigure(memory, ranks, series, (rank) => String(rank.rank))];
}

/** Content of a job's page beside its key figures. Each kind of page has such a function. */
function jobPage({ report, principal_components }) {
  return {
    tables: [termsTable(report)],
    figures: [
      ...damageFigures(report), ...widthFigures(report), ...spectrumFigures(report),
      ...sublayerFigures(report), ...healingFigures(report), ...sinkhornFigures(report),
      ...planFigures(report), ...rankFigures(report)],
    below: planGallery(report, principal_components),
    details: [factsTable(report), ranksTable(report), {
      caption: "Fingerprints of the input",
      heading: ["input", "SHA-256"],
      rows: Object.entries(report.fingerprints),
      prose: true,
    }],
  };
}
