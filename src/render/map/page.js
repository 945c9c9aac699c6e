"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { areas, panels, texts, kinds } = data;
  const total = areas.cidr.length;
  const STAYS = 0, ADDED = 1, REMOVED = 2;
  const LISTED = 200, FOUND = 50, SHOWN = 40, SERIES = data.light.length;
  const byId = (id) => document.getElementById(id);
  const canvas = byId("map");
  const context = canvas.getContext("2d");
  const text = (number) => (number < 0 ? "" : texts[number]);
  const inEnglish = (number) => number.toLocaleString("en");
  const element = (name, content, className) => {
    const made = document.createElement(name);
    if (content !== undefined) made.textContent = content;
    if (className) made.className = className;
    return made;
  };

  // Rectangles of the areas, in units of the picture.
  const left = new Float64Array(total), top = new Float64Array(total);
  const width = new Float64Array(total), height = new Float64Array(total);
  panels.forEach((panel, index) => {
    panel.start = index === 0 ? 0 : panels[index - 1].end;
  });
  const placeAreas = (panel) => {
    for (let i = panel.start; i < panel.end; i += 1) {
      const depth = areas.depth[i];
      const first = panel.wide && depth > 0 ? 1 : 0;
      const xBits = first + Math.ceil((depth - first) / 2);
      width[i] = panel.width / 2 ** xBits;
      height[i] = panel.height / 2 ** (depth - xBits);
      left[i] = panel.x + width[i] * areas.x[i];
      top[i] = panel.y + height[i] * areas.y[i];
    }
  };

  const kindOf = (name) => kinds.indexOf(name);
  const NODE = kindOf("node block"), SERVICE = kindOf("Service address");
  const MACHINE = kindOf("machine address");
  const isRange = (i) => areas.kind[i] < data.ranges;
  const isWrong = (i) => areas.misplaced[i] >= 0 || areas.shared[i] >= 0;

  // Colours.
  const theme = matchMedia("(prefers-color-scheme: dark)");
  const numbered = (values) => {
    const numbers = new Map();
    for (const value of values) if (!numbers.has(value)) numbers.set(value, numbers.size);
    return numbers;
  };
  const nameAndUse = (i) => text(areas.owner[i]) + (areas.used[i] >= 0 ? `: ${text(areas.used[i])}` : "");
  const poolNumber = (i) => (areas.pool[i] >= 0 ? areas.pool[i] : areas.owner[i]);
  const indexes = Array.from({ length: total }, (_, i) => i);
  const pools = numbered(
    indexes.filter((i) => isRange(i) || areas.pool[i] >= 0).map(poolNumber),
  );
  const domains = numbered(
    [...new Set(areas.domain)].filter((domain) => domain >= 0).sort((a, b) => (texts[a] < texts[b] ? -1 : 1)),
  );
  let style, series, fills, patterns, plain;
  const readTheme = () => {
    const computed = getComputedStyle(document.documentElement);
    const variable = (name) => computed.getPropertyValue(name).trim();
    style = {};
    for (const name of ["ground", "panel", "line", "text", "quiet", "accent", "wrong", "hatch", "free", "card"]) {
      style[name] = variable(`--${name}`);
    }
    series = theme.matches ? data.dark : data.light;
    patterns = new Map();
    plain = new Map();
  };
  // Beyond the colours, the same colours with a pattern. Diagonal stripes have another meaning.
  const patterned = (colour, number) => {
    const tile = element("canvas"), brush = tile.getContext("2d");
    tile.width = tile.height = 6;
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 6, 6);
    brush.fillStyle = style.ground;
    brush.globalAlpha = 0.6;
    if (number % 4 === 2) brush.fillRect(1, 1, 3, 3);
    if (number % 4 === 0 || number % 4 === 3) brush.fillRect(0, 0, 2, 6);
    if (number % 4 === 1 || number % 4 === 3) brush.fillRect(0, 0, 6, 2);
    const pattern = context.createPattern(tile, "repeat");
    plain.set(pattern, colour);
    return pattern;
  };
  const inSeries = (number) => {
    const colour = series[number % SERIES];
    if (number < SERIES) return colour;
    if (!patterns.has(number)) patterns.set(number, patterned(colour, Math.floor(number / SERIES)));
    return patterns.get(number);
  };
  const colourOf = (i, mode) => {
    if (mode === "problem") {
      if (isWrong(i)) return style.wrong;
      return areas.presence[i] === STAYS ? style.line : style.accent;
    }
    if (mode === "use") return inSeries(areas.kind[i]);
    if (mode === "domain") {
      return areas.domain[i] >= 0 ? inSeries(domains.get(areas.domain[i])) : style.line;
    }
    const pool = pools.get(poolNumber(i));
    return pool === undefined ? style.quiet : inSeries(pool);
  };
  const repaint = () => {
    readTheme();
    const mode = byId("colour").value;
    fills = indexes.map((i) => colourOf(i, mode));
    legend(mode);
    schedule();
  };

  // The view: a scale, and the point of the picture at the upper left corner.
  const view = { scale: 1, x: 0, y: 0 };
  let ratio = 1, selected = -1, scheduled = false, tween = null;
  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      if (tween) step();
      draw();
    });
  };
  const fitted = (x, y, w, h, room) => {
    const scale = Math.min(canvas.clientWidth / w, canvas.clientHeight / h) * room;
    return { scale, x: x + w / 2 - canvas.clientWidth / scale / 2, y: y + h / 2 - canvas.clientHeight / scale / 2 };
  };

  // The place of the panels: rows of each family, with a title above each panel and lines below.
  const MARGIN = 16, GAP = 20, HEADING = 34, TITLE = 20, LINE = 16, MOST_LINES = 8, WIDEST = 300;
  const font = (px, weight = 400) => `${weight} ${px}px system-ui, 'DejaVu Sans', sans-serif`;
  const picture = { width: 0, height: 0, headings: [] };
  for (const panel of panels) {
    const own = indexes.slice(panel.start, panel.end);
    const ranges = new Map([...panel.around, ...own].filter(isRange).map((i) => [nameAndUse(i), i]));
    context.font = font(12);
    panel.column = Math.max(...[...ranges.keys()].map((line) => context.measureText(line).width)) + 24;
    panel.columns = Math.max(1, Math.floor(panel.width / panel.column));
    const most = MOST_LINES * panel.columns;
    panel.lines = [...ranges].slice(0, most);
    if (ranges.size > most) panel.lines[most - 1] = [`and ${inEnglish(ranges.size - most + 1)} more`, -1];
    panel.title = panel.within ? `${panel.cidr} of ${panel.within}` : panel.cidr;
    context.font = font(13, 600);
    const title = context.measureText(panel.title).width;
    panel.room = Math.max(panel.width, Math.min(WIDEST, Math.max(title, panel.column - 10)));
  }
  const placePanels = (room) => {
    Object.assign(picture, { width: 0, height: 0, headings: [] });
    let x = MARGIN, y = 0, bottom = 0, family = "";
    for (const panel of panels) {
      if (panel.family !== family) {
        family = panel.family;
        picture.headings.push([family, bottom]);
        [x, y] = [MARGIN, bottom + HEADING + TITLE];
      } else if (x + panel.room + MARGIN > room) {
        [x, y] = [MARGIN, bottom + TITLE];
      }
      Object.assign(panel, { x, y });
      x += panel.room + GAP;
      bottom = Math.max(bottom, y + panel.height + LINE * Math.ceil(panel.lines.length / panel.columns) + GAP);
      picture.width = Math.max(picture.width, x - GAP + MARGIN);
    }
    picture.height = bottom;
  };
  const all = () => fitted(0, 0, picture.width, picture.height, 1);
  // Smaller letters cannot be read: then the picture starts at its top, and goes on below.
  const SMALLEST = 0.85, LARGEST = 2;
  let arranged = 0;
  const arrange = () => {
    arranged = canvas.clientWidth;
    const least = Math.max(0, ...panels.map((panel) => panel.room)) + 2 * MARGIN;
    let best = { scale: 0, room: least };
    for (let room = least; room < least * 30; room *= 1.1) {
      placePanels(room);
      const { scale } = all();
      if (scale > best.scale) best = { scale, room };
    }
    const isWhole = best.scale >= SMALLEST;
    placePanels(isWhole ? best.room : Math.max(least, canvas.clientWidth / SMALLEST));
    panels.forEach(placeAreas);
    const scale = isWhole ? Math.min(best.scale, LARGEST) : Math.min(1, canvas.clientWidth / picture.width);
    Object.assign(view, { scale, x: Math.min(0, (picture.width - canvas.clientWidth / scale) / 2), y: 0 });
  };
  const limit = () => {
    const least = all().scale / 2;
    const most = 1e9;
    return [least, most];
  };
  const go = (target) => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      Object.assign(view, target);
    } else {
      tween = { from: { ...view }, to: target, start: performance.now() };
    }
    schedule();
  };
  const step = () => {
    const part = Math.min(1, (performance.now() - tween.start) / 220);
    const eased = part * (2 - part);
    const { from, to } = tween;
    view.scale = from.scale * (to.scale / from.scale) ** eased;
    // The same point of the picture moves in a straight line on the screen.
    const moved = to.scale === from.scale ? eased : (1 / from.scale - 1 / view.scale) / (1 / from.scale - 1 / to.scale);
    view.x = from.x + (to.x - from.x) * moved;
    view.y = from.y + (to.y - from.y) * moved;
    if (part === 1) {
      Object.assign(view, to);
      tween = null;
    } else {
      schedule();
    }
  };
  const zoom = (factor, atX, atY) => {
    tween = null;
    const [least, most] = limit();
    const scale = Math.max(least, Math.min(most, view.scale * factor));
    view.x += atX / view.scale - atX / scale;
    view.y += atY / view.scale - atY / scale;
    view.scale = scale;
    schedule();
  };
  const zoomCentre = (factor) => zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
  const pan = (dx, dy) => {
    tween = null;
    view.x += dx / view.scale;
    view.y += dy / view.scale;
    schedule();
  };

  // Drawing.
  const isShown = (i, state) => state === "both" || areas.presence[i] === STAYS
    || (areas.presence[i] === ADDED) === (state === "after");
  const clipped = (label, room) => {
    if (context.measureText(label).width <= room) return label;
    let kept = label.length;
    while (kept > 1 && context.measureText(`${label.slice(0, kept)}…`).width > room) kept -= 1;
    return kept > 1 ? `${label.slice(0, kept)}…` : "";
  };
  const hatch = (x, y, w, h, colour, gap) => {
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.beginPath();
    const from = Math.max(x - h, -h), to = Math.min(x + w, canvas.clientWidth + h);
    const start = x - h + Math.floor((from - (x - h)) / gap) * gap;
    for (let at = start; at < to; at += gap) {
      context.moveTo(at, y + h);
      context.lineTo(at + h, y);
    }
    context.stroke();
    context.restore();
  };
  const drawRange = (i, x, y, w, h) => {
    context.fillStyle = style.free;
    context.fillRect(x, y, w, h);
    context.strokeStyle = plain.get(fills[i]) ?? fills[i];
    context.lineWidth = 2;
    if (areas.presence[i] !== STAYS) context.setLineDash([5, 4]);
    context.strokeRect(x + 1, y + 1, Math.max(0, w - 2), Math.max(0, h - 2));
    context.setLineDash([]);
  };
  const drawUse = (i, x, y, w, h) => {
    if (Math.max(w, h) < 3) {
      context.fillStyle = fills[i];
      context.fillRect(x, y, w, h);
      return;
    }
    const kind = areas.kind[i];
    const isHeld = kind === NODE || kind === SERVICE || kind === MACHINE;
    const gap = Math.min(w, h) > 6 ? 1 : 0;
    context.fillStyle = fills[i];
    context.globalAlpha = isHeld ? 1 : 0.35;
    context.fillRect(x + gap / 2, y + gap / 2, Math.max(1, w - gap), Math.max(1, h - gap));
    context.globalAlpha = 1;
    if (Math.min(w, h) < 4) return;
    if (!isHeld) hatch(x, y, w, h, style.quiet, 6);
    if (areas.misplaced[i] >= 0) hatch(x, y, w, h, style.ground, 5);
    if (areas.presence[i] !== STAYS) {
      context.strokeStyle = style.text;
      context.lineWidth = 2;
      context.setLineDash(areas.presence[i] === ADDED ? [] : [4, 3]);
      context.strokeRect(x + 1.5, y + 1.5, w - 3, h - 3);
      context.setLineDash([]);
    }
    if (areas.shared[i] >= 0) {
      context.strokeStyle = style.wrong;
      context.lineWidth = 3;
      context.strokeRect(x + 2, y + 2, w - 4, h - 4);
    }
  };
  // Labels cover neither one another nor what lies on their area.
  let labels = [];
  const overlaps = ([ax, ay, aw, ah], [bx, by, bw, bh]) => ax < bx + bw && bx < ax + aw && ay < by + bh && by < ay + ah;
  const label = (wanted, rect, covering) => {
    const x = Math.max(rect[0], 0) + 3, y = Math.max(rect[1], 0) + 3;
    const right = Math.min(rect[0] + rect[2], canvas.clientWidth) - 3;
    const bottom = Math.min(rect[1] + rect[3], canvas.clientHeight) - 3;
    const shown = wanted.map((line) => clipped(line, right - x - 8)).filter((line) => line !== "");
    if (shown.length === 0) return false;
    const w = Math.max(...shown.map((line) => context.measureText(line).width)) + 8, h = 16 * shown.length + 2;
    if (x + w > right + 1 || y + h > bottom + 1) return false;
    const places = [[x, y], [right - w, y], [x, bottom - h], [right - w, bottom - h], [(x + right - w) / 2, (y + bottom - h) / 2]];
    const place = places
      .map((at) => [...at, w, h])
      .find((box) => !labels.some((other) => overlaps(box, other)) && !covering.some((other) => overlaps(box, other)));
    if (!place) return false;
    labels.push(place);
    context.globalAlpha = 0.9;
    context.fillStyle = style.card;
    context.fillRect(...place);
    context.globalAlpha = 1;
    context.fillStyle = style.text;
    shown.forEach((line, number) => context.fillText(line, place[0] + 4, place[1] + 13 + 16 * number));
    return true;
  };
  const labelAreas = (panel, rect, seen) => {
    context.font = font(12);
    const drawn = seen.map(([, ...box]) => box);
    for (let at = seen.length - 1; at >= 0; at -= 1) {
      const [i, x, y, w, h] = seen[at];
      if (w <= 44 || h <= 18 || (isRange(i) && areas.depth[i] === 0)) continue;
      // Areas on the same block have the same rectangle, and cover it alike.
      const covering = [];
      for (let other = at + 1; other < seen.length; other += 1) {
        const [, ox, oy, ow, oh] = seen[other];
        const isSame = ox === x && oy === y && ow === w && oh === h;
        if (!isSame && overlaps(drawn[at], drawn[other])) covering.push(drawn[other]);
      }
      const name = text(areas.owner[i]);
      const whole = isRange(i) ? [`${areas.cidr[i]}  ${nameAndUse(i)}`] : [name, areas.cidr[i]];
      const fits = whole.every((line) => context.measureText(line).width < w - 16);
      if (!fits || !label(whole, [x, y, w, h], covering)) label([name], [x, y, w, h], covering);
    }
    // The title, where the one above is out of sight.
    if (rect[1] < TITLE) label([panel.title], rect, drawn.filter((_, at) => !isRange(seen[at][0])));
  };
  const captions = (panel, x, y, h, scale) => {
    const small = Math.min(1, scale), room = panel.room * scale;
    if (small < 0.5) return;
    context.font = font(13 * small, 600);
    context.fillStyle = style.text;
    context.fillText(clipped(panel.title, room), x, y - 6 * small);
    context.font = font(12 * small);
    panel.lines.forEach(([line, i], number) => {
      const base = y + h + (12 + LINE * Math.floor(number / panel.columns)) * small + 2;
      const start = x + panel.column * (number % panel.columns) * small;
      if (i >= 0) {
        context.fillStyle = fills[i];
        context.fillRect(start, base - 9 * small, 9 * small, 9 * small);
      }
      context.fillStyle = style.text;
      context.fillText(clipped(line, room - 14 * small), start + 14 * small, base);
    });
  };
  const drawPanel = (panel, state) => {
    const { scale } = view;
    const x = (panel.x - view.x) * scale, y = (panel.y - view.y) * scale;
    const w = panel.width * scale, h = panel.height * scale;
    const below = y + h + LINE * (panel.lines.length + 1) * scale;
    if (x > canvas.clientWidth || y - TITLE * scale > canvas.clientHeight || x + panel.room * scale < 0 || below < 0) return;
    context.fillStyle = style.panel;
    context.fillRect(x, y, w, h);
    if (Math.min(w, h) > 24) hatch(x, y, w, h, style.hatch, 9);
    for (const i of panel.around) {
      if (isShown(i, state)) (isRange(i) ? drawRange : drawUse)(i, x, y, w, h);
    }
    const seen = [];
    for (let i = panel.start; i < panel.end; i += 1) {
      const least = isRange(i) ? 0 : 2;
      const ax = (left[i] - view.x) * scale, aw = Math.max(least, width[i] * scale);
      if (ax > canvas.clientWidth || ax + aw < 0) continue;
      const ay = (top[i] - view.y) * scale, ah = Math.max(least, height[i] * scale);
      if (ay > canvas.clientHeight || ay + ah < 0 || !isShown(i, state)) continue;
      (isRange(i) ? drawRange : drawUse)(i, ax, ay, aw, ah);
      seen.push([i, ax, ay, aw, ah]);
    }
    context.strokeStyle = style.line;
    context.lineWidth = 1;
    context.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    captions(panel, x, y, h, scale);
    labelAreas(panel, [x, y, w, h], seen);
  };
  // So many areas take longer than a frame: while the view moves, the last picture moves with it.
  const MANY = 20000, REST = 120;
  const snapshot = element("canvas");
  const pictured = { scale: 0, x: 0, y: 0 };
  let resting = 0;
  const drawMoving = () => {
    const grown = view.scale / pictured.scale;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = style.ground;
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.drawImage(
      snapshot,
      (pictured.x - view.x) * view.scale, (pictured.y - view.y) * view.scale,
      canvas.clientWidth * grown, canvas.clientHeight * grown,
    );
    clearTimeout(resting);
    resting = setTimeout(() => {
      pictured.scale = 0;
      schedule();
    }, REST);
  };
  const keepPicture = () => {
    snapshot.width = canvas.width;
    snapshot.height = canvas.height;
    snapshot.getContext("2d").drawImage(canvas, 0, 0);
    Object.assign(pictured, view);
  };
  const hasMoved = () => view.scale !== pictured.scale || view.x !== pictured.x || view.y !== pictured.y;
  const draw = () => {
    if (total > MANY && pictured.scale > 0 && hasMoved()) drawMoving();
    else drawAll();
  };
  const drawAll = () => {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = style.ground;
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    labels = [];
    for (const [family, y] of picture.headings) {
      context.font = font(15 * Math.min(1, view.scale), 600);
      context.fillStyle = style.quiet;
      context.fillText(family, (MARGIN - view.x) * view.scale, (y + 26 - view.y) * view.scale);
    }
    const state = byId("state").value;
    for (const panel of panels) drawPanel(panel, state);
    if (total > MANY) keepPicture();
    if (selected >= 0) {
      const x = (left[selected] - view.x) * view.scale, y = (top[selected] - view.y) * view.scale;
      context.strokeStyle = style.accent;
      context.lineWidth = 3;
      context.strokeRect(x - 2, y - 2, width[selected] * view.scale + 4, height[selected] * view.scale + 4);
    }
  };
  const resize = (factor) => {
    ratio = (window.devicePixelRatio || 1) * factor;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
  };

  // Addresses as numbers.
  const number4 = (address) => {
    const parts = address.split(".");
    if (parts.length !== 4 || !parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256)) return null;
    return parts.reduce((sum, part) => sum * 256n + BigInt(part), 0n);
  };
  const number6 = (address) => {
    const halves = address.toLowerCase().split("::");
    if (halves.length > 2 || !/^[0-9a-f:]+$/.test(address.toLowerCase())) return null;
    const groups = halves.map((half) => (half === "" ? [] : half.split(":")));
    const missing = 8 - groups.flat().length;
    if (halves.length === 1 ? missing !== 0 : missing < 0) return null;
    const whole = [...groups[0], ...Array(Math.max(0, missing)).fill("0"), ...(groups[1] || [])];
    if (!whole.every((group) => /^[0-9a-f]{1,4}$/.test(group))) return null;
    return whole.reduce((sum, group) => sum * 65536n + BigInt(`0x${group}`), 0n);
  };
  const parse = (query) => {
    const [address, length, more] = query.split("/");
    const is6 = address.includes(":");
    const bits = is6 ? 128 : 32;
    const first = is6 ? number6(address) : number4(address);
    const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : -1;
    if (first === null || more !== undefined || prefix < 0 || prefix > bits) return null;
    const size = 1n << BigInt(bits - prefix);
    return { is6, first: first - (first % size), last: first - (first % size) + size - 1n };
  };
  let parsed = null;
  const bounds = () => {
    if (parsed === null) parsed = areas.cidr.map(parse);
    return parsed;
  };
  const atAddress = (range) => {
    const found = [];
    bounds().forEach((area, i) => {
      if (area.is6 === range.is6 && area.first <= range.last && range.first <= area.last) found.push(i);
    });
    // Around all of it before inside of it, the innermost first, and what is drawn last.
    const isAround = (i) => Number(parsed[i].first <= range.first && range.last <= parsed[i].last);
    const size = (i) => parsed[i].last - parsed[i].first;
    const compare = (a, b) => (a < b ? -1 : Number(a > b));
    return found.sort((a, b) => isAround(b) - isAround(a) || compare(size(a), size(b)) || b - a);
  };
  const named = (query) => {
    const wanted = query.toLowerCase();
    const owners = new Set();
    texts.forEach((one, number) => {
      if (one.toLowerCase().includes(wanted)) owners.add(number);
    });
    const found = indexes.filter((i) => owners.has(areas.owner[i]));
    const rank = (i) => (text(areas.owner[i]).toLowerCase() === wanted ? 0 : 1);
    return found.sort((a, b) => rank(a) - rank(b) || Number(isRange(a)) - Number(isRange(b)));
  };
  const find = (query) => {
    if (query === "") return [];
    const range = parse(query);
    return range ? atAddress(range) : named(query);
  };

  // The side.
  const describe = (i) => `${areas.cidr[i]} ${text(areas.owner[i])}`;
  const rowsOf = (items, most, remark) => {
    const rows = element("ul");
    for (const i of items.slice(0, most)) {
      const row = element("li"), button = element("button", describe(i));
      button.type = "button";
      if (remark) button.append(" ", element("small", remark(i)));
      button.addEventListener("click", () => select(i, true));
      row.append(button);
      rows.append(row);
    }
    if (items.length > most) rows.append(element("li", `and ${inEnglish(items.length - most)} more`));
    return rows;
  };
  // One entry for each cause, with its areas behind it.
  const byCause = (place, items) => {
    const causes = new Map();
    for (const i of items) {
      const cause = remark(i);
      if (!causes.has(cause)) causes.set(cause, []);
      causes.get(cause).push(i);
    }
    place.replaceChildren();
    if (items.length > 0) place.append(element("h2", `Wrong or changing (${inEnglish(items.length)})`));
    for (const [cause, members] of causes) {
      const group = element("details");
      group.open = causes.size === 1 || members.length <= 5;
      group.append(element("summary", `${cause} (${inEnglish(members.length)})`), rowsOf(members, LISTED));
      place.append(group);
    }
  };
  const PRESENCE = ["", "added by the plan", "removed by the plan"];
  const remark = (i) => {
    if (areas.shared[i] >= 0) return "held by two nodes";
    if (areas.misplaced[i] >= 0) return `misplaced: ${text(areas.misplaced[i])}`;
    return PRESENCE[areas.presence[i]] || kinds[areas.kind[i]];
  };
  const details = (i) => {
    const place = byId("details");
    place.replaceChildren();
    if (i < 0) return;
    place.append(element("h2", areas.cidr[i]));
    const rows = element("dl");
    const row = (name, value, className) => {
      if (value) rows.append(element("dt", name), element("dd", value, className));
    };
    row("Use", kinds[areas.kind[i]]);
    row(areas.kind[i] >= NODE && areas.kind[i] !== SERVICE ? "Node" : "Object", nameAndUse(i));
    row("Pool", text(areas.pool[i]));
    row(data.domain_label, text(areas.domain[i]));
    row("Plan", PRESENCE[areas.presence[i]]);
    row("Misplaced", text(areas.misplaced[i]), "wrong");
    row("Also held by", text(areas.shared[i]), "wrong");
    row("More", text(areas.notes[i]));
    const inside = bounds()[i];
    const around = indexes.filter((other) => {
      const range = bounds()[other];
      return other !== i && isRange(other) && range.is6 === inside.is6 && range.first <= inside.first && inside.last <= range.last;
    });
    row("Lies in", around.map(describe).join(", "));
    place.append(rows);
  };
  const select = (i, moves) => {
    selected = i;
    details(i);
    if (i >= 0) {
      history.replaceState(null, "", `#${encodeURIComponent(areas.cidr[i])},${encodeURIComponent(text(areas.owner[i]))}`);
      if (moves) go(fitted(left[i], top[i], width[i], height[i], 0.28));
    }
    schedule();
  };
  const follow = () => {
    const parts = location.hash.slice(1).split(",").map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return "";
      }
    });
    if (parts[0] === "") return;
    const [cidr, owner] = parts;
    const exact = areas.cidr.findIndex((one, i) => one === cidr && (owner === undefined || text(areas.owner[i]) === owner));
    const found = exact >= 0 ? exact : (find(cidr)[0] ?? -1);
    if (found >= 0 && found !== selected) select(found, true);
  };
  const legend = (mode) => {
    const rows = element("ul");
    const row = (colour, label, paint) => {
      const item = element("li"), swatch = element("canvas");
      swatch.width = 18;
      swatch.height = 14;
      const brush = swatch.getContext("2d");
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 18, 14);
      if (paint) paint(brush);
      item.append(swatch, element("span", label));
      rows.append(item);
    };
    const some = (numbers) => {
      [...numbers].slice(0, SHOWN).forEach(([value, number]) => row(inSeries(number), texts[value]));
      if (numbers.size > SHOWN) rows.append(element("li", `and ${inEnglish(numbers.size - SHOWN)} more`));
    };
    if (mode === "pool") some(pools);
    if (mode === "domain") some(domains);
    if (mode === "use") kinds.forEach((kind, number) => { if (areas.kind.includes(number)) row(inSeries(number), kind); });
    if (mode === "problem") row(style.wrong, "misplaced, or held twice");
    const stripes = (brush, colour) => {
      brush.strokeStyle = colour;
      for (let at = -14; at < 18; at += 5) {
        brush.beginPath();
        brush.moveTo(at, 14);
        brush.lineTo(at + 14, 0);
        brush.stroke();
      }
    };
    const frame = (brush, colour, dash) => {
      brush.strokeStyle = colour;
      brush.lineWidth = 2;
      brush.setLineDash(dash);
      brush.strokeRect(1, 1, 16, 12);
    };
    row(style.quiet, "striped: misplaced", (brush) => stripes(brush, style.ground));
    row(style.free, "pale stripes: kept free", (brush) => stripes(brush, style.quiet));
    row(style.line, "solid frame: added by the plan", (brush) => frame(brush, style.text, []));
    row(style.line, "dashed frame: removed by the plan", (brush) => frame(brush, style.text, [4, 3]));
    row(style.line, "red frame: held by two nodes", (brush) => frame(brush, style.wrong, []));
    row(style.panel, "hatched ground: in no range", (brush) => stripes(brush, style.hatch));
    byId("legend").replaceChildren(element("h2", "Legend"), rows);
  };

  // What a person does.
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const under = (x, y) => {
    const px = x / view.scale + view.x, py = y / view.scale + view.y;
    const state = byId("state").value;
    const isIn = (x, y, w, h) => px >= x && px <= x + w && py >= y && py <= y + h;
    for (const panel of panels) {
      if (!isIn(panel.x, panel.y, panel.width, panel.height)) continue;
      for (let i = panel.end - 1; i >= panel.start; i -= 1) {
        if (isIn(left[i], top[i], width[i], height[i]) && isShown(i, state)) return i;
      }
      return panel.around.findLast((i) => isShown(i, state)) ?? -1;
    }
    return -1;
  };
  let dragged = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY * lines)) / 300), ...point(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    dragged = { at: point(event), moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const [x, y] = point(event), [fromX, fromY] = dragged.at;
    if (!dragged.moved && Math.hypot(x - fromX, y - fromY) < 4) return;
    dragged = { at: [x, y], moved: true };
    pan(fromX - x, fromY - y);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.moved) select(under(...point(event)), false);
    dragged = null;
  });
  canvas.addEventListener("pointercancel", () => { dragged = null; });
  canvas.addEventListener("dblclick", (event) => {
    const found = under(...point(event));
    if (found >= 0) select(found, true);
  });
  const turn = (by) => {
    if (total > 0) select((selected + by + total) % total, true);
  };
  const keys = {
    ArrowLeft: () => pan(-80, 0), ArrowRight: () => pan(80, 0), ArrowUp: () => pan(0, -80), ArrowDown: () => pan(0, 80),
    "+": () => zoomCentre(1.4), "=": () => zoomCentre(1.4), "-": () => zoomCentre(1 / 1.4), 0: () => go(all()),
    n: () => turn(1), p: () => turn(-1), Escape: () => select(-1, false),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== byId("query")) {
      event.preventDefault();
      byId("query").focus();
    }
  });
  byId("zoom").addEventListener("click", (event) => {
    const actions = { in: () => zoomCentre(1.4), out: () => zoomCentre(1 / 1.4), fit: () => go(all()) };
    const action = event.target.dataset.zoom;
    if (Object.hasOwn(actions, action)) actions[action]();
  });
  const search = () => {
    const query = byId("query").value.trim();
    const found = find(query);
    const place = byId("results");
    place.replaceChildren();
    if (query !== "") {
      place.append(element("h2", found.length === 0 ? "Nothing found" : `Found (${inEnglish(found.length)})`));
      place.append(rowsOf(found, FOUND, remark));
    }
    return found;
  };
  byId("query").addEventListener("input", search);
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const [first] = search();
    if (first !== undefined) {
      select(first, true);
      canvas.focus();
    }
  });
  byId("colour").addEventListener("change", repaint);
  byId("state").addEventListener("change", schedule);
  theme.addEventListener("change", repaint);
  addEventListener("hashchange", follow);
  addEventListener("resize", () => {
    resize(1);
    // A phone changes the height alone when it hides its bars.
    if (canvas.clientWidth !== arranged) arrange();
    schedule();
  });
  addEventListener("beforeprint", () => { resize(3); Object.assign(view, all()); drawAll(); });
  addEventListener("afterprint", () => { resize(1); schedule(); });

  // The start.
  const rank = (i) => (areas.shared[i] >= 0 ? 0 : areas.presence[i] === REMOVED ? 1 : areas.misplaced[i] >= 0 ? 2 : 3);
  const notable = indexes.filter((i) => isWrong(i) || areas.presence[i] !== STAYS);
  notable.sort((a, b) => rank(a) - rank(b));
  byCause(byId("listed"), notable);
  const counted = kinds
    .map((kind, number) => [kind, areas.kind.reduce((sum, one) => sum + Number(one === number), 0)])
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => `${kind}: ${inEnglish(count)}`);
  byId("counts").textContent = counted.join(" · ");
  byId("state").disabled = areas.presence.every((one) => one === STAYS);
  if (domains.size === 0) byId("colour").querySelector("[value=domain]").disabled = true;
  resize(1);
  arrange();
  repaint();
  follow();
})();
