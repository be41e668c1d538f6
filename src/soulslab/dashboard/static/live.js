// The live page: receives decisions over a websocket, keeps the last ones, and draws the one at the play head.
"use strict";

(() => {
  const KEPT = 1200; // decisions that can be scrolled back to
  const DECISION_MS = 100;

  const $ = (id) => document.getElementById(id);
  const state = {
    info: null, moments: [], head: -1, isPaused: false, isLive: true, speed: 1, dueMs: 0,
    endings: new Map(), isConnected: false, problem: "", drawn: null, hovered: null, ranges: [], inView: new Set(),
    colours: null, coloursMs: -Infinity, // the theme may change; reading it makes the browser compute styles
  };
  window.soulslabLive = state; // for tests
  const diagrams = soulslabDiagrams(state);

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
    socket.onclose = ({ reason }) => {
      if (!state.isRecorded) { setLive(false); setTimeout(connect, 1000); }
      else if (!state.endings.size && !state.problem) fail(reason || "The connection has ended; load the page again.");
    };
  }

  // Shows why no further decision of a recorded fight arrives.
  function fail(problem) {
    state.problem = problem;
    showNotice(problem);
  }

  // Shows a text over the picture; "" shows the picture.
  function showNotice(content) {
    update($("notice"), { hidden: !content, textContent: content });
  }

  function receive(message) {
    if (message.type === "status") setLive(message.is_live);
    else if (message.type === "info") setInfo(message);
    else if (message.type === "failure") fail(message.text);
    else if (message.type === "ending") { state.endings.set(message.fight, message.is_won); requestDraw(); }
    else if (message.type === "moment") {
      const last = state.moments[state.moments.length - 1];
      if (last && last.fight === message.fight && last.decision === message.decision) return; // sent again after a reload
      message.receivedMs = Date.now();
      diagrams.count(message);
      state.moments.push(message);
      if (state.moments.length > KEPT && !state.isRecorded) { state.moments.shift(); state.head = Math.max(state.head - 1, 0); }
      if (state.isLive || state.head < 0) state.head = state.isLive ? state.moments.length - 1 : 0;
      requestDraw();
    }
  }

  function setInfo(message) {
    const isSameFeed = message.feed && message.feed === state.info?.feed; // the connection was interrupted
    if (!isSameFeed) { state.moments = []; state.endings.clear(); state.head = -1; state.layout = null; state.ranges = []; }
    state.info = message;
    buildActions();
    requestDraw();
  }

  function setLive(isLive) {
    state.isConnected = isLive;
    const badge = $("live-state");
    if (badge) { badge.textContent = isLive ? "live" : "not live"; badge.className = `state ${isLive ? "running" : "stale"}`; }
    if (!state.moments.length) {
      showNotice(isLive ? "Waiting for the next decision …" : document.querySelector("[data-idle]").dataset.idle);
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
    else if (state.isRecorded) setPaused(state.endings.size > 0 || Boolean(state.problem));
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
    else if (!moment.jpeg) $("picture").getContext("2d").clearRect(0, 0, $("picture").width, $("picture").height);
    showNotice(state.problem || (moment.jpeg ? "" : "This fight has no picture."));
    drawVitals(moment);
    drawFacts(moment);
    drawActions(moment);
    drawReasons(moment);
    update($("network-title"), { textContent: moment.hidden.length ? "Policy network" : "Inputs and action" });
    diagrams.drawNetwork(moment);
    diagrams.drawHistory(moment);
    diagrams.drawQuantiles(moment);
    state.drawn = moment;
    document.body.dataset.decision = `${moment.fight}:${moment.decision}`;
  }

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
      ["Reward", signed(moment.reward)], ["Return so far", signed(moment.total)]);
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
      const moment = diagrams.momentAt(event);
      $("at").textContent = moment ? `step ${moment.decision}: ${state.timeline.rows.map(([title, read]) => `${title} ${read(moment)}`).join(" · ")}`
        : "point at the timeline for names, click to go there";
    };
    $("timeline").onclick = (event) => {
      const moment = diagrams.momentAt(event);
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
