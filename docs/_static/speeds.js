// The page of recorded speeds: what is chosen stands in the address, after #; a chart, a point in
// words and a table follow it. The points come from speeds-data.js, the chart from vendor/vega.js.
"use strict";

(() => {
  const BASE = new URL(".", document.currentScript.src);
  const DATA = "speeds-data.js";
  const ALL = "all";
  const ROWS_AT_FIRST = 50;
  const CATEGORY_PX = 26;
  const NARROW_PX = 560;

  // ---- what can be chosen ------------------------------------------------------------------------

  const Y = {
    share: { label: "share of cuBLAS", title: "% of cuBLAS, more is faster", unit: "%", of: (p) => p.share, low: (p) => p.share_q1, high: (p) => p.share_q3 },
    tflops: { label: "TFLOP/s", title: "TFLOP/s (of int8: 10¹² operations per second)", unit: "TFLOP/s", of: (p) => p.tflops, low: (p) => rate(p, p.us_q3), high: (p) => rate(p, p.us_q1) },
    time: { label: "time of a product", title: "µs for each product, less is faster", unit: "µs", log: true, of: (p) => p.us / p.batch, low: (p) => each(p, p.us_q1), high: (p) => each(p, p.us_q3) },
    roof: { label: "share of its roof", title: "% of the roof over the rung", unit: "%", of: (p) => p.roof, low: () => null, high: () => null },
  };
  // `of` gives null where a point has no place; categories are drawn down the page.
  const X = {
    size: { label: "the size of squares", title: "M = N = K", of: (p) => (p.m === p.n && p.n === p.k && p.batch === 1 ? p.m : null) },
    batch: { label: "the products of a batch", title: "products in the batch", of: (p) => (p.kind === "batches" ? p.batch : null) },
    rung: { label: "the rung", category: true, of: (p) => p.rung },
    shape: { label: "the shape", category: true, of: (p) => p.shape },
    type: { label: "the type of A and B", category: true, of: (p) => p.type },
    step: { label: "the step or the way", category: true, of: (p) => p.what || null },
  };
  const OPENS_WITH = { x: "size", y: "share", rungs: ALL, types: ["float32"], kinds: ["squares"], records: ["defaults"], shape: "", gpu: "", ahead: false };

  const TABLE = [
    ["rung", "rung", (p) => p.rung],
    ["step or way", "what", (p) => p.what],
    ["M×N×K", "shape", (p) => p.shape, (p) => p.order],
    ["type", "precision", (p) => p.precision],
    ["% of cuBLAS", "share", (p) => percent(p.share), (p) => p.share],
    ["TFLOP/s", "tflops", (p) => digits(p.tflops), (p) => p.tflops],
    ["median, µs", "us", (p) => digits(p.us), (p) => p.us],
    ["middle half, µs", "us_q1", (p) => span(p.us_q1, p.us_q3), (p) => p.us_q1],
    ["its middle half", "share_q1", (p) => span(p.share_q1, p.share_q3, percent), (p) => p.share_q1],
    ["% of its roof", "roof", (p) => percent(p.roof), (p) => p.roof],
    ["SM clock, MHz", "clock_mhz", (p) => digits(p.clock_mhz), (p) => p.clock_mhz],
    ["power, W", "power_w", (p) => digits(p.power_w), (p) => p.power_w],
    ["settings", "settings", (p) => p.settings],
    ["code", "code", (p) => p.code],
    ["recorded", "recorded", (p) => p.recorded.replace("T", " ").replace("+00:00", " UTC")],
    ["GPU", "gpu", (p) => p.gpu],
    ["driver", "driver", (p) => p.driver],
    ["CUDA", "cuda", (p) => p.cuda],
    ["cuBLAS", "cublas", (p) => p.cublas],
    ["from", "file", (p) => `results/${p.folder}/${p.file}`],
  ];

  // ---- small things ------------------------------------------------------------------------------

  const digits = (value) => {
    if (value === null) return "";
    const decimals = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
    return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  };
  const percent = (value) => (value === null ? "" : value.toFixed(value >= 1 ? 1 : 2));
  const span = (low, high, say = digits) => (low === null || high === null ? "" : `${say(low)} to ${say(high)}`);
  const rate = (p, us) => (us === null ? null : (p.tflops * p.us) / us);
  const each = (p, us) => (us === null ? null : us / p.batch);
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  const number = (rung) => rung.split("_")[0];
  const inAddress = (sizes) => sizes.replaceAll(" ", "").replaceAll("×", "x");
  const dashed = (words) => words.replaceAll(" ", "-");

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (typeof value === "boolean") made.toggleAttribute(key, value);
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  function load(name) {
    return new Promise((done, failed) => {
      document.head.append(element("script", { src: new URL(name, BASE).href, onload: done, onerror: () => failed(new Error(`${name} cannot be loaded`)) }));
    });
  }

  // ---- the points --------------------------------------------------------------------------------

  function pointsOf({ columns, kinds }) {
    const names = Object.keys(columns);
    const read = names.map((name) => {
      const column = columns[name];
      return Array.isArray(column) ? (at) => column[at] : (at) => column.values[column.at[at]];
    });
    const count = columns.m.length;
    const points = Array.from({ length: count }, (_, at) => Object.fromEntries(names.map((name, i) => [name, read[i](at)])));
    for (const [id, p] of points.entries()) {
      const single = `${p.m}×${p.n}×${p.k}`;
      p.id = id;
      p.sizes = p.batch > 1 ? `${p.batch} × ${single}` : single;
      p.shape = p.ops === "NN" ? p.sizes : `${p.sizes} ${p.ops}`;
      p.order = kinds.indexOf(p.kind) * 1e18 + p.m * p.n * p.k * p.batch;
      p.series = [p.rung, p.record, p.what, p.precision, p.kind === "batches" ? single : "", p.ops, p.record === "sweep" ? p.settings : ""].join("|");
    }
    return points;
  }

  // ---- the address -------------------------------------------------------------------------------

  /** The selection that a fragment names. Throws Error with a sentence's end for a wrong one. */
  function selectionOf(fragment, data) {
    const chosen = { ...OPENS_WITH, gpu: Object.keys(data.gpus)[0] };
    const lists = {
      rungs: new Map(data.rungs.map((one) => [number(one.name), one.name])),
      types: new Map(data.types.map((one) => [one, one])),
      kinds: new Map(data.kinds.map((one) => [dashed(one), one])),
      records: new Map(Object.keys(data.records).map((one) => [one, one])),
    };
    for (const [key, value] of new URLSearchParams(fragment)) {
      if (key in lists) {
        chosen[key] = value === ALL ? ALL : value.split(",").filter(Boolean).map((one) => {
          const known = lists[key].get(one) ?? lists[key].get(one.padStart(2, "0"));
          if (known === undefined) throw new Error(`${key}=${one} is not among ${[...lists[key].keys()].join(", ")}`);
          return known;
        });
      } else if (key === "x" || key === "y") {
        const known = key === "x" ? X : Y;
        if (!Object.hasOwn(known, value)) throw new Error(`${key}=${value} is not among ${Object.keys(known).join(", ")}`);
        chosen[key] = value;
      } else if (key === "gpu") {
        if (!Object.hasOwn(data.gpus, value)) throw new Error(`gpu=${value} is not among ${Object.keys(data.gpus).join(", ")}`);
        chosen.gpu = value;
      } else if (key === "shape") {
        const shape = data.points.find((p) => inAddress(p.sizes) === value)?.sizes;
        if (!shape) throw new Error(`nothing is recorded at shape=${value}`);
        chosen.shape = shape;
      } else if (key === "ahead") {
        if (value !== "1") throw new Error(`ahead=${value} is not 1`);
        chosen.ahead = true;
      } else throw new Error(`there is no choice called ${key}`);
    }
    return chosen;
  }

  /** The shortest fragment that selectionOf reads as this selection. */
  function fragmentOf(chosen, data) {
    const same = (a, b) => String(a) === String(b);
    const parts = [];
    const opens = { ...OPENS_WITH, gpu: Object.keys(data.gpus)[0] };
    for (const [key, value] of Object.entries(chosen)) {
      if (same(value, opens[key])) continue;
      if (key === "rungs" && value !== ALL) parts.push(`rungs=${value.map(number).join(",")}`);
      else if (Array.isArray(value)) parts.push(`${key}=${value.map(dashed).join(",")}`);
      else if (key === "shape") parts.push(`shape=${inAddress(value)}`);
      else parts.push(`${key}=${value === true ? 1 : value}`);
    }
    return parts.join("&");
  }

  const has = (list, value) => list === ALL || list.includes(value);

  function selected(chosen, data) {
    return data.points.filter((p) =>
      p.folder === chosen.gpu && has(chosen.rungs, p.rung) && has(chosen.types, p.type) && has(chosen.records, p.record) &&
      (chosen.shape ? p.sizes === chosen.shape : has(chosen.kinds, p.kind)) && (!chosen.ahead || (p.rung !== "cublas" && p.share > 100)));
  }

  // ---- the page ----------------------------------------------------------------------------------

  class Page {
    constructor(root, data) {
      this.root = root;
      this.data = data;
      this.sorted = null; // [column of TABLE, 1 or -1]
      this.every = false; // all rows of the table, or the first
      this.picked = null;
      this.said = element("p", { class: "speeds-said", role: "status" });
      this.controls = element("div", { class: "speeds-choices" });
      this.filters = element("details", {}, element("summary", {}, "Choose rungs, types, shapes and records"));
      this.chart = element("div", { class: "speeds-chart", role: "group", tabindex: "0", "aria-label": "Chart. Left and right arrows go from point to point, up and down from series to series.", onkeydown: (event) => this.step(event) });
      this.words = element("p", { class: "speeds-words" });
      this.point = element("div", { class: "speeds-point", "aria-live": "polite" });
      this.actions = element("div", { class: "speeds-actions" });
      this.table = element("div", { class: "speeds-table", role: "region", tabindex: "0", "aria-label": "The points of the chart as a table" });
      root.append(this.said, this.controls, this.filters, this.chart, this.words, this.point, this.actions, this.table);
      this.wanted = !(navigator.connection?.saveData || matchMedia("(prefers-reduced-data: reduce)").matches);
      addEventListener("popstate", () => this.read());
      addEventListener("hashchange", () => this.read());
      let width = root.clientWidth;
      new ResizeObserver(() => {
        if (Math.abs(root.clientWidth - width) < 8) return;
        width = root.clientWidth;
        clearTimeout(this.later);
        this.later = setTimeout(() => this.draw(), 150);
      }).observe(root);
      this.read();
    }

    /** Take the selection from the address. One without "=" is a heading's. */
    read() {
      const fragment = location.hash.slice(1);
      if (fragment === this.fragment) return;
      this.fragment = fragment;
      this.wrong = "";
      try {
        this.chosen = selectionOf(fragment.includes("=") ? fragment : "", this.data);
      } catch (error) {
        this.wrong = `The address asks for something else than there is: ${error.message}. Shown is what this page opens with.`;
        this.chosen = selectionOf("", this.data);
      }
      this.show();
    }

    /** Change the selection, and the address with it. */
    choose(change) {
      this.chosen = { ...this.chosen, ...change };
      this.wrong = "";
      this.fragment = fragmentOf(this.chosen, this.data);
      history.pushState(null, "", this.fragment ? `#${this.fragment}` : location.pathname + location.search);
      this.show();
    }

    /** From all rungs to those of a family alone; else the family is added, or taken away. */
    chooseFamily(members) {
      const { rungs } = this.chosen;
      const every = this.data.rungs.map((one) => one.name);
      const whole = rungs !== ALL && members.every((name) => rungs.includes(name));
      const now = rungs === ALL ? members : every.filter((name) => (members.includes(name) ? !whole : rungs.includes(name)));
      this.choose({ rungs: now.length === every.length ? ALL : now });
    }

    show() {
      this.picked = null;
      this.every = false;
      this.points = selected(this.chosen, this.data);
      this.said.textContent = [this.wrong, ...this.data.left_out.map((one) => `Left out: ${one}`)].filter(Boolean).join(" ");
      this.showControls();
      this.draw();
      this.showPoint();
      this.showActions();
      this.showTable();
      for (const link of document.querySelectorAll(".speeds-questions a")) {
        const target = fragmentOf(selectionOf(link.hash.slice(1), this.data), this.data);
        link.setAttribute("aria-current", String(target === fragmentOf(this.chosen, this.data)));
      }
    }

    // ---- controls --------------------------------------------------------------------------------

    showControls() {
      const focused = document.activeElement?.dataset?.control;
      const { chosen, data } = this;
      const select = (label, key, options) => element("label", {}, label,
        element("select", { "data-control": key, onchange: (event) => this.choose({ [key]: event.target.value }) },
          ...options.map(([value, words]) => element("option", { value, selected: value === chosen[key] }, words))));
      const shapes = new Map(data.points.toSorted((a, b) => a.order - b.order).map((p) => [p.sizes, p.sizes]));
      this.controls.replaceChildren(
        select("Show", "y", Object.entries(Y).map(([key, one]) => [key, one.label])),
        select("along", "x", Object.entries(X).map(([key, one]) => [key, one.label])),
        select("Shape", "shape", [["", "all of the kinds chosen"], ...shapes]),
        select("GPU", "gpu", Object.entries(data.gpus)),
      );
      const boxes = (legend, key, items, disabled = false) => {
        const values = items.filter((one) => !one.heading).map((one) => one.value);
        const change = (value, on) => {
          const now = values.filter((one) => (one === value ? on : has(chosen[key], one)));
          this.choose({ [key]: now.length === values.length ? ALL : now });
        };
        return element("fieldset", { disabled },
          element("legend", {}, legend, " ",
            element("button", { type: "button", "data-control": `${key} all`, onclick: () => this.choose({ [key]: ALL }) }, "all"), " ",
            element("button", { type: "button", "data-control": `${key} none`, onclick: () => this.choose({ [key]: [] }) }, "none")),
          element("div", { class: "speeds-boxes" }, ...items.map((one) => one.heading
            ? element("button", { type: "button", class: "speeds-family", "data-control": `family ${one.heading}`, "aria-pressed": String(one.members.every((name) => has(chosen[key], name))), onclick: () => this.chooseFamily(one.members) }, one.heading)
            : element("label", {}, element("input", { type: "checkbox", "data-control": `${key} ${one.value}`, checked: has(chosen[key], one.value), onchange: (event) => change(one.value, event.target.checked) }), ...one.words))));
      };
      const families = [];
      for (const rung of data.rungs) {
        if (families.at(-1)?.family !== rung.family) families.push({ heading: rung.family, members: data.rungs.filter((one) => one.family === rung.family).map((one) => one.name) });
        families.push({ value: rung.name, family: rung.family, words: [swatch(rung), rung.name === "cublas" ? rung.title : `${number(rung.name)} ${rung.title}`] });
      }
      this.filters.replaceChildren(this.filters.firstChild,
        boxes("Rungs", "rungs", families),
        boxes("Types of A and B", "types", data.types.map((value) => ({ value, words: [value] }))),
        boxes(chosen.shape ? "Kinds of shapes (one shape is chosen)" : "Kinds of shapes", "kinds", data.kinds.map((value) => ({ value, words: [value] })), Boolean(chosen.shape)),
        boxes("Recorded", "records", Object.entries(data.records).map(([value, words]) => ({ value, words: [words] }))),
        element("fieldset", {}, element("label", {}, element("input", { type: "checkbox", "data-control": "ahead", checked: chosen.ahead, onchange: (event) => this.choose({ ahead: event.target.checked }) }), " only what is faster than cuBLAS")),
      );
      if (focused) this.root.querySelector(`[data-control="${CSS.escape(focused)}"]`)?.focus();
    }

    // ---- the chart -------------------------------------------------------------------------------

    /** The points that have a place in the chart, series by series. */
    placed() {
      const x = X[this.chosen.x], y = Y[this.chosen.y];
      const dull = (p) => p.rung === "cublas" && y.unit === "%"; // 100 % is drawn as a line
      const there = this.points.filter((p) => x.of(p) !== null && y.of(p) !== null && !dull(p));
      const along = (p) => (x.category ? 0 : x.of(p));
      return there.sort((a, b) => (a.series < b.series ? -1 : a.series > b.series ? 1 : along(a) - along(b)));
    }

    async draw() {
      const turn = (this.turn = (this.turn ?? 0) + 1);
      this.shown = this.placed();
      this.words.textContent = this.inWords();
      this.view?.finalize();
      this.view = null;
      if (!this.shown.length) return void this.chart.replaceChildren(element("p", {}, "No recorded point is in this selection. Choose more rungs, types, shapes or records, or another axis."));
      if (!this.wanted) {
        const draw = () => ((this.wanted = true), this.draw());
        return void this.chart.replaceChildren(element("button", { type: "button", onclick: draw }, `Draw the chart (loads ${(this.data.library_bytes / 1e6).toFixed(1)} MB)`));
      }
      try {
        await (Page.library ??= load(this.data.library));
        if (turn !== this.turn) return; // another selection came meanwhile
        const inside = element("div", { "aria-hidden": "true" }); // what it shows is in words below
        const { view } = await vegaEmbed(inside, this.spec(), { actions: false, renderer: "svg", tooltip: { formatTooltip: told } });
        if (turn !== this.turn) return view.finalize();
        this.chart.replaceChildren(inside); // until here the one before stays
        this.view = view;
        view.addEventListener("click", (_, item) => item?.datum?.id !== undefined && this.pick(item.datum.id));
        this.mark();
      } catch (error) {
        Page.library = undefined;
        this.chart.replaceChildren(element("p", {}, `The chart cannot be drawn: ${error.message}. The table below has the same points.`));
      }
    }

    spec() {
      const { chosen, data } = this;
      const x = X[chosen.x], y = Y[chosen.y], { ink, ground, rule } = data.colours;
      const width = Math.max(260, this.chart.clientWidth - 2 * 9);
      const narrow = width < NARROW_PX;
      const colours = new Map(data.rungs.map((one) => [one.name, one.colour]));
      const values = this.shown.map((p) => ({
        id: p.id, rung: p.rung, colour: colours.get(p.rung), series: p.series, x: x.of(p), y: y.of(p), low: y.low(p), high: y.high(p),
        ...Object.fromEntries(TABLE.map(([, key, say]) => [`t_${key}`, say(p)])),
      }));
      const there = data.rungs.filter((rung) => values.some((one) => one.rung === rung.name));
      const order = x.category ? categories(this.shown, x, chosen.x, data) : null;
      const lines = (words) => (narrow ? wrapped(words, 22) : words);
      if (x.category) for (const one of values) one.x = lines(one.x);
      this.drawn = values;
      const heights = Math.max(1, ...(order ?? []).map((words) => lines(words).split("\n").length));
      const domain = y.log ? ends(values, "y") : [0, 1.04 * Math.max(y.unit === "%" ? 100 : 0, ...values.map((one) => one.high ?? one.y))];
      const measure = { field: "y", type: "quantitative", title: y.title, scale: { type: y.log ? "log" : "linear", domain, nice: false, padding: y.log ? 10 : 0 }, axis: { format: "~r", labelOverlap: true, ...(y.log ? { values: decades(...domain) } : {}) } };
      const place = x.category
        ? { field: "x", type: "nominal", title: null, scale: { domain: order.map(lines) }, axis: { labelExpr: "split(datum.label, '\\n')", labelLimit: width * 0.5, domain: false, ticks: false, grid: true } }
        : { field: "x", type: "quantitative", title: x.title, scale: { type: "log", base: 2, domain: ends(values, "x"), nice: false, padding: 12 }, axis: { values: ticks(values), format: "~d", labelOverlap: true, grid: false } };
      const channels = (one, other) => (x.category ? { y: one, x: other } : { x: one, y: other });
      const [low, high] = x.category ? ["x", "x2"] : ["y", "y2"];
      const legend = chosen.x === "rung" ? null : { title: null, orient: "bottom", columns: Math.max(1, Math.floor((x.category ? 0.6 : 1) * width / 165)), symbolSize: 70, symbolOpacity: 1 };
      const plain = { field: "colour", type: "nominal", scale: null };
      const colour = { field: "rung", type: "nominal", scale: { domain: there.map((one) => one.name), range: there.map((one) => one.colour) }, legend };
      const symbol = { field: "rung", type: "nominal", scale: { domain: there.map((one) => one.name), range: there.map((one) => one.symbol) }, legend };
      const many = values.length > 400;
      const bar = channels({ ...place }, { ...measure });
      bar[low] = { ...measure, field: "low" };
      bar[high] = { field: "high" };
      return {
        $schema: "https://vega.github.io/schema/vega-lite/v6.json", // a name: nothing is fetched
        width, height: x.category ? Math.max(CATEGORY_PX, 13 * heights + 6) * order.length : narrow ? 300 : 400,
        autosize: { type: "fit-x", contains: "padding" }, background: ground,
        config: {
          aria: false, font: "system-ui, sans-serif", view: { stroke: null },
          axis: { labelColor: ink, titleColor: ink, gridColor: rule, domainColor: "#767676", tickColor: "#767676", labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
          legend: { labelColor: ink, labelFontSize: 12, labelLimit: 150 },
        },
        layer: [
          ...(y.unit !== "%" ? [] : [{ data: { values: [{ y: 100 }] }, mark: { type: "rule", color: ink, strokeDash: [5, 4] }, encoding: { [x.category ? "x" : "y"]: { ...measure } } }]),
          ...(x.category ? [] : [{ data: { values }, mark: { type: "line", strokeWidth: 1.6, opacity: 0.8 }, encoding: { ...channels(place, measure), color: plain, detail: { field: "series" } } }]),
          { data: { values: values.filter((one) => one.low !== null && one.high !== null) }, mark: { type: "rule", strokeWidth: 1.4, opacity: 0.7 }, encoding: { ...bar, color: plain } },
          { data: { values }, mark: { type: "point", filled: true, size: many ? 22 : 55, opacity: many ? 0.55 : 1, cursor: "pointer" },
            encoding: { ...channels(place, measure), color: colour, shape: symbol, tooltip: TABLE.map(([title, key]) => ({ field: `t_${key}`, title, type: "nominal" })) } },
          { data: { name: "picked", values: [] }, mark: { type: "point", size: 260, strokeWidth: 2.5, color: "#0072B2", filled: false }, encoding: channels(place, measure) },
        ],
      };
    }

    /** What the chart shows, for those who do not see it. */
    inWords() {
      if (!this.shown.length) return "";
      const x = X[this.chosen.x], y = Y[this.chosen.y];
      const sorted = this.shown.toSorted((a, b) => y.of(a) - y.of(b));
      const say = (p) => `${y.unit === "%" ? `${percent(y.of(p))} %` : `${digits(y.of(p))} ${y.unit}`} (${[p.rung, p.what].filter(Boolean).join(", ")}, ${p.shape}, ${p.type})`;
      const rungs = new Set(this.shown.map((p) => p.rung)).size;
      const off = this.points.length - this.shown.length;
      const days = this.shown.map((p) => p.recorded.slice(0, 10)).sort();
      const when = days[0] === days.at(-1) ? days[0] : `${days[0]} to ${days.at(-1)}`;
      return `${y.label[0].toUpperCase()}${y.label.slice(1)} along ${x.label}: ${plural(this.shown.length, "point")} of ${rungs === 1 ? this.shown[0].rung : `${rungs} rungs`}, ` +
        `from ${say(sorted[0])} to ${say(sorted.at(-1))}. Recorded on ${this.data.gpus[this.chosen.gpu]}, ${when}.` +
        (off ? ` ${plural(off, "more point")} of the selection ${off === 1 ? "has" : "have"} no place on these axes; the table has ${off === 1 ? "it" : "them"}.` : "");
    }

    // ---- one point -------------------------------------------------------------------------------

    pick(id) {
      this.picked = id;
      this.mark();
      this.showPoint();
      for (const row of this.table.querySelectorAll("tbody tr")) row.setAttribute("aria-selected", String(Number(row.dataset.id) === id));
    }

    mark() {
      if (!this.view) return;
      this.view.data("picked", this.drawn.filter((one) => one.id === this.picked)).run();
    }

    /** Arrow keys go through the points of the chart. */
    step(event) {
      if (event.target !== this.chart || !this.shown?.length) return;
      const at = this.shown.findIndex((one) => one.id === this.picked);
      const firsts = this.shown.flatMap((p, i) => (i === 0 || p.series !== this.shown[i - 1].series ? [i] : []));
      const next = {
        ArrowRight: () => Math.min(at + 1, this.shown.length - 1),
        ArrowLeft: () => Math.max(at - 1, 0),
        ArrowDown: () => firsts.find((i) => i > at) ?? this.shown.length - 1,
        ArrowUp: () => firsts.findLast((i) => i < at) ?? 0,
        Home: () => 0,
        End: () => this.shown.length - 1,
      }[event.key];
      if (!next) return;
      event.preventDefault();
      this.pick(this.shown[next()].id);
    }

    showPoint() {
      const p = this.data.points[this.picked];
      if (!p) return void this.point.replaceChildren(element("p", {}, "Point at one, go to it with the arrow keys in the chart, or choose a row of the table: here is what is recorded of it."));
      const facts = TABLE.map(([title, , say]) => [title, say(p)]).filter(([, value]) => value !== "");
      this.point.replaceChildren(
        element("p", {}, element("strong", {}, [p.rung, p.what].filter(Boolean).join(", ")), ` at ${p.shape} in ${p.precision}`),
        element("dl", {}, ...facts.slice(1).map(([title, value]) => element("div", {}, element("dt", {}, title), element("dd", {}, value)))),
      );
    }

    // ---- the table -------------------------------------------------------------------------------

    rows() {
      if (!this.sorted) return this.points.toSorted((a, b) => a.order - b.order || (a.rung < b.rung ? -1 : 1));
      const [column, direction] = this.sorted;
      const value = TABLE[column][3] ?? TABLE[column][2];
      const empty = (one) => one === null || one === "";
      return this.points.toSorted((a, b) => {
        const [one, other] = [value(a), value(b)];
        if (empty(one) || empty(other)) return empty(one) - empty(other); // last, either way
        return direction * (one < other ? -1 : one > other ? 1 : 0);
      });
    }

    showTable() {
      const rows = this.rows();
      const first = this.every ? rows : rows.slice(0, ROWS_AT_FIRST);
      const head = TABLE.map(([title, key, , value], column) => {
        const by = this.sorted?.[0] === column ? this.sorted[1] : 0;
        const turn = () => {
          this.sorted = [column, by ? -by : value ? -1 : 1];
          this.showTable();
          this.table.querySelectorAll("th button")[column].focus();
        };
        return element("th", { scope: "col", class: value && key !== "shape" ? "number" : "", "aria-sort": by ? (by > 0 ? "ascending" : "descending") : "none" },
          element("button", { type: "button", onclick: turn }, title, by ? (by > 0 ? " ▲" : " ▼") : ""));
      });
      const body = first.map((p) => element("tr", { "data-id": p.id, "aria-selected": String(p.id === this.picked), onclick: () => this.pick(p.id) },
        ...TABLE.map(([, key, say, value]) => element("td", value && key !== "shape" ? { class: "number" } : {}, say(p)))));
      this.table.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
      if (first.length < rows.length) {
        const all = () => ((this.every = true), this.showTable());
        this.table.append(element("button", { type: "button", onclick: all }, `Show all ${rows.length.toLocaleString("en")} rows`));
      }
    }

    showActions() {
      this.actions.replaceChildren(
        element("span", {}, `${plural(this.points.length, "point")} in the selection.`),
        element("button", { type: "button", onclick: () => this.download(), disabled: !this.points.length }, "Download them as CSV"),
        element("button", { type: "button", onclick: () => this.choose({ ...OPENS_WITH, gpu: this.chosen.gpu }) }, "Start again"),
      );
    }

    /** All columns as they are recorded: µs, TFLOP/s, percent, MHz, W. */
    download() {
      const quoted = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
      const names = Object.keys(this.data.columns);
      const lines = [names, ...this.rows().map((p) => names.map((name) => p[name] ?? ""))].map((row) => row.map(quoted).join(","));
      const address = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
      element("a", { href: address, download: "gemmlab-speeds.csv" }).click();
      setTimeout(() => URL.revokeObjectURL(address));
    }
  }

  /** A point's facts, those that there are, as the content of a tooltip. */
  function told(facts, sanitize) {
    const rows = Object.entries(facts).filter(([, value]) => value !== "");
    return `<table>${rows.map(([name, value]) => `<tr><td class="key">${sanitize(name)}</td><td class="value">${sanitize(value)}</td></tr>`).join("")}</table>`;
  }

  /** Sizes to mark along an axis: those that are there, or the powers of two among them. */
  function ticks(values) {
    const there = [...new Set(values.map((one) => one.x))].sort((a, b) => a - b);
    const round = there.filter((one) => Number.isInteger(Math.log2(one)));
    return round.length > 3 ? round : there;
  }

  /** The words in lines of at most about so many letters. */
  function wrapped(words, letters) {
    const lines = [];
    for (const word of words.split(" ")) {
      if (lines.length && lines.at(-1).length + word.length < letters) lines.push(`${lines.pop()} ${word}`);
      else lines.push(word);
    }
    return lines.join("\n");
  }

  /** Powers of ten between two values, with 2 and 5 times them where that makes few. */
  function decades(low, high) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    const factors = high / low < 300 ? [1, 2, 5] : [1];
    const every = Array.from({ length: to - from + 1 }, (_, at) => factors.map((one) => Number((one * 10 ** (from + at)).toPrecision(1))));
    return every.flat().filter((one) => one >= low && one <= high);
  }

  function ends(values, field) {
    const every = values.map((one) => one[field]);
    return [Math.min(...every), Math.max(...every)];
  }

  function categories(points, x, key, data) {
    const there = new Set(points.map(x.of));
    if (key === "rung") return data.rungs.map((one) => one.name).filter((one) => there.has(one));
    if (key === "type") return data.types.filter((one) => there.has(one));
    const ordered = key === "shape" ? points.toSorted((a, b) => a.order - b.order) : points.toSorted((a, b) => a.id - b.id);
    return [...new Set(ordered.map(x.of))];
  }

  /** A rung's colour and marker, as in the chart. */
  function swatch(rung) {
    const paths = {
      circle: "M0,-1A1,1 0 1 1 0,1A1,1 0 1 1 0,-1Z", square: "M-1,-1H1V1H-1Z", "triangle-up": "M0,-1L1,0.9H-1Z", "triangle-down": "M0,1L1,-0.9H-1Z",
      diamond: "M0,-1.1L0.8,0L0,1.1L-0.8,0Z", cross: "M-0.35,-1H0.35V-0.35H1V0.35H0.35V1H-0.35V0.35H-1V-0.35H-0.35Z",
    };
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "-1.5 -1.5 3 3");
    svg.setAttribute("class", "speeds-swatch");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", paths[rung.symbol] ?? rung.symbol);
    path.setAttribute("fill", rung.colour);
    svg.append(path);
    return svg;
  }

  const root = document.getElementById("speeds");
  load(DATA).then(
    () => new Page(root, Object.assign(gemmlabSpeeds, { points: pointsOf(gemmlabSpeeds) })),
    (error) => root.append(element("p", { role: "status" }, `The recorded speeds are not here: ${error.message}.`)),
  );
})();
