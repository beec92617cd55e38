// Which view is shown, and what all views share: the address bar, the server's state, the key.
import {h, replace, announce} from '/pages/dom.js';
import {json, ApiError} from '/pages/api.js';
import {rate} from '/pages/format.js';
import {chatView} from '/pages/chat.js';
import {swarmView} from '/pages/swarm.js';
import {connectView, loginForm} from '/pages/connect.js';

const kViews = {chat: [chatView, 'Chat'], swarm: [swarmView, 'Swarm'], connect: [connectView, 'Connect']};
const kEvery = 2000;  // milliseconds between two looks at the state

// What the server last said: {state, models, error}. `state` is null for a key that may not see it.
export const server = {state: null, models: [], error: null, listeners: new Set()};

let shown = null;  // {name, close}
let timer = null;

async function look() {
  clearTimeout(timer);
  try {
    const models = (await json('/v1/models')).data;
    let state = null;
    try {
      state = await json('/api/v1/state');
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
    }
    if (server.error) announce('The server answers.');
    Object.assign(server, {state, models, error: null});
  } catch (error) {
    if (!server.error) announce(error.message);
    server.error = error;
  }
  showPulse();
  for (const listener of server.listeners) listener();
  // A hidden page looks rarely, so that it costs next to nothing.
  timer = setTimeout(look, document.hidden ? 15 * kEvery : kEvery);
}

// After a new key, or when somebody waits for news.
export function lookNow() { return look(); }

function showPulse() {
  const place = document.getElementById('pulse');
  let text;
  if (server.error) {
    text = server.error.status === 401 ? 'An API key is needed' : 'Reconnecting to the server…';
  } else if (!server.state) {
    text = 'Connected';
  } else if (!server.state.ready) {
    text = 'Not serving yet';
  } else {
    const cluster = server.state.cluster ? `${server.state.cluster} · ` : '';
    text = `${cluster}serving · ${rate(server.state.tokens_per_second)} tokens/s`;
  }
  if (place.textContent !== text) place.textContent = text;
}

function route() {
  const name = location.hash.replace(/^#\//, '').split('/')[0];
  return kViews[name] ? name : 'chat';
}

function show() {
  const name = route();
  if (shown?.name === name && !shown.stale) return;
  shown?.close?.();
  const main = document.getElementById('main');
  const [view, title] = kViews[name];
  document.title = `${title} · Hearth`;
  for (const link of document.querySelectorAll('nav a[data-view]')) {
    if (link.dataset.view === name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const needsKey = server.error?.status === 401 && name !== 'connect';
  const focused = shown !== null;
  main.className = '';
  main.scrollTop = 0;
  replace(main);
  shown = {name, stale: needsKey};
  if (needsKey) {
    replace(main, h('div', {class: 'page'}, h('div', {class: 'inner'}, loginForm())));
  } else {
    shown.close = view(main);
  }
  if (focused) main.focus({preventScroll: true});
}

// A key that is asked for, given or revoked changes what is shown.
function onNews() {
  const needsKey = server.error?.status === 401;
  if (shown && route() !== 'connect' && needsKey !== shown.stale) {
    shown.stale = true;
    show();
  }
}

server.listeners.add(onNews);
addEventListener('hashchange', show);
document.addEventListener('visibilitychange', () => { if (!document.hidden) look(); });
await look();
show();
