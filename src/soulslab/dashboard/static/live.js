// The live page: receives decisions over a websocket, keeps the last ones, and draws the one at the play head.
"use strict";

(() => {
  const KEPT = 1200; // decisions that can be scrolled back to: two long fights
  const DECISION_MS = 100;
  const STRONGEST = 140; // lines of the network that are drawn

  const $ = (id) => document.getElementById(id);
  const state = {
    info: null, moments: [], head: -1, isPaused: false, isLive: true, speed: 1, dueMs: 0,
    endings: new Map(), isConnected: false, drawn: null, hovered: null, ranges: [], inView: new Set(),
    colours: null, coloursMs: -Infinity, // the theme may change; reading it makes the browser compute styles
  };
  window.soulslabLive = state; // for tests

  function colours() {
    const style = getComputedStyle(document.body);
    const get = (name) => style.getPropertyValue(name).trim();
    return { ink: get("--ink"), faint: get("--faint"), line: get("--line"), surface: get("--surface"),
      blue: get("--blue"), orange: get("--orange"), green: get("--green"), track: get("--track"),
      purple: get("--purple"), brown: get("--brown"), violet: get("--violet") };
  }

  // --- receiving ---------------------------------------------------------------------------------------------

  function connect() {
    const box = document.querySelector("[data-socket]");
    if (!box) return;
    state.isRecorded = box.dataset.recorded === "true";
    if (state.isRecorded) { state.isLive = false; $("live").hidden = true; }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${box.dataset.socket}`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => socket.send("n");
    socket.onmessage = async (event) => {
      const length = new DataView(event.data).getUint32(0);
      const message = JSON.parse(new TextDecoder().decode(new Uint8Array(event.data, 4, length)));
      message.jpeg = event.data.byteLength > 4 + length ? new Blob([new Uint8Array(event.data, 4 + length)], { type: "image/jpeg" }) : null;
      receive(message);
      if (socket.readyState === WebSocket.OPEN) socket.send("n");
    };
    socket.onclose = () => {
      if (!state.isRecorded) { setLive(false); setTimeout(connect, 1000); }
    };
  }

  function receive(message) {
    if (message.type === "status") setLive(message.is_live);
    else if (message.type === "info") { state.info = message; state.moments = []; state.endings.clear(); state.head = -1; state.layout = null; state.ranges = []; buildActions(); }
    else if (message.type === "failure") { $("notice").hidden = false; $("notice").textContent = message.text; }
    else if (message.type === "ending") { state.endings.set(message.fight, message.is_won); requestDraw(); }
    else if (message.type === "moment") {
      const last = state.moments[state.moments.length - 1];
      if (last && last.fight === message.fight && last.decision === message.decision) return; // sent again after a reload
      message.return = message.decision && last && last.fight === message.fight ? last.return + message.reward : message.reward;
      message.receivedMs = Date.now();
      count(message);
      state.moments.push(message);
      if (state.moments.length > KEPT && !state.isRecorded) { state.moments.shift(); state.head = Math.max(state.head - 1, 0); }
      if (state.isLive || state.head < 0) state.head = state.isLive ? state.moments.length - 1 : 0;
      $("notice").hidden = true;
      requestDraw();
    }
  }

  function setLive(isLive) {
    state.isConnected = isLive;
    const badge = $("live-state");
    if (badge) { badge.textContent = isLive ? "live" : "not live"; badge.className = `state ${isLive ? "running" : "stale"}`; }
    if (!state.moments.length) {
      $("notice").hidden = false;
      $("notice").textContent = isLive ? "Waiting for the next decision …"
        : document.querySelector("[data-idle]").dataset.idle;
    }
  }

  // --- playback ----------------------------------------------------------------------------------------------

  function move(n) {
    state.isLive = false;
    setPaused(true);
    state.head = Math.min(Math.max(state.head + n, 0), state.moments.length - 1);
    requestDraw();
  }

  function setPaused(isPaused) {
    state.isPaused = isPaused;
    if (isPaused) { state.isLive = false; requestDraw(); }
    $("play").firstElementChild.className = `icon ${isPaused ? "play" : "pause"}`;
    $("play").setAttribute("aria-label", isPaused ? "Play" : "Pause");
  }

  function goLive() {
    setPaused(false);
    state.isLive = true;
    state.speed = 1;
    $("speed").value = "1";
    state.head = state.moments.length - 1;
    requestDraw();
  }

  function advance(nowMs) {
    if (state.isPaused || state.isLive || nowMs < state.dueMs) return;
    state.dueMs = nowMs + DECISION_MS / state.speed;
    if (state.head < state.moments.length - 1) { state.head += 1; requestDraw(); }
    else if (state.isRecorded) setPaused(state.endings.size > 0);
    else if (state.speed >= 1) { state.isLive = true; requestDraw(); }
  }

  // --- drawing -----------------------------------------------------------------------------------------------

  let isRequested = false;
  async function requestDraw() {
    if (isRequested) return;
    isRequested = true;
    try { // The picture is decoded before the frame, so that the browser composes one frame per decision.
      const moment = state.moments[state.head];
      const picture = moment?.jpeg && moment !== state.drawn ? await createImageBitmap(moment.jpeg) : null;
      requestAnimationFrame(() => {
        isRequested = false;
        draw(moment, picture);
        if (moment !== state.moments[state.head]) requestDraw();
      });
    } catch (error) { isRequested = false; throw error; }
  }

  function draw(moment, picture) {
    update($("position"), { max: String(Math.max(state.moments.length - 1, 0)), value: String(state.head) });
    $("live").classList.toggle("on", state.isLive);
    $("live").setAttribute("aria-pressed", state.isLive);
    if (!moment || !state.info) return;
    document.querySelector(".live").classList.add("begun"); // before, there is nothing to show in the other panels
    if (performance.now() - state.coloursMs > 1000) { state.colours = colours(); state.coloursMs = performance.now(); }
    if (picture) drawPicture(picture);
    drawVitals(moment);
    drawFacts(moment);
    drawActions(moment);
    drawReasons(moment);
    update($("network-title"), { textContent: moment.hidden.length ? "Policy network" : "Inputs and action" });
    if (isSeen("network")) drawNetwork(moment);
    drawHistory(moment);
    drawQuantiles(moment);
    state.drawn = moment;
    document.body.dataset.decision = `${moment.fight}:${moment.decision}`;
  }

  // A canvas outside of the window is drawn once, for its height, and when it is scrolled into view or the fight is paused.
  const isSeen = (id) => state.isPaused || state.inView.has(id) || !$(id).style.height;

  function drawPicture(picture) {
    const canvas = $("picture");
    update(canvas, { width: picture.width, height: picture.height });
    canvas.getContext("2d").drawImage(picture, 0, 0);
    picture.close();
  }

  const text = (parent, tag, content, className) => {
    const element = document.createElement(tag);
    element.textContent = content;
    if (className) element.className = className;
    parent.append(element);
    return element;
  };

  // Sets properties that differ: an assignment makes the browser lay out the page again, even with an equal value.
  function update(element, values) {
    for (const [name, value] of Object.entries(values)) if (element[name] !== value) element[name] = value;
  }

  const setWidth = (bar, share) => update(bar.firstChild.style, { width: `${Number((100 * share).toFixed(1))}%` });

  function drawVitals(moment) {
    const v = moment.vitals, box = $("vitals");
    if (v.boss_hp === undefined) { box.replaceChildren(); return; }
    const rows = [["Boss", v.boss_hp, v.boss_max_hp, "boss"], ["Player", v.player_hp, v.player_max_hp, "hp"],
      ["Stamina", v.player_sp, v.player_max_sp, "sp"]];
    if (box.childElementCount !== rows.length) {
      box.replaceChildren();
      for (const [name, , , kind] of rows) {
        const row = text(box, "div", "", `vital ${kind}`);
        text(row, "span", name);
        row.append(Object.assign(document.createElement("meter"), { min: 0 }));
        text(row, "output", "");
      }
    }
    rows.forEach(([name, value, max], i) => {
      const [, meter, output] = box.children[i].children;
      update(meter, { max, value: Math.max(value, 0), ariaLabel: name });
      update(output, { textContent: `${Math.max(0, Math.round(value))} / ${Math.round(max)}` });
    });
  }

  function drawFacts(moment) {
    const v = moment.vitals, facts = [];
    if (v.boss_hp !== undefined) {
      const timed = (name, seconds) => seconds === undefined ? name : `${name}, ${seconds.toFixed(1)} s`;
      facts.push(["Boss", timed(v.boss_animation, v.boss_s)], ["Player", timed(v.player_animation, v.player_s)]);
      if (v.distance_m !== undefined) facts.push(["Distance", `${v.distance_m.toFixed(1)} m`], ["Phase", v.phase]);
    }
    const ending = state.endings.get(moment.fight);
    const result = ending === undefined ? "" : ending === null ? ", over" : ending ? ", won" : ", lost";
    facts.push(["Chosen", state.info.actions[moment.action] ?? moment.action], ["Step", `${moment.decision} of fight ${moment.fight}${result}`],
      ["Reward", signed(moment.reward)], ["Return so far", signed(moment.return)]);
    if (moment.late_ms > 0) facts.push(["Late", `${moment.late_ms.toFixed(0)} ms`]);
    const box = $("facts");
    if (box.childElementCount !== facts.length) {
      box.replaceChildren(...facts.map(() => {
        const row = document.createElement("div");
        text(row, "dt", ""); text(row, "dd", "");
        return row;
      }));
    }
    facts.forEach(([name, value], i) => {
      const [dt, dd] = box.children[i].children;
      update(dt, { textContent: name });
      update(dd, { textContent: String(value) });
    });
  }

  const signed = (value) => value === null ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;

  function buildActions() {
    const list = $("actions");
    list.replaceChildren();
    for (const name of state.info.actions) {
      const row = text(list, "li", "");
      text(row, "span", name, "name");
      text(row, "span", "", "bar").append(document.createElement("i"));
      text(row, "output", "");
    }
  }

  function drawActions(moment) {
    const isProbability = moment.kind === "probability";
    update($("scores-title"), { textContent: isProbability ? "Action probabilities" : moment.kind ? "Action values" : "Actions" });
    const open = moment.scores.filter((_, i) => moment.mask[i]);
    const low = isProbability ? 0 : Math.min(...open), high = isProbability ? 1 : Math.max(...open);
    [...$("actions").children].forEach((row, i) => {
      const isOpen = Boolean(moment.mask[i]), score = moment.scores[i];
      const share = isOpen && score !== undefined ? (isProbability ? score : 0.04 + 0.96 * (high > low ? (score - low) / (high - low) : 1)) : 0;
      const [, bar, output] = row.children;
      update(row, {
        className: `${isOpen ? "" : "masked"} ${i === moment.action ? "chosen" : ""}`,
        title: isOpen ? (i === moment.action ? "chosen" : "") : "not allowed now",
      });
      setWidth(bar, share);
      update(output, { textContent: score === undefined ? "" : isProbability ? `${(100 * score).toFixed(1)} %` : score.toFixed(3) });
    });
  }

  function drawReasons(moment) {
    $("reason-panel").hidden = !moment.attribution.length;
    // The probability of the only allowed action is 1, so that no input changes it.
    const isForced = moment.kind === "probability" && moment.mask.filter(Boolean).length === 1;
    update($("reason-note"), { textContent: isForced ? "Only one action is allowed now, so no input matters."
      : "Gradient times input: how much each input raised or lowered the score of the chosen action." });
    const order = isForced ? [] : moment.attribution.map((value, i) => [Math.abs(value), i]).sort((a, b) => b[0] - a[0]).slice(0, 8);
    const largest = order.length ? order[0][0] : 1;
    const list = $("reasons");
    while (list.childElementCount < order.length) {
      const row = text(list, "li", "");
      text(row, "span", "", "name"); text(row, "span", "", "bar").append(document.createElement("i")); text(row, "output", "");
    }
    while (list.childElementCount > order.length) list.lastChild.remove();
    order.forEach(([size, i], place) => {
      const row = list.children[place], value = moment.attribution[i];
      const [label, bar, output] = row.children;
      update(row, { className: value < 0 ? "lowers" : "raises" });
      update(label, { textContent: featureName(i) });
      setWidth(bar, size / Math.max(largest, 1e-9));
      update(output, { textContent: signed(value) });
    });
  }

  const featureName = (i) => (state.info.features[i] ?? `input ${i}`).replaceAll("_", " ").replace("=", ": ");

  // Prepares a canvas in device pixels; returns its context, and its size in CSS pixels.
  function prepare(id, height) {
    const canvas = $(id), ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    return [context, width, height];
  }

  function inputLayout(width) {
    const groups = state.info.groups.length ? state.info.groups : [["inputs", 0, state.moments[0].features.length]];
    if (state.layout && state.layout.width === width) return state.layout;
    const cell = 11, cells = [], labels = [];
    let y = 14;
    const columns = Math.max(Math.floor(width / cell), 1);
    for (const [name, from, to] of groups) {
      labels.push([name, y - 3]);
      for (let i = from; i < to; i++) cells.push([i, ((i - from) % columns) * cell, y + Math.floor((i - from) / columns) * cell]);
      y += Math.ceil((to - from) / columns) * cell + 17;
    }
    const n = state.moments[0].features.length, known = groups.length ? groups[groups.length - 1][2] : 0;
    if (n > known) { // extra inputs: the previous actions and the time left
      labels.push(["extra inputs", y - 3]);
      for (let i = known; i < n; i++) cells.push([i, ((i - known) % columns) * cell, y + Math.floor((i - known) / columns) * cell]);
      y += Math.ceil((n - known) / columns) * cell + 17;
    }
    state.layout = { width, cells, labels, height: y, cell };
    return state.layout;
  }

  // Mean and variance of each input over the received moments (Welford), so that a colour means unusually low or high.
  function count(moment) {
    moment.features.forEach((value, i) => {
      const range = state.ranges[i] ??= { n: 0, mean: 0, m2: 0 }, delta = value - range.mean;
      range.n += 1;
      range.mean += delta / range.n;
      range.m2 += delta * (value - range.mean);
    });
  }

  function normalised(moment, i) {
    const range = state.ranges[i], deviation = Math.sqrt(range.m2 / Math.max(range.n - 1, 1));
    return deviation > 1e-6 ? Math.max(-1, Math.min(1, (moment.features[i] - range.mean) / (2.5 * deviation))) : 0;
  }

  function drawNetwork(moment) {
    const c = state.colours;
    const width = $("network").parentElement.clientWidth, isNarrow = width < 560;
    const inputWidth = isNarrow ? width * 0.36 : Math.min(width * 0.4, 330);
    const layout = inputLayout(Math.floor(inputWidth));
    const height = Math.max(layout.height, 240);
    const [g] = prepare("network", height);
    const spots = layerSpots(moment, inputWidth + (isNarrow ? 14 : 40), width - (isNarrow ? 74 : 140), height);
    const actionX = width - (isNarrow ? 62 : 120);
    drawLinks(g, c, moment, layout, spots, actionX, height);
    g.fillStyle = c.faint;
    for (const [name, y] of layout.labels) g.fillText(name, 0, y, inputWidth);
    for (const [i, x, y] of layout.cells) {
      const value = normalised(moment, i);
      g.fillStyle = c.track;
      g.fillRect(x, y, layout.cell - 2, layout.cell - 2);
      g.globalAlpha = Math.min(1, Math.abs(value));
      g.fillStyle = value < 0 ? c.blue : c.orange;
      g.fillRect(x, y, layout.cell - 2, layout.cell - 2);
      g.globalAlpha = 1;
      if (state.hovered === i) { g.strokeStyle = c.ink; g.strokeRect(x - 0.5, y - 0.5, layout.cell - 1, layout.cell - 1); }
    }
    spots.forEach((layer, k) => {
      g.fillStyle = c.faint;
      g.fillText(isNarrow ? `${k + 1}` : `layer ${k + 1}`, layer[0] ? layer[0][0] - 4 : 0, 11);
      layer.forEach(([x, y], i) => {
        g.fillStyle = c.track;
        g.beginPath(); g.arc(x, y, 3.4, 0, 7); g.fill();
        g.globalAlpha = moment.hidden[k][i] / 255;
        g.fillStyle = c.green;
        g.beginPath(); g.arc(x, y, 3.4, 0, 7); g.fill();
        g.globalAlpha = 1;
      });
    });
    const step = (height - 16) / state.info.actions.length;
    state.info.actions.forEach((name, i) => {
      const y = 16 + (i + 0.5) * step, isChosen = i === moment.action;
      g.fillStyle = moment.mask[i] ? (isChosen ? c.orange : c.ink) : c.faint;
      g.font = `${isChosen ? "bold " : ""}${isNarrow ? 9 : 11}px system-ui, sans-serif`;
      g.fillText(name, actionX + 6, y + 3, width - actionX - 6);
      g.beginPath(); g.arc(actionX, y, isChosen ? 4 : 2.4, 0, 7); g.fill();
      if (!moment.mask[i]) { g.strokeStyle = c.faint; g.beginPath(); g.moveTo(actionX + 6, y); g.lineTo(Math.min(actionX + 6 + g.measureText(name).width, width), y); g.stroke(); }
    });
  }

  function layerSpots(moment, from, to, height) {
    const n = moment.hidden.length;
    return moment.hidden.map((layer, k) => {
      const rows = Math.max(Math.floor((height - 24) / 10), 1), columns = Math.ceil(layer.length / rows);
      const middle = from + (to - from) * (n === 1 ? 0.5 : k / (n - 1));
      const left = Math.min(Math.max(middle - (columns - 1) * 5, from), to - (columns - 1) * 10);
      const used = Math.ceil(layer.length / columns), top = 22 + (height - 24 - used * 10) / 2;
      return layer.map((_, i) => [left + (i % columns) * 10, top + Math.floor(i / columns) * 10]);
    });
  }

  // Lines between the most important inputs, the most active units, and the chosen action.
  function drawLinks(g, c, moment, layout, spots, actionX, height) {
    if (!spots.length) return;
    const important = moment.attribution.map((value, i) => [Math.abs(value), i]).sort((a, b) => b[0] - a[0]).slice(0, 6);
    const active = moment.hidden.map((layer) => layer.map((value, i) => [value, i]).sort((a, b) => b[0] - a[0]).slice(0, 8));
    const places = new Map(layout.cells.map(([i, x, y]) => [i, [x + layout.cell / 2, y + layout.cell / 2]]));
    const step = (height - 16) / state.info.actions.length, target = [actionX, 16 + (moment.action + 0.5) * step];
    const columns = [important.map(([s, i]) => [s / Math.max(important[0]?.[0] ?? 1, 1e-9), places.get(i)]),
      ...active.map((layer, k) => layer.map(([v, i]) => [v / 255, spots[k][i]])), [[1, target]]];
    let n = 0;
    for (let k = 0; k + 1 < columns.length; k++) {
      for (const [a, from] of columns[k]) for (const [b, to] of columns[k + 1]) {
        if (!from || !to || a * b < 0.05 || n++ > STRONGEST) continue;
        g.strokeStyle = c.green; g.globalAlpha = 0.5 * a * b; g.lineWidth = 1;
        g.beginPath(); g.moveTo(...from);
        g.bezierCurveTo((from[0] + to[0]) / 2, from[1], (from[0] + to[0]) / 2, to[1], ...to);
        g.stroke();
      }
    }
    g.globalAlpha = 1;
  }

  // The value, the health and the timeline of the fight.
  function drawHistory(moment) {
    const hasValue = moment.value !== null, hasHealth = moment.vitals.boss_hp !== undefined;
    $("value-panel").hidden = !hasValue;
    $("health-box").hidden = !hasHealth;
    if (!["value", "health", "timeline"].some(isSeen)) return;
    const c = state.colours, ofFight = state.moments.filter((each) => each.fight === moment.fight);
    if (hasValue && isSeen("value")) drawLines("value", moment, ofFight, [[(each) => each.value, c.blue, ""]]);
    if (hasHealth && isSeen("health")) drawLines("health", moment, ofFight, [
      [(each) => 100 * Math.max(each.vitals.boss_hp, 0) / each.vitals.boss_max_hp, c.orange, "boss (%)"],
      [(each) => 100 * Math.max(each.vitals.player_hp, 0) / each.vitals.player_max_hp, c.blue, "player (%)"]]);
    if (isSeen("timeline")) drawTimeline(moment, ofFight);
  }

  // Rows of the timeline: a name, and what a decision shows in it.
  const ROWS = [["boss", (each) => each.vitals.boss_animation], ["player", (each) => each.vitals.player_animation],
    ["action", (each) => state.info.actions[each.action] ?? String(each.action)]];
  const ROW_HEIGHT = 24, STAGES = { "wind-up": 0.4, active: 0.8, recovery: 0.2 };

  const isQuiet = (name) => /^(idle|move|walk|turn|run|none|nothing|unknown)/i.test(name);

  // Boxes of equal names in a row; the name of an attack may end with its stage.
  function segments(shown, read) {
    const found = [];
    shown.forEach((each) => {
      const name = read(each), last = found[found.length - 1];
      if (last && last.name === name && each.decision === last.to + 1) last.to = each.decision;
      else found.push({ name, from: each.decision, to: each.decision });
    });
    return found;
  }

  function drawTimeline(moment, shown) {
    const rows = ROWS.filter(([, read]) => read(moment) !== undefined);
    const c = state.colours, [g, width] = prepare("timeline", ROW_HEIGHT * rows.length + 4);
    const palette = [c.blue, c.orange, c.green, c.purple, c.brown, c.violet];
    const [x, first, last] = timeAxis(shown, width);
    state.timeline = { shown, first, last, width, rows };
    const right = x(last + 1);
    rows.forEach(([title, read], k) => {
      const y = k * ROW_HEIGHT + 2, numbers = new Map();
      g.fillStyle = c.faint;
      g.fillText(title, 0, y + 14);
      for (const { name, from, to } of segments(shown, read)) {
        const [base, stage] = name.split(", ");
        const begin = x(from), end = Math.min(Math.max(x(to + 1), begin + 1), right), isLoud = !isQuiet(base);
        if (isLoud && !numbers.has(base)) numbers.set(base, numbers.size);
        g.fillStyle = isLoud ? palette[numbers.get(base) % palette.length] : c.track;
        g.globalAlpha = isLoud ? STAGES[stage] ?? 0.5 : 1;
        g.fillRect(begin, y, Math.max(end - begin - 0.5, 0.5), ROW_HEIGHT - 5);
        g.globalAlpha = 1;
        if (end - begin > g.measureText(base).width + 6) {
          g.fillStyle = isLoud ? c.ink : c.faint;
          g.fillText(base, begin + 3, y + 13);
        }
      }
    });
    g.strokeStyle = c.ink; g.lineWidth = 1.5;
    const at = x(moment.decision + 0.5);
    g.beginPath(); g.moveTo(at, 0); g.lineTo(at, ROW_HEIGHT * rows.length); g.stroke();
  }

  // The decision of the timeline under the pointer.
  function momentAt(event) {
    if (!state.timeline) return null;
    const { shown, first, last, width } = state.timeline, [left, span] = axisBox(width);
    const decision = Math.floor(first + (event.offsetX - left) / span * Math.max(last - first, 1));
    return shown.find((each) => each.decision === decision) ?? null;
  }

  const axisBox = (width) => [38, width - 46];

  // Horizontal axis of the fight: a function from a decision to px, and the first and the last decision.
  function timeAxis(shown, width) {
    const last = Math.max(shown[shown.length - 1].decision, 20), first = shown[0].decision, [left, span] = axisBox(width);
    return [(decision) => left + span * (decision - first) / Math.max(last - first, 1), first, last];
  }

  function drawLines(id, moment, shown, lines) {
    const c = state.colours, [g, width, height] = prepare(id, 130);
    const values = lines.flatMap(([read]) => shown.map(read)), low = Math.min(0, ...values), high = Math.max(0, ...values), span = Math.max(high - low, 1e-6);
    const [x, , last] = timeAxis(shown, width), y = (value) => 8 + (height - 30) * (high - value) / span;
    g.strokeStyle = c.line; g.fillStyle = c.faint;
    const marks = [low, 0, high].filter((mark, i, all) => i === 1 || Math.abs(y(mark) - y(all[1])) > 14);
    for (const value of marks) {
      g.beginPath(); g.moveTo(38, y(value)); g.lineTo(width - 8, y(value)); g.stroke();
      g.fillText(value.toFixed(span < 5 ? 2 : 1), 0, y(value) + 4);
    }
    g.fillText("step", 38, height - 4); g.textAlign = "right"; g.fillText(String(last), width - 8, height - 4); g.textAlign = "left";
    lines.forEach(([read, colour, name], k) => {
      g.strokeStyle = g.fillStyle = colour; g.lineWidth = 1.8; g.beginPath();
      shown.forEach((each, i) => g[i ? "lineTo" : "moveTo"](x(each.decision), y(read(each))));
      g.stroke();
      g.beginPath(); g.arc(x(moment.decision), y(read(moment)), 4, 0, 7); g.fill();
      if (name) g.fillText(name, 80 + 80 * k, height - 4);
    });
  }

  function drawQuantiles(moment) {
    $("quantile-panel").hidden = !moment.quantiles.length;
    if (!moment.quantiles.length || !isSeen("quantiles")) return;
    const c = state.colours, [g, width, height] = prepare("quantiles", 34 * moment.quantiles.length + 22);
    const all = moment.quantiles.flatMap((each) => each.values), low = Math.min(...all), high = Math.max(...all);
    const x = (value) => 8 + (width - 16) * (value - low) / Math.max(high - low, 1e-6);
    moment.quantiles.forEach(({ action, values }, row) => {
      const y = 34 * row + 24, mean = values.reduce((a, b) => a + b) / values.length;
      g.fillStyle = row ? c.faint : c.ink;
      g.fillText(state.info.actions[action], 8, y - 8);
      g.fillStyle = row ? c.blue : c.orange;
      g.globalAlpha = 0.45;
      for (const value of values) g.fillRect(x(value) - 1, y - 3, 2, 10);
      g.globalAlpha = 1;
      g.beginPath(); g.arc(x(mean), y + 2, 4, 0, 7); g.fill();
    });
    g.fillStyle = c.faint;
    g.fillText(low.toFixed(2), 8, height - 3); g.textAlign = "right"; g.fillText(high.toFixed(2), width - 8, height - 3);
    g.textAlign = "center"; g.fillText("return: quantiles, and mean as a dot", width / 2, height - 3); g.textAlign = "left";
  }

  // --- controls ----------------------------------------------------------------------------------------------

  function start() {
    if (!$("network")) { setTimeout(start, 50); return; } // NiceGUI adds the elements after the page has loaded
    $("play").onclick = () => { const isAtEnd = state.head >= state.moments.length - 1;
      if (state.isPaused && isAtEnd && state.isRecorded) state.head = 0;
      if (state.isPaused && isAtEnd && !state.isRecorded) goLive(); else setPaused(!state.isPaused); };
    $("back").onclick = () => move(-1);
    $("forward").onclick = () => move(1);
    $("live").onclick = goLive;
    $("position").oninput = (event) => { setPaused(true); state.head = Number(event.target.value); requestDraw(); };
    $("speed").onchange = (event) => { state.speed = Number(event.target.value); state.isLive = false; setPaused(false); };
    document.addEventListener("keydown", (event) => {
      if (event.target.closest?.("input, select, button, a") && event.key === " ") return;
      if (event.target.closest?.("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
      const action = { " ": () => $("play").click(), ArrowLeft: () => move(-1), ArrowRight: () => move(1), l: goLive }[event.key];
      if (action) { event.preventDefault(); action(); }
    });
    $("network").onmousemove = (event) => {
      const moment = state.moments[state.head], layout = state.layout;
      if (!moment || !layout) return;
      const hit = layout.cells.find(([, x, y]) => event.offsetX >= x && event.offsetX < x + layout.cell && event.offsetY >= y && event.offsetY < y + layout.cell);
      state.hovered = hit ? hit[0] : null;
      $("hover").textContent = hit ? `${featureName(hit[0])} = ${moment.features[hit[0]]}` : "point at an input for its value";
      requestDraw();
    };
    $("timeline").onmousemove = (event) => {
      const moment = momentAt(event);
      $("at").textContent = moment ? `step ${moment.decision}: ${state.timeline.rows.map(([title, read]) => `${title} ${read(moment)}`).join(" · ")}`
        : "point at the timeline for names, click to go there";
    };
    $("timeline").onclick = (event) => {
      const moment = momentAt(event);
      if (moment) { setPaused(true); state.head = state.moments.indexOf(moment); requestDraw(); }
    };
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) state.inView[isIntersecting ? "add" : "delete"](target.id);
      requestDraw();
    });
    document.querySelectorAll(".live canvas").forEach((canvas) => observer.observe(canvas));
    new ResizeObserver(() => { state.layout = null; requestDraw(); }).observe($("network").parentElement);
    setInterval(() => advance(performance.now()), 20);
    connect();
  }

  start();
})();
