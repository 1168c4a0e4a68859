// Starts the page: the theme, the tools above the timeline, then the timeline and the list.
const THEMES = ['automatic', 'light', 'dark'];
const themeButton = document.getElementById('theme');
const byId = (id) => document.getElementById(id);

function remembered() {
  try {
    return localStorage.getItem('nvccache-theme');
  } catch {
    return null; // some browsers store nothing for local files
  }
}

function setTheme(theme) {
  if (theme === 'automatic') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem('nvccache-theme', theme);
  } catch {
    // The choice lasts until the page is closed.
  }
  repaint();
}

function repaint() {
  resolveColours();
  drawLegend();
  redraw();
}

function showBuild() {
  // A margin, so that the last bar does not touch the edge. An empty build gets some length, too.
  const size = Math.max(lastEnd, 0.01);
  view.whole = [-size * 0.005, size * 1.01];
  choose(-1);
  show(...view.whole);
}

function connectTools() {
  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), earlier: () => pan(-0.5), later: () => pan(0.5), whole: () => show(...view.whole),
    before: () => { listed.page--; fillList(); }, next: () => { listed.page++; fillList(); },
  };
  for (const [id, action] of Object.entries(actions)) byId(id).addEventListener('click', action);
  let waiting = 0;
  byId('filter').addEventListener('input', (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { listed.filter = event.target.value; select(); }, 120);
  });
  for (const id of ['outcome', 'order']) {
    byId(id).addEventListener('change', (event) => { listed[id] = event.target.value; select(); });
  }
  for (const outcome of new Set(calls.outcome)) {
    byId('outcome').append(element('option', spoken(data.texts[outcome]), { value: data.texts[outcome] }));
  }
}

function start() {
  for (const id of ['theme', 'tools', 'chart', 'help', 'pages', 'list']) byId(id).hidden = false;
  byId('chart').hidden = byId('help').hidden = byId('tools').hidden = !callCount;
  const theme = remembered();
  connectTools();
  setTheme(THEMES.includes(theme) ? theme : 'automatic');
  showBuild();
  select();
  listen();
  themeButton.addEventListener('click', () => {
    setTheme(THEMES[(THEMES.indexOf(themeButton.textContent.split(' ')[1]) + 1) % THEMES.length]);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
  new ResizeObserver(redraw).observe(byId('chart'));
  document.documentElement.dataset.ready = performance.now().toFixed(1);
}

for (const link of document.querySelectorAll('nav a')) link.hidden = !document.querySelector(link.getAttribute('href'));
// Delayed, so that the summary is painted before the timeline is computed.
requestAnimationFrame(() => setTimeout(start));
