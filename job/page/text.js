"use strict";
// Numbers as the command line prints them (base/text/human_text.h), CSV, and elements of the page.

const padded = (text) => text.replace(/e([+-])(\d)$/, (_, sign, digit) => `e${sign}0${digit}`);
const separated = new Intl.NumberFormat("en", { maximumFractionDigits: 0 }).format;
const counted = (number, noun) => `${separated(number)} ${noun}${number === 1 ? "" : "s"}`;
const percent = (fraction) => `${(100 * fraction).toFixed(1)} %`;
const perplexityText = (value) => value.toFixed(value < 10 ? 4 : 3);
const nats = (value) =>
  (Math.abs(value) < 0.001 ? padded(value.toExponential(1)) : value.toFixed(4));

/** The change from one value to the other: "+5.4 %". */
function change(before, after) {
  if (before === 0) return "";
  const value = (100 * (after - before)) / before;
  return `${value < 0 ? "" : "+"}${value.toFixed(1)} %`;
}

/** Four significant digits: "17", "0.0123", "1.2e-08". */
function shortNumber(value) {
  const text = value.toPrecision(4);
  if (!text.includes("e")) return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return padded(text.replace(/\.?0+e/, "e"));
}

/** Two significant digits: "2.5·10⁻⁶". */
function scientific(value) {
  const [digits, power] = value.toExponential(1).split("e");
  const raised = [...String(Math.abs(power))].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
  return `${digits}·10${power < 0 ? "⁻" : ""}${raised}`;
}

/** Binary units: "512 B", "14.9 GiB". */
function bytesText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = bytes / 1024;
  let unit = 0;
  for (; value >= 1024 && unit + 1 < units.length; ++unit) value /= 1024;
  return `${value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`;
}

/** "42 s", "12 min 5 s", "3 h 2 min". */
function durationText(seconds) {
  const total = Math.round(seconds);
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = units.findIndex(([size]) => total >= size);
  if (at < 0 || at === 3) return `${total} s`;
  const [[size, name], [smaller, rest]] = [units[at], units[at + 1]];
  return `${Math.floor(total / size)} ${name} ${Math.floor((total % size) / smaller)} ${rest}`;
}

/** CSV (RFC 4180) of rows of texts and numbers; undefined is an empty cell. */
function csvOfRows(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/** An element. Strings among its children become texts, so nothing of a report becomes markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A link that saves the CSV; `subject` tells it from others where it is read out. */
function csvLink(file, subject, csv) {
  return element(
    "a", { download: file, href: `data:text/csv;charset=utf-8,${encodeURIComponent(csv)}` },
    "Data as CSV", element("span", { class: "hidden" }, ` of ${subject}`));
}
