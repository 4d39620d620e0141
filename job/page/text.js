"use strict";
// Numbers as the command line prints them (base/text/human_text.h), CSV, and elements of the page.
// tests/job/page/numbers.json holds both to the same texts.

const padded = (text) => text.replace(/e([+-])(\d)$/, (_, sign, digit) => `e${sign}0${digit}`);

/**
 * Rounds ties to even, as C++ does. `write` is toFixed or toExponential, which round them up; with
 * 100 digits it tells a tie from every number beside it.
 */
function rounded(value, digits, write) {
  const [exact, power] = write.call(value, 100).split("e");
  const rest = exact.slice(digits - 100);
  const below = exact.slice(0, digits - 100).replace(/\.$/, "");
  if (!/^50*$/.test(rest) || !/[02468]$/.test(below)) return write.call(value, digits);
  return power === undefined ? below : `${below}e${power}`;
}

/** Writes that many decimals, without an exponent, which toFixed has from 1e21 on. */
function decimals(value, digits) {
  if (!Number.isFinite(value)) return value > 0 ? "inf" : value < 0 ? "-inf" : "nan";
  if (Math.abs(value) >= 1e21) return `${BigInt(value)}.${"0".repeat(digits)}`;
  return rounded(value, digits, Number.prototype.toFixed);
}

const exponential = (value, digits) =>
  padded(rounded(value, digits, Number.prototype.toExponential));
const separated = new Intl.NumberFormat("en", { maximumFractionDigits: 0 }).format;
const counted = (number, noun) => `${separated(number)} ${noun}${number === 1 ? "" : "s"}`;
const percent = (fraction) => `${decimals(100 * fraction, 1)} %`;
const perplexityText = (value) => decimals(value, value < 10 ? 4 : 3);
const nats = (value) => (Math.abs(value) < 0.001 ? exponential(value, 1) : decimals(value, 4));

/** Writes the change from one value to the other: "+5.4 %". */
function change(before, after) {
  if (before === 0) return "";
  const value = (100 * (after - before)) / before;
  return `${value < 0 ? "" : "+"}${decimals(value, 1)} %`;
}

/** Four significant digits, as {:.4g} of C++: "17", "0.0123", "1.2e-08". */
function shortNumber(value) {
  const text = exponential(value, 3);
  const power = Number(text.slice(text.indexOf("e") + 1));
  if (power < -4 || power >= 4) return text.replace(/\.?0*e/, "e");
  return decimals(value, 3 - power).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
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
  return `${decimals(value, value < 10 ? 2 : 1)} ${units[unit]}`;
}

/** Writes CSV (RFC 4180) of rows of texts and numbers; undefined is an empty cell. */
function csvOfRows(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/** Makes an element. Strings among its children become texts, so no report becomes markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Makes a link that saves the CSV; `subject` tells it from others where it is read out. */
function csvLink(file, subject, csv) {
  return element(
    "a", { download: file, href: `data:text/csv;charset=utf-8,${encodeURIComponent(csv)}` },
    "Data as CSV", element("span", { class: "hidden" }, ` of ${subject}`));
}
