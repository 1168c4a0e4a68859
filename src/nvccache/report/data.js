// Decodes the data in the page: calls and stages as columns, and the items of each lane.
// An item is a number: first the stages are numbered, then the calls.
const data = JSON.parse(document.getElementById('data').textContent);
const UNIT = 1e-4; // seconds
const calls = data.calls;
const stages = data.stages;
const callCount = calls.start.length;
const stageCount = stages.start.length;
const word = (column, index) => data.texts[column[index]];

const stageCall = new Uint32Array(stageCount);
const firstStage = new Uint32Array(callCount + 1);
const begun = new Float64Array(stageCount + callCount); // seconds since the first call
const ended = new Float64Array(stageCount + callCount);
const matches = new Uint8Array(callCount).fill(1); // whether a call fits the filter

const isCall = (item) => item >= stageCount;
const callOf = (item) => (isCall(item) ? item - stageCount : stageCall[item]);
// Whether a stage did not run, but has a result of the cache or of another process; it took no time.
const isFound = (item) => !isCall(item) && ['hit', 'shared'].includes(word(stages.result, item));
// The name of an item's colour: a call's outcome, the result of a stage that did not run, or the tool that ran.
const kindOf = (item) => (isCall(item) ? word(calls.outcome, item - stageCount) : word(isFound(item) ? stages.result : stages.kind, item));

const lanes = data.lanes.map(([group, name]) => ({ group, name, items: [], bars: [], ticks: [] }));

for (let call = 0, stage = 0; call < callCount; call++) {
  const start = calls.start[call] * UNIT;
  const item = stageCount + call;
  begun[item] = start;
  ended[item] = start + calls.seconds[call] * UNIT;
  firstStage[call] = stage;
  for (const last = stage + calls.stages[call]; stage < last; stage++) {
    stageCall[stage] = call;
    if (isFound(stage)) {
      // A stage that did not run takes no time, and must not be shown after the end of its call.
      begun[stage] = ended[stage] = Math.min(start + stages.start[stage] * UNIT, ended[item]);
    } else {
      begun[stage] = start + stages.start[stage] * UNIT;
      ended[stage] = begun[stage] + stages.lasted[stage] * UNIT;
    }
  }
  firstStage[call + 1] = stage;
}
for (let item = 0; item < stageCount + callCount; item++) {
  const lane = lanes[isCall(item) ? calls.lane[item - stageCount] : stages.lane[item]];
  lane.items.push(item);
  (isFound(item) ? lane.ticks : lane.bars).push(item);
}
// A call comes before the stages that begin at the same time.
const inOrder = (a, b) => begun[a] - begun[b] || isCall(b) - isCall(a) || a - b;
for (const lane of lanes) {
  for (const items of [lane.items, lane.bars, lane.ticks]) items.sort(inOrder);
}
const laneOf = (item) => (isCall(item) ? calls.lane[item - stageCount] : stages.lane[item]);
const lastEnd = ended.reduce((most, end) => Math.max(most, end), 0);

// The first index from `low` on in the sorted `items` for which the item's `time` is `least` or more.
function firstFrom(items, time, least, low = 0) {
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[items[middle]] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

function duration(seconds) {
  const sign = seconds < 0 ? '−' : '';
  const size = Math.abs(seconds);
  if (size < 0.0005) return '0 s';
  if (size < 0.9995) return `${sign}${(1000 * size).toFixed(0)} ms`;
  if (size < 60) return `${sign}${size.toFixed(2)} s`;
  const minutes = Math.floor(size / 60);
  if (minutes < 60) return `${sign}${minutes} min ${Math.floor(size % 60)} s`;
  return `${sign}${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;
const spoken = (text) => text.replaceAll('_', ' ');
const sourceOf = (call) => word(calls.source, call) || word(calls.product, call) || 'a call without a source';

const stageName = (stage) => word(stages.name, stage);
const fileOf = (call) => sourceOf(call).replace(/.*\//, '');
// The text on a bar, such as `scan.cu: cicc 90`.
const labelOf = (item) => (isCall(item) ? fileOf(callOf(item)) : `${fileOf(callOf(item))}: ${stageName(item).replace(/(compute|sm)_/, '')}`);

// Why a call had its outcome: its cause, or the sentence about its bypass reason.
function because(call) {
  const reason = word(calls.reason, call);
  return word(calls.cause, call) || data.sentences[reason] || spoken(reason);
}

// Lines of text about an item: a title, then details.
function linesOf(item) {
  const call = callOf(item);
  const start = `at ${duration(begun[item])}`;
  if (isCall(item)) {
    return [
      sourceOf(call),
      `${spoken(word(calls.outcome, call))}, ${duration(ended[item] - begun[item])}, ${start}`,
      `avoided ${duration(calls.saved[call] * UNIT)} of compiler time`,
      `${duration(calls.overhead[call] * UNIT)} of overhead`,
      because(call),
    ].filter(Boolean);
  }
  const result = word(stages.result, item);
  const seconds = duration(stages.seconds[item] * UNIT);
  const outcome = {
    hit: `hit, avoided ${seconds} of compiler time`,
    ran: `ran ${seconds}`,
    shared: `shared with another process that was running it, avoided ${seconds} of compiler time`,
    failed: `failed after ${seconds}`,
  }[result];
  const place = isFound(item) ? '' : lanes[laneOf(item)].name;
  return [
    stageName(item),
    `${outcome}, ${start}`,
    sourceOf(call),
    place,
  ].filter(Boolean);
}
