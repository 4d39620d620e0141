"use strict";
// Draws the page's figures with Chart.js from the data in the page (job/page/page.h).
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  // Series differ in mark and dash too, not only in colour.
  const MARKS = ["circle", "rect", "triangle", "rectRot", "cross", "star", "rectRounded", "crossRot"];
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
  const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
  const scientific = new Intl.NumberFormat("en", { notation: "scientific", maximumSignificantDigits: 2 });
  const number = (value) =>
    value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? scientific.format(value) : short.format(value);

  // Labels 1, 2, 5, 10, 20 ... on a logarithmic axis; only powers of ten over many decades.
  function tick(value) {
    if (this.type !== "logarithmic") return number(value);
    const leading = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
    const wanted = this.max / this.min > 1000 ? [1] : [1, 2, 5];
    return wanted.some((each) => Math.abs(each - leading) < 1e-6) ? number(value) : null;
  }

  // A logarithmic axis ends a little beyond its data, not at the next power of ten.
  const ends = (figure, of) => {
    const all = figure.series.flatMap((series) => series.points.map((point) => point[of]));
    return { min: Math.min(...all) / 1.2, max: Math.max(...all) * 1.2 };
  };

  const axis = (figure, of, more) => ({
    type: figure[of].log ? "logarithmic" : "linear",
    beginAtZero: figure[of].fromZero,
    title: { display: true, text: figure[of].title, color: colour("--soft") },
    ticks: {
      color: colour("--soft"), maxRotation: 60, autoSkip: !figure[of].log, autoSkipPadding: 8, callback: tick,
    },
    grid: { color: colour("--line"), borderColor: colour("--line") },
    ...(figure[of].log ? ends(figure, of) : {}),
    ...more,
  });

  // Chart.js itself writes the names on a category axis.
  const categories = (figure, stacked) => {
    const { beginAtZero, ...made } = axis(figure, "x", { type: "category", stacked });
    const { callback, ...ticks } = made.ticks;
    const offset = stacked || figure.series.some((series) => !series.line);  // bars and lone points
    return { ...made, offset, ticks };
  };

  const values = (figure, series) => {
    if (!figure.categories) return series.points;
    const each = new Array(figure.categories.length).fill(null);
    for (const point of series.points) each[point.x] = point.y;
    return each;
  };

  const dataset = (figure) => (series, i) => {
    const shown = colour(`--series-${i % 8}`);
    return {
      label: series.name,
      data: values(figure, series),
      borderColor: shown,
      backgroundColor: shown,
      borderWidth: figure.bars ? 0 : 2,
      borderDash: DASHES[Math.floor(i / 2) % DASHES.length],
      showLine: series.line,
      pointStyle: figure.bars ? "rect" : series.marks ? MARKS[i % MARKS.length] : "line",
      pointRadius: series.marks ? (series.points.length > 60 ? 2 : 4) : 0,
      pointHoverRadius: 6,
    };
  };

  const tooltip = (item) => {
    const point = item.raw ?? {};
    const name = point.label ? `${item.dataset.label}: ${point.label}` : item.dataset.label;
    return `${name}: ${number(item.parsed.y)}`;
  };

  const config = (figure) => {
    const stacked = figure.bars;
    return {
      type: figure.bars ? "bar" : figure.categories ? "line" : "scatter",
      data: { labels: figure.categories, datasets: figure.series.map(dataset(figure)) },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        interaction: { mode: figure.categories ? "index" : "nearest", intersect: false },
        scales: {
          x: figure.categories ? categories(figure, stacked) : axis(figure, "x"),
          y: axis(figure, "y", { stacked }),
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
  };

  let charts = [];
  const draw = () => {
    for (const chart of charts) chart.destroy();
    charts = [...document.querySelectorAll("canvas[data-figure]")].map((canvas) => {
      const figure = figures[canvas.dataset.figure];
      canvas.parentElement.classList.toggle("tall", figure.series.length > 4);
      return new Chart(canvas, config(figure));
    });
  };

  // Transport plans (job/report/transport_picture.h). The reader chooses the junction of each.
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const mass = (plan, level) => (level === 0 ? 0 : plan.largest * 10 ** ((level - 255) / 32));

  // Draws a plan like png_of() in job/page/figures/plan_image.h.
  const paint = (plan, palette) => {
    const gap = plan.rows > plan.columns ? 1 : 0;
    const canvas = document.createElement("canvas");
    canvas.width = plan.columns;
    canvas.height = plan.rows + gap;
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    bytes(plan.levels).forEach((level, i) => {
      const colour = 4 * Math.max(0, level - plan.shift);
      const pixel = i < plan.columns ** 2 ? i : i + gap * plan.columns;
      image.data.set(palette.subarray(colour, colour + 4), 4 * pixel);
    });
    context.putImageData(image, 0, 0);
    return canvas;
  };

  // Same CSV as csv_of() in job/page/figures/plan_gallery.h.
  const csv = (plan) => {
    const levels = bytes(plan.levels);
    const firsts = Array.from({ length: plan.columns }, (_, i) => i * plan.block);
    const lines = [["first channel", ...firsts]];
    for (let row = 0; row < plan.rows; ++row) {
      const kept = row < plan.columns;
      const name = `${kept ? "kept" : "merged"} ${(kept ? row : row - plan.columns) * plan.block}`;
      const cells = levels.subarray(row * plan.columns, (row + 1) * plan.columns);
      lines.push([name, ...Array.from(cells, (level) => mass(plan, level).toExponential(3))]);
    }
    return lines.map((cells) => `${cells}\n`).join("");
  };

  const show = (panel, plan, palette) => {
    const canvas = paint(plan, palette);
    canvas.className = "picture";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Transport plan of ${plan.name}. ${plan.text}`);
    panel.querySelector(".picture").replaceWith(canvas);
    panel.setAttribute("aria-label", plan.name);
    panel.querySelector(".plan-text span").textContent = plan.text;
    const link = panel.querySelector("a");
    link.download = `transport-plan-${plan.name}.csv`;
    link.href = `data:text/csv;charset=utf-8,${encodeURIComponent(csv(plan))}`;
    link.querySelector("span").textContent = ` of the plan of ${plan.name}`;
  };

  const offer = ({ palette, plans }) => {
    const colours = bytes(palette);
    for (const panel of document.querySelectorAll("[data-plan]")) {
      const select = document.createElement("select");
      select.setAttribute("aria-label", "Junction of this picture");
      select.append(...plans.map((plan, i) => new Option(plan.name, i)));
      select.value = panel.dataset.plan;
      select.addEventListener("change", () => show(panel, plans[select.value], colours));
      panel.querySelector(".plan-name").replaceChildren(select);
    }
  };
  const gallery = document.getElementById("plans");
  if (gallery) offer(JSON.parse(gallery.textContent));

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Printed pages use the colours for a white background.
  addEventListener("beforeprint", () => { root.classList.add("printed"); draw(); });
  addEventListener("afterprint", () => { root.classList.remove("printed"); draw(); });
})();
