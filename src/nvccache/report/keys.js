// Moves the timeline by pointer, wheel and keyboard, shows details of items, and announces them to screen readers.
const tip = document.getElementById('tip');
const announced = document.getElementById('announced');

function showTip(item) {
  tip.hidden = item < 0;
  if (item < 0) return;
  const [title, ...details] = linesOf(item);
  const bold = document.createElement('b');
  bold.textContent = title;
  tip.replaceChildren(bold, ...details.flatMap((text) => [text, document.createElement('br')]));
  const chart = document.getElementById('chart');
  const row = rowOfLane.get(laneOf(item));
  const [left, right] = [xOf(begun[item]), xOf(ended[item])].map((x) => Math.min(Math.max(x, gutter()), chart.clientWidth));
  const x = Math.min((left + Math.min(right, left + 60)) / 2, chart.clientWidth - tip.offsetWidth - 8);
  const y = scroller.offsetTop + row.y + ROW - scroller.scrollTop + 6;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${y}px`;
}

// Select an item: scroll it into view, and announce it.
function choose(item) {
  view.chosen = item;
  if (item >= 0) {
    const size = view.to - view.from;
    if (begun[item] < view.from || begun[item] > view.to - size / 10) show(begun[item] - size / 4, begun[item] + (3 * size) / 4);
    const row = rowOfLane.get(laneOf(item));
    const top = scroller.scrollTop;
    if (row.y - AXIS < top) scroller.scrollTop = row.y - AXIS - 4;
    else if (row.y + ROW > top + scroller.clientHeight) scroller.scrollTop = row.y + ROW - scroller.clientHeight + 4;
    announced.textContent = linesOf(item).join('; ');
  }
  showTip(item);
  redraw();
}

function inLane(step) {
  const { items } = lanes[laneOf(view.chosen)];
  const at = items.indexOf(view.chosen) + step;
  return items[Math.min(Math.max(at, 0), items.length - 1)];
}

// The item that is nearest in time in the next lane above or below.
function inNextLane(step) {
  for (let lane = laneOf(view.chosen) + step; lane >= 0 && lane < lanes.length; lane += step) {
    const { items } = lanes[lane];
    if (!items.length) continue;
    const at = Math.min(firstFrom(items, begun, begun[view.chosen]), items.length - 1);
    const distance = (item) => Math.abs(begun[item] - begun[view.chosen]);
    return at && distance(items[at - 1]) < distance(items[at]) ? items[at - 1] : items[at];
  }
  return view.chosen;
}

// The first item that is in view.
function firstInView() {
  for (const lane of lanes) {
    const at = firstFrom(lane.items, begun, view.from);
    if (at < lane.items.length && begun[lane.items[at]] <= view.to) return lane.items[at];
  }
  return lanes.length ? lanes[0].items[0] : -1;
}

const MOVES = {
  ArrowRight: () => inLane(1),
  ArrowLeft: () => inLane(-1),
  ArrowDown: () => inNextLane(1),
  ArrowUp: () => inNextLane(-1),
  Home: () => lanes[laneOf(view.chosen)].items[0],
  End: () => lanes[laneOf(view.chosen)].items.at(-1),
};
const around = () => (view.chosen >= 0 ? begun[view.chosen] : undefined);
const ACTIONS = {
  '+': () => zoom(0.5, around()),
  '=': () => zoom(0.5, around()),
  '-': () => zoom(2, around()),
  0: () => show(...view.whole),
  PageDown: () => pan(0.5),
  PageUp: () => pan(-0.5),
  Enter: () => view.chosen >= 0 && listCall(callOf(view.chosen)),
  Escape: () => choose(-1),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !lanes.length) return;
  if (MOVES[event.key]) choose(view.chosen < 0 ? firstInView() : MOVES[event.key]());
  else if (ACTIONS[event.key]) {
    ACTIONS[event.key]();
    if (view.chosen >= 0 && event.key !== 'Escape') requestAnimationFrame(() => showTip(view.chosen));
  } else return;
  event.preventDefault();
}

// Dragging moves the view; two fingers zoom. `onDrag` gets the pointer's last and present x, and another pointer's x.
let dragged = 0; // pixels since the pointer went down
function draggable(canvas, onDrag) {
  const held = new Map();
  canvas.addEventListener('pointerdown', (event) => {
    held.set(event.pointerId, event.offsetX);
    dragged = 0;
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add('held');
  });
  canvas.addEventListener('pointermove', (event) => {
    const before = held.get(event.pointerId);
    if (before === undefined) return;
    dragged += Math.abs(event.offsetX - before);
    const others = [...held].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
    held.set(event.pointerId, event.offsetX);
    onDrag(before, event.offsetX, others[0]);
  });
  for (const name of ['pointerup', 'pointercancel']) {
    canvas.addEventListener(name, (event) => {
      held.delete(event.pointerId);
      if (!held.size) canvas.classList.remove('held');
    });
  }
}

function listen() {
  lanesCanvas.addEventListener('keydown', onKey);
  lanesCanvas.addEventListener('focus', () => lanesCanvas.matches(':focus-visible') && view.chosen < 0 && choose(firstInView()));
  lanesCanvas.addEventListener('blur', () => showTip(-1));
  lanesCanvas.addEventListener('pointerleave', () => hover(-1));
  lanesCanvas.addEventListener('click', (event) => {
    const item = itemAt(event.offsetX, event.offsetY);
    if (item >= 0 && dragged < 4) choose(item);
  });
  lanesCanvas.addEventListener('pointermove', (event) => hover(itemAt(event.offsetX, event.offsetY)));
  lanesCanvas.addEventListener('wheel', onWheel, { passive: false });
  scroller.addEventListener('scroll', () => { showTip(-1); redraw(); });
  draggable(lanesCanvas, (before, now, other) => {
    if (other === undefined) return show(view.from - (now - before) * perPixel(), view.to - (now - before) * perPixel());
    return zoom(Math.min(2, Math.max(0.5, Math.abs(before - other) / Math.max(1, Math.abs(now - other)))), timeAt(other));
  });
  draggable(overviewCanvas, (before, now) => {
    const step = (view.whole[1] - view.whole[0]) / plotWidth();
    show(view.from + (now - before) * step, view.to + (now - before) * step);
  });
  overviewCanvas.addEventListener('dblclick', (event) => {
    const time = view.whole[0] + ((event.offsetX - gutter()) * (view.whole[1] - view.whole[0])) / plotWidth();
    show(time - (view.to - view.from) / 2, time + (view.to - view.from) / 2);
  });
}

function hover(item) {
  if (item === view.hovered) return;
  view.hovered = item;
  showTip(item);
  redraw();
}

function onWheel(event) {
  if (event.ctrlKey || event.metaKey) zoom(2 ** (Math.sign(event.deltaY) * 0.4), timeAt(event.offsetX));
  else if (event.deltaX || event.shiftKey) pan((event.deltaX || event.deltaY) / plotWidth());
  else return;
  event.preventDefault();
}
