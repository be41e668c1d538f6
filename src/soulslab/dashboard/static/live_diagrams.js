// The diagrams of the live page: the network, the value, the health and the timeline of the fight, and the quantiles.
"use strict";

// Returns the functions that draw the diagrams of a state of the live page.
function soulslabDiagrams(state) {
  const STRONGEST = 140; // lines of the network that are drawn

  const $ = (id) => document.getElementById(id);

  // A canvas outside of the window is drawn once, for its height, and when it is scrolled into view or the fight is paused.
  const isSeen = (id) => state.isPaused || state.inView.has(id) || !$(id).style.height;

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
    if (!isSeen("network")) return;
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

  return { count, drawHistory, drawNetwork, drawQuantiles, momentAt };
}
