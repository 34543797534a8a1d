// The pages work without this script. With it they stay up to date, search while one types, and draw charts.
"use strict";

// ---- theme -----------------------------------------------------------------------------------------------------
const root = document.documentElement;

function toggleTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.theme = root.dataset.theme = dark ? "light" : "dark";
  charts.forEach((chart) => chart.draw());
}

// ---- live pages ------------------------------------------------------------------------------------------------
// The server says when there is news; the page is asked for again, and what differs within #live is taken over in
// place, so that focus, scroll positions, open details and selections stay where they are.
let asking = null;

async function refresh() {
  if (asking) asking.abort();
  asking = new AbortController();
  try {
    const answer = await fetch(location.href, { signal: asking.signal, headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    // What was ticked stays so, wherever its row is then.
    const ticked = new Set(rowBoxes().filter((box) => box.checked).map((box) => box.value));
    for (const id of ["live", "status", "age"]) {
      const [now, then] = [document.getElementById(id), next.getElementById(id)];
      if (now && then) morph(now, then);
    }
    rowBoxes().forEach((box) => (box.checked = ticked.has(box.value)));
    document.title = next.title;
    charts.forEach((chart) => chart.load());
    startCharts();
  } catch (error) {
    if (error.name !== "AbortError") console.warn(error);
  }
}

function rowBoxes() {
  return [...document.querySelectorAll(".table input[type=checkbox]")];
}

function morph(now, then) {
  if (now.nodeType !== then.nodeType || now.nodeName !== then.nodeName || now.id !== then.id) {
    now.replaceWith(then);
    return;
  }
  if (now.nodeType === Node.TEXT_NODE) {
    if (now.data !== then.data) now.data = then.data;
    return;
  }
  if (now.nodeType !== Node.ELEMENT_NODE || now.dataset.chart) return;
  for (const { name, value } of [...then.attributes]) {
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
  for (const { name } of [...now.attributes]) {
    const kept = name === "open" && now.nodeName === "DETAILS";
    if (!kept && !then.hasAttribute(name)) now.removeAttribute(name);
  }
  if (now.nodeName === "TEXTAREA" || now === document.activeElement) return;
  const [nows, thens] = [[...now.childNodes], [...then.childNodes]];
  thens.forEach((child, at) => (at < nows.length ? morph(nows[at], child) : now.append(child)));
  nows.slice(thens.length).forEach((child) => child.remove());
}

let events = null;

// A browser keeps six connections to a server over all of its tabs, so only the tab that is seen listens.
function listen() {
  const live = document.getElementById("live");
  const wanted = live && live.dataset.events && !document.hidden;
  if (wanted && !events) {
    events = new EventSource(live.dataset.events);
    events.addEventListener("news", refresh);
  } else if (!wanted && events) {
    events.close();
    events = null;
  }
}

// ---- forms -----------------------------------------------------------------------------------------------------
let typing = null;

document.addEventListener("input", (event) => {
  const form = event.target.closest("form");
  if (!form) return;
  if (form.hasAttribute("data-search")) {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const query = new URLSearchParams(new FormData(form)).toString();
      history.replaceState(null, "", `${form.getAttribute("action") || location.pathname}?${query}`);
      refresh();
    }, 200);
  }
  checkConfirmation(form);
  // What is typed beside a choice is meant.
  const choice = document.getElementById(event.target.dataset.picks);
  if (choice) choice.checked = true;
});

// What is destructive can be sent when its name has been typed. The server looks again.
function checkConfirmation(form) {
  const field = form.querySelector("input[data-confirm]");
  if (field) form.querySelector("button[type=submit]").disabled = field.value !== field.dataset.confirm;
}

document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  const button = event.target.querySelector("button[type=submit]");
  // After the browser has collected the form.
  setTimeout(() => button && (button.disabled = true));
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-toggle]")) toggleTheme();
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  const form = document.getElementById(event.target.dataset.selects);
  if (form) for (const box of form.elements) if (box.type === "checkbox") box.checked = event.target.checked;
  const filled = document.getElementById(event.target.dataset.fills);
  if (filled && event.target.files.length) event.target.files[0].text().then((text) => (filled.value = text));
});

// ---- charts ----------------------------------------------------------------------------------------------------
// An element with data-chart names the JSON that it shows: {"unit", "times" in seconds, "series": [{"name", "values"}]}.
const charts = new Map();
const STROKES = ["--c1", "--c2", "--c3", "--bad", "--muted"];

function short(value, unit) {
  if (value == null) return "–";
  if (unit === "s") return passed(value);
  if (unit === "ms" && Math.abs(value) >= 1000) return passed(value / 1000);
  const [step, names] = unit.startsWith("B") ? [1024, ["", "Ki", "Mi", "Gi", "Ti"]] : [1000, ["", "k", "M", "G", "T"]];
  let power = 0;
  while (Math.abs(value) >= step && power < names.length - 1) {
    value /= step;
    power += 1;
  }
  const digits = value !== 0 && Math.abs(value) < 10 && (power > 0 || !Number.isInteger(value)) ? 1 : 0;
  return `${value.toFixed(digits)} ${names[power]}${unit}`;
}

// A time that passes, in seconds.
function passed(seconds) {
  const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => seconds >= size) || [1, "s"];
  return `${+(seconds / size).toFixed(1)} ${name}`;
}

class Chart {
  constructor(element) {
    this.element = element;
    this.load();
  }

  async load() {
    const answer = await fetch(this.element.dataset.chart);
    if (!answer.ok) return;
    this.answer = await answer.json();
    if (this.plot && this.plot.series.length === this.answer.series.length + 1) this.plot.setData(this.data());
    else this.draw();
  }

  data() {
    return [this.answer.times, ...this.answer.series.map((series) => series.values)];
  }

  draw() {
    if (!this.answer) return;
    if (this.plot) this.plot.destroy();
    const style = getComputedStyle(root);
    const probe = document.createElement("span");
    document.body.append(probe);
    const color = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const { unit } = this.answer;
    const axis = { stroke: color("--muted"), grid: { stroke: color("--rule"), width: 1 }, ticks: { show: false } };
    const value = (_, number) => short(number, unit);
    const series = this.answer.series.map(({ name, color: index }) => {
      return { label: name, stroke: color(STROKES[index % STROKES.length]), width: 2, value, points: { show: false } };
    });
    const font = `12px ${style.getPropertyValue("--sans")}`;
    const scales = { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1) * 1.05] } };
    const values = (_, ticks) => ticks.map((tick) => short(tick, unit));
    const times = (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString([], { hourCycle: "h23" }));
    const axes = [{ ...axis, font, values: times, space: 90 }, { ...axis, font, values, size: 72 }];
    const size = { width: this.element.clientWidth, height: 160 };
    this.plot = new uPlot({ ...size, scales, axes, series: [{ value: (_, time) => (time == null ? "–" : times(_, [time])[0]) }, ...series] }, this.data(), this.element);
    probe.remove();
  }
}

function startCharts() {
  for (const element of [...charts.keys()]) if (!element.isConnected) charts.delete(element);
  for (const element of document.querySelectorAll("[data-chart]")) {
    if (!charts.has(element)) charts.set(element, new Chart(element));
  }
}

addEventListener("resize", () => charts.forEach((chart) => chart.draw()));
document.addEventListener("visibilitychange", () => {
  listen();
  if (!document.hidden && document.getElementById("live")) refresh();
});
document.querySelectorAll("form").forEach(checkConfirmation);
listen();
startCharts();
