"use strict";
// Adds tables and figures, made from the JSON in the page, to the key figures of its HTML.

function tableElement({ caption, heading, rows, prose }) {
  const cells = (row) => [
    element("th", { scope: "row" }, row[0]),
    ...heading.slice(1).map((_, i) => element("td", {}, row[i + 1] ?? ""))];
  const titles = heading.map((cell) => element("th", { scope: "col" }, cell));
  return element(
    "div", { class: "scroll", role: "region", tabindex: 0, "aria-label": caption },
    element("table", prose ? { class: "prose" } : {},
            element("caption", {}, caption),
            element("thead", {}, element("tr", {}, ...titles)),
            element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row))))));
}

function textElement({ heading, text }) {
  return element("section", {}, element("h2", {}, heading), element("pre", { tabindex: 0 }, text));
}

function failurePage({ job }) {
  const texts = [{ heading: "End of the log", text: job.log_tail },
                 { heading: "Request", text: job.spec }];
  return { below: texts.filter(({ text }) => text !== "").map(textElement) };
}

/** Parses the JSON of the page. Its objects have own members alone, whatever names a report has. */
function pageData() {
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const plain = (_, value) =>
    (isObject(value) ? Object.assign(Object.create(null), value) : value);
  return JSON.parse(document.getElementById("data").textContent, plain);
}

function showPage() {
  const data = pageData();
  const pageOf = {
    job: jobPage, sweep: sweepPage, comparison: comparisonPage, failure: failurePage,
  }[data.kind];
  const { tables = [], figures = [], below = [], details = [] } = pageOf(data);
  const group = (name, elements) =>
    (elements.length > 0 ? [element("div", { class: name }, ...elements)] : []);
  const report = document.getElementById("report");
  report.querySelector(".tables").append(...tables.map(tableElement));
  report.append(...group("figures", figures.map(figureElement)), ...below,
                ...group("tables", details.map(tableElement)));
  drawFigures();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawFigures);
  // Printed pages use the colours for a white background.
  const { classList } = document.documentElement;
  addEventListener("beforeprint", () => { classList.add("printed"); drawFigures(); });
  addEventListener("afterprint", () => { classList.remove("printed"); drawFigures(); });
}

showPage();
