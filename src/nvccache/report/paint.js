// Colours come from the style sheet, so that themes change them. Patterns have the same meanings as colours.
let paints = {};
let colours = {};

// The pattern of each result or outcome.
const PATTERNS = {
  host_preprocess: 'plain', device_preprocess: 'plain', cudafe: 'plain', cicc: 'plain', ptxas: 'plain', host_compile: 'plain', other: 'plain',
  miss: 'plain', hit: 'diamond', direct_hit: 'rails', stage_hit: 'columns', partial_hit: 'halves',
  query_hit: 'rail', query_miss: 'outline', shared: 'square', failed: 'crosses', bypass: 'dots', fault: 'frame',
};

function resolveColours() {
  const probe = document.createElement('span');
  document.body.append(probe);
  const named = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  colours = Object.fromEntries(['back', 'raised', 'line', 'edge', 'ink', 'soft', 'link'].map((name) => [name, named(name)]));
  paints = {};
  for (const kind of Object.keys(PATTERNS)) {
    probe.className = kind;
    probe.style.color = '';
    paints[kind] = paintOf(kind, getComputedStyle(probe).color);
  }
  probe.remove();
}

function paintOf(kind, colour) {
  const size = 8;
  const tile = document.createElement('canvas');
  tile.width = tile.height = size;
  const pen = tile.getContext('2d');
  const pattern = PATTERNS[kind];
  const isSolid = ['plain', 'diamond', 'square', 'frame', 'halves', 'rails', 'rail', 'outline'].includes(pattern);
  pen.fillStyle = colour;
  pen.strokeStyle = colour;
  pen.lineWidth = 2.2;
  if (pattern === 'crosses') {
    for (const x of [-size, 0, size]) {
      line(pen, x, size, x + size, 0);
      line(pen, x, 0, x + size, size);
    }
  } else if (pattern === 'stripes') {
    for (const x of [-size, 0, size]) line(pen, x, size, x + size, 0);
  } else if (pattern === 'columns') {
    for (const x of [0, 4]) pen.fillRect(x, 0, 2, size);
  } else if (pattern === 'dots') {
    for (const [x, y] of [[2, 2], [6, 6]]) pen.fillRect(x - 1, y - 1, 2, 2);
  }
  return { pattern, colour, fill: isSolid ? colour : pen.createPattern(tile, 'repeat') };
}

function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

// Draw a bar; a narrow one has only a colour, since a pattern needs more room.
function drawBar(pen, kind, x, y, width, height) {
  const paint = paints[kind] || paints.other;
  if (width < 5) {
    pen.fillStyle = paint.colour;
    pen.fillRect(x, y, width, height);
    return;
  }
  if (paint.pattern === 'rails') {
    pen.fillStyle = paint.fill;
    pen.fillRect(x, y, width, 3);
    pen.fillRect(x, y + height - 3, width, 3);
  } else if (paint.pattern === 'rail') {
    pen.fillStyle = paint.fill;
    pen.fillRect(x, y + height - 3, width, 3);
  } else if (paint.pattern === 'halves') {
    pen.fillStyle = paint.fill;
    pen.fillRect(x, y + height / 2, width, height / 2);
  } else if (!['frame', 'outline'].includes(paint.pattern)) {
    pen.fillStyle = paint.fill;
    pen.fillRect(x, y, width, height);
  }
  if (paint.pattern !== 'plain') {
    pen.strokeStyle = paint.colour;
    pen.lineWidth = paint.pattern === 'frame' ? 3 : 1;
    const inset = pen.lineWidth / 2;
    pen.strokeRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset);
  }
}

// Draw a stage that did not run: a diamond for a hit, a square with a hole if another process ran the stage. The
// edge separates the sign from the bar below it.
function drawTick(pen, kind, x, y, radius) {
  pen.fillStyle = paints[kind].colour;
  pen.strokeStyle = colours.back;
  pen.lineWidth = 1;
  if (kind === 'shared') {
    pen.fillRect(x - radius + 0.5, y - radius + 0.5, 2 * radius - 1, 2 * radius - 1);
    pen.clearRect(x - 1.5, y - 1.5, 3, 3);
    return;
  }
  pen.beginPath();
  pen.moveTo(x, y - radius);
  pen.lineTo(x + radius, y);
  pen.lineTo(x, y + radius);
  pen.lineTo(x - radius, y);
  pen.closePath();
  pen.fill();
  pen.stroke();
}

// The drawing context of a canvas in CSS pixels, with a resolution that is sharp on this screen.
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// Draw a sample beside each name in the legend, as the timeline shows it.
function drawLegend() {
  for (const sign of document.querySelectorAll('#legend .sign:not(.hit, .shared)')) {
    let canvas = sign.nextElementSibling;
    if (!canvas) {
      canvas = document.createElement('canvas');
      canvas.setAttribute('aria-hidden', 'true');
      sign.after(canvas);
    }
    const kind = sign.classList[1];
    const pen = sized(canvas, 22, 12);
    drawBar(pen, kind, 0, 0, 22, 12);
  }
}
