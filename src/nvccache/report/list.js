// All calls as a table, one page at a time, for those who would rather read or search than use the timeline.
const PAGE = 50;
const table = document.getElementById('list');
const listed = { calls: [], page: 0, outcome: '', filter: '', order: 'start' };
const ORDERS = {
  start: (a, b) => calls.start[a] - calls.start[b],
  seconds: (a, b) => calls.seconds[b] - calls.seconds[a],
  saved: (a, b) => calls.saved[b] - calls.saved[a],
};

function element(name, text = '', properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  if (text) made.textContent = text;
  return made;
}

// Long paths are broken after slashes, not anywhere.
function path(text) {
  const code = element('code');
  for (const part of text.split(/(?<=\/)/)) code.append(part, document.createElement('wbr'));
  return code;
}

// A cell with a sentence; what stands between backquotes is shown as a path.
function sentence(text) {
  const cell = element('td');
  cell.append(...text.split('`').map((part, number) => (number % 2 ? path(part) : part)));
  return cell;
}

const SIGNS = { ran: '●' };
for (const sign of document.querySelectorAll('#legend .sign')) SIGNS[sign.classList[1]] = sign.textContent;

function signed(kind) {
  const cell = element('td');
  const sign = element('span', SIGNS[kind] || '', { className: 'sign' });
  if (SIGNS[kind]) sign.classList.add(kind);
  sign.setAttribute('aria-hidden', 'true');
  cell.append(sign, spoken(kind));
  return cell;
}

// The text that the filter searches: all that is shown of a call and its stages.
const searched = new Map();
function textOf(call) {
  if (!searched.has(call)) {
    const parts = ['source', 'product', 'outcome', 'directory'].map((name) => word(calls[name], call));
    const ofStages = new Set();
    for (let stage = firstStage[call]; stage < firstStage[call + 1]; stage++) {
      ofStages.add(stageName(stage));
    }
    searched.set(call, [...parts, because(call), ...ofStages].map(spoken).join('\n').toLowerCase());
  }
  return searched.get(call);
}

function select() {
  const wanted = spoken(listed.filter.trim().toLowerCase());
  const all = Array.from({ length: callCount }, (_, call) => call);
  matches.fill(0);
  listed.calls = all.filter((call) => {
    const fits = (!wanted || textOf(call).includes(wanted)) && (!listed.outcome || word(calls.outcome, call) === listed.outcome);
    matches[call] = fits;
    return fits;
  });
  listed.calls.sort(ORDERS[listed.order]);
  listed.page = 0;
  fillList();
  redraw();
}

function fillList() {
  const first = listed.page * PAGE;
  const shown = listed.calls.slice(first, first + PAGE);
  table.tBodies[0].replaceChildren(...shown.map(rowOf));
  document.getElementById('before').disabled = !first;
  document.getElementById('next').disabled = first + PAGE >= listed.calls.length;
  const range = shown.length ? `${first + 1} to ${first + shown.length} of ${listed.calls.length}` : 'none';
  document.getElementById('range').textContent = range;
}

function rowOf(call) {
  const row = element('tr', '', { id: `call-${call}` });
  const source = element('th', '', { scope: 'row' });
  source.append(path(sourceOf(call)));
  const count = firstStage[call + 1] - firstStage[call];
  const more = element('td');
  if (count) {
    const button = element('button', counted(count, 'stage'), { type: 'button' });
    button.setAttribute('aria-expanded', 'false');
    button.addEventListener('click', () => toggle(row, button, call));
    more.append(button);
  }
  row.append(
    source,
    signed(word(calls.outcome, call)),
    ...[calls.start[call], calls.seconds[call], calls.saved[call]].map((time) => element('td', duration(time * UNIT), { className: 'n' })),
    sentence(because(call)),
    more,
  );
  return row;
}

function toggle(row, button, call) {
  const isOpen = button.getAttribute('aria-expanded') === 'true';
  button.setAttribute('aria-expanded', String(!isOpen));
  if (isOpen) row.nextElementSibling.remove();
  else row.after(stagesOf(call));
}

function stagesOf(call) {
  const inner = element('table');
  inner.append(element('caption', `Stages of ${sourceOf(call)}`));
  const head = inner.createTHead().insertRow();
  for (const title of ['stage', 'result', 'start', 'compiler time', 'row']) {
    head.append(element('th', title, { scope: 'col', className: ['start', 'compiler time'].includes(title) ? 'n' : '' }));
  }
  const body = inner.createTBody();
  for (let stage = firstStage[call]; stage < firstStage[call + 1]; stage++) {
    const lane = lanes[laneOf(stage)];
    body.insertRow().append(
      element('th', stageName(stage), { scope: 'row' }),
      signed(word(stages.result, stage)),
      element('td', duration(stages.start[stage] * UNIT), { className: 'n' }),
      element('td', duration(stages.seconds[stage] * UNIT), { className: 'n' }),
      element('td', isFound(stage) ? '' : lane.name),
    );
  }
  const row = element('tr', '', { className: 'more' });
  const cell = element('td', '', { colSpan: 7 });
  cell.append(inner);
  row.append(cell);
  return row;
}

// Go to a call in the list, and show its stages.
function listCall(call) {
  document.getElementById('all').open = true;
  if (!listed.calls.includes(call)) {
    for (const id of ['filter', 'outcome']) document.getElementById(id).value = '';
    Object.assign(listed, { filter: '', outcome: '' });
    select();
  }
  listed.page = Math.floor(listed.calls.indexOf(call) / PAGE);
  fillList();
  const row = document.getElementById(`call-${call}`);
  row.classList.add('chosen');
  const button = row.querySelector('button');
  if (button) button.click();
  else row.tabIndex = -1;
  (button || row).focus();
  row.scrollIntoView({ block: 'center' });
}
