// The timeline: its part in view, its drawing, and which item is at a point. Only visible items are drawn, and
// of those on one pixel only the first, so that drawing takes some milliseconds for any number of stages.
const lanesCanvas = document.getElementById('lanes');
const overviewCanvas = document.getElementById('overview');
const scroller = document.getElementById('scroll');
const AXIS = 22; // pixels
const ROW = 20;
const HEAD = 24;
const BAR = 14;
const SHORTEST = 1e-3; // seconds in view
const view = { from: 0, to: 1, whole: [0, 1], chosen: -1, hovered: -1 };

// Rows of the chart: a heading before each group of lanes.
const rows = [];
for (const [index, lane] of lanes.entries()) {
  const y = rows.length ? rows.at(-1).y + rows.at(-1).height : AXIS;
  const isNew = !index || lanes[index - 1].group !== lane.group;
  if (isNew) rows.push({ y, height: HEAD, heading: lane.group });
  rows.push({ y: y + (isNew ? HEAD : 0), height: ROW, lane: index });
}
const contentHeight = rows.length ? rows.at(-1).y + ROW + 4 : AXIS + ROW;
const rowOfLane = new Map(rows.filter((row) => row.heading === undefined).map((row) => [row.lane, row]));

// Measured once per frame, since querying the layout for each bar would take longer than drawing it.
let chartWidth = 1000;
const measure = () => { chartWidth = lanesCanvas.clientWidth; };
const gutter = () => (chartWidth < 600 ? 52 : 92);
const plotWidth = () => Math.max(50, chartWidth - gutter());
const perPixel = () => (view.to - view.from) / plotWidth();
const xOf = (time) => gutter() + (time - view.from) / perPixel();
const timeAt = (x) => view.from + (x - gutter()) * perPixel();

let isDue = false;
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    drawLanes();
    drawOverview();
  });
}

function show(from, to) {
  const [first, last] = view.whole;
  const most = last - first;
  const size = Math.min(Math.max(to - from, SHORTEST), most);
  view.from = Math.min(Math.max(from + (to - from - size) / 2, first), last - size);
  view.to = view.from + size;
  redraw();
}

function zoom(factor, around = (view.from + view.to) / 2) {
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

const pan = (part) => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));

function drawLanes() {
  measure();
  const width = chartWidth;
  const height = Math.min(contentHeight, scroller.clientHeight || contentHeight);
  lanesCanvas.style.height = `${height}px`;
  document.getElementById('spacer').style.height = `${contentHeight - height}px`;
  const pen = sized(lanesCanvas, width, height);
  const top = scroller.scrollTop;
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  pen.translate(0, -top);
  drawGrid(pen, top, height);
  for (const row of rows) {
    if (row.y + row.height >= top + AXIS && row.y <= top + height) drawRow(pen, row, width);
  }
  pen.restore();
  drawAxis(pen, width);
}

function drawRow(pen, row, width) {
  pen.textBaseline = 'middle';
  pen.textAlign = 'left';
  if (row.heading !== undefined) {
    pen.fillStyle = colours.soft;
    pen.font = '600 12px system-ui, sans-serif';
    pen.fillText(row.heading, 8, row.y + HEAD / 2 + 2);
    pen.fillStyle = colours.line;
    pen.fillRect(0, row.y, width, 1);
    return;
  }
  const lane = lanes[row.lane];
  pen.save();
  pen.beginPath();
  pen.rect(gutter(), row.y, width, ROW);
  pen.clip();
  drawBars(pen, lane, row.y + (ROW - BAR) / 2);
  drawTicks(pen, lane, row.y + ROW / 2);
  drawOutline(pen, row);
  pen.restore();
  pen.fillStyle = colours.soft;
  pen.font = '11.5px system-ui, sans-serif';
  pen.fillText(shortened(lane.name, gutter() - 12), 8, row.y + ROW / 2);
}

function drawBars(pen, lane, y) {
  const step = perPixel();
  let drawnTo = -1;
  pen.font = '11px system-ui, sans-serif';
  for (let at = firstFrom(lane.bars, ended, view.from); at < lane.bars.length; at++) {
    const item = lane.bars[at];
    if (begun[item] > view.to) break;
    const x = xOf(Math.max(begun[item], view.from - 10 * step));
    const end = Math.max(x + 1, xOf(Math.min(ended[item], view.to + 10 * step)));
    if (end < drawnTo + 0.5) {
      // Skip to the next bar that ends beyond this pixel.
      at = firstFrom(lane.bars, ended, timeAt(drawnTo + 0.5), at + 1) - 1;
      continue;
    }
    // Leave a pixel between neighbours, if the bar is wide enough.
    const width = Math.max(1, end - x - (end - x > 4 ? 1 : 0));
    pen.globalAlpha = matches[callOf(item)] ? 1 : 0.15;
    drawBar(pen, kindOf(item), x, y, width, BAR);
    if (width > 56) drawLabel(pen, item, x, y, width);
    drawnTo = end;
  }
  pen.globalAlpha = 1;
}

function drawTicks(pen, lane, y) {
  let drawn = -10;
  for (let at = firstFrom(lane.ticks, begun, view.from - 6 * perPixel()); at < lane.ticks.length; at++) {
    const x = xOf(begun[lane.ticks[at]]);
    if (begun[lane.ticks[at]] > view.to + 6 * perPixel()) break;
    if (x - drawn < 3) {
      at = firstFrom(lane.ticks, begun, timeAt(drawn + 3), at + 1) - 1;
      continue;
    }
    pen.globalAlpha = matches[callOf(lane.ticks[at])] ? 1 : 0.15;
    drawTick(pen, kindOf(lane.ticks[at]), x, y, 4.5);
    drawn = x;
  }
  pen.globalAlpha = 1;
}

// Draw the name on a bar, on a plain ground, since the bar may have a pattern.
function drawLabel(pen, item, x, y, width) {
  const left = Math.max(x, gutter());
  // A part of the bar stays free, to show its colour and pattern.
  const room = (Math.min(x + width, chartWidth) - left) * (isCall(item) ? 0.5 : 0.75) - 10;
  const text = shortened(labelOf(item), room);
  if (text.length < 5) return;
  const wide = Math.min(room, pen.measureText(text).width);
  pen.fillStyle = colours.back;
  pen.fillRect(left + 3, y + 1, wide + 6, BAR - 2);
  pen.fillStyle = colours.ink;
  pen.fillText(text, left + 6, y + BAR / 2 + 0.5, room);
}

function drawOutline(pen, row) {
  for (const item of [view.hovered, view.chosen]) {
    if (item < 0 || laneOf(item) !== row.lane) continue;
    const x = Math.max(xOf(begun[item]), -10);
    const width = Math.min(xOf(ended[item]), chartWidth + 10) - x;
    pen.strokeStyle = item === view.chosen ? colours.ink : colours.edge;
    pen.lineWidth = 2;
    const [left, wide] = isFound(item) ? [x - 7, 14] : [x - 1, Math.max(3, width + 1)];
    pen.strokeRect(left, row.y + 1, wide, ROW - 2);
  }
}

// Steps of the time axis; the smallest one that leaves room for labels is used.
const STEPS = [0.0001, 0.001, 0.01, 0.1].flatMap((step) => [step, 2 * step, 5 * step]);
STEPS.push(...[1, 2, 5, 10, 20, 30], ...[1, 2, 5, 10, 20, 30].map((minutes) => 60 * minutes));
STEPS.push(...[1, 2, 6, 12, 24, 48, 120, 240, 720, 2400, 24000].map((hours) => 3600 * hours));
function tickStep() {
  const least = perPixel() * 90;
  return STEPS.find((step) => step >= least) || least;
}

function* gridTimes() {
  const step = tickStep();
  const first = Math.ceil(view.from / step);
  for (let index = first; index * step <= view.to; index++) yield [index * step, step];
}

function drawGrid(pen, top, height) {
  pen.fillStyle = colours.line;
  for (const [time] of gridTimes()) pen.fillRect(Math.round(xOf(time)), top, 1, height);
}

function drawAxis(pen, width) {
  pen.fillStyle = colours.back;
  pen.fillRect(0, 0, width, AXIS);
  pen.fillStyle = colours.soft;
  pen.font = '11.5px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  pen.textAlign = 'left';
  for (const [time, step] of gridTimes()) {
    const x = Math.round(xOf(time));
    if (x + 8 < width) pen.fillText(axisText(time, step), x + 3, AXIS / 2, width - x - 3);
  }
  pen.fillStyle = colours.line;
  pen.fillRect(0, AXIS - 1, width, 1);
}

function axisText(time, step) {
  if (step < 1) return `${time.toFixed(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)))} s`;
  if (time < 60) return `${time.toFixed(0)} s`;
  const parts = [Math.floor(time / 3600), Math.floor(time / 60) % 60, Math.round(time % 60)];
  const shown = parts[0] ? parts : parts.slice(1);
  return shown.map((part, index) => (index ? String(part).padStart(2, '0') : part)).join(':');
}

// Draw how many stages ran at each moment of the whole build, and mark the part in view.
function drawOverview() {
  const [width, height] = [overviewCanvas.clientWidth, overviewCanvas.clientHeight];
  const pen = sized(overviewCanvas, width, height);
  const [first, last] = view.whole;
  const columns = busyness(Math.max(1, Math.floor(width - gutter())));
  const most = columns.reduce((high, count) => Math.max(high, count), 1);
  pen.fillStyle = colours.soft;
  columns.forEach((count, x) => {
    const high = ((height - 8) * count) / most;
    pen.fillRect(gutter() + x, height - high, 1, high);
  });
  const scale = columns.length / (last - first);
  const [left, right] = [view.from, view.to].map((time) => gutter() + (time - first) * scale);
  pen.strokeStyle = colours.ink;
  pen.lineWidth = 1;
  pen.strokeRect(left + 0.5, 0.5, Math.max(2, right - left - 1), height - 1);
  pen.fillStyle = colours.soft;
  pen.font = '11px system-ui, sans-serif';
  pen.textBaseline = 'top';
  pen.fillText(gutter() > 60 ? 'stages at once' : 'at once', 8, 5, gutter() - 10);
  pen.fillText(`max. ${Math.round(most)}`, 8, 22, gutter() - 10);
}

// The mean number of running stages in each of `count` parts of the build.
let busyCache = { key: '' };
function busyness(count) {
  const key = `${count} ${view.whole}`;
  if (busyCache.key === key) return busyCache.columns;
  const [first, last] = view.whole;
  const scale = count / (last - first);
  const columns = new Float64Array(count);
  for (let item = 0; item < stageCount; item++) {
    if (isFound(item)) continue;
    const from = Math.max(0, (begun[item] - first) * scale);
    const to = Math.min(count, (ended[item] - first) * scale);
    for (let x = Math.floor(from); x < to; x++) columns[x] += Math.min(to, x + 1) - Math.max(from, x);
  }
  busyCache = { key, columns };
  return columns;
}

function shortened(text, room) {
  const letters = Math.floor(room / 5.6);
  return text.length <= letters ? text : `${text.slice(0, Math.max(0, letters - 1))}…`;
}

// The item at a point of the canvas, or -1. An item that took no time is also found a few pixels beside it.
function itemAt(x, y) {
  const row = rows.find((each) => y + scroller.scrollTop >= each.y && y + scroller.scrollTop < each.y + each.height);
  if (!row || row.heading !== undefined || y < AXIS || x < gutter()) return -1;
  const lane = lanes[row.lane];
  const [time, slack] = [timeAt(x), 5 * perPixel()];
  const tick = lane.ticks[firstFrom(lane.ticks, begun, time - slack)];
  if (tick !== undefined && begun[tick] <= time + slack) return tick;
  const bar = lane.bars[firstFrom(lane.bars, ended, time - slack / 2)];
  return bar !== undefined && begun[bar] <= time + slack / 2 ? bar : -1;
}
