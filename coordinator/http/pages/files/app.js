// Chooses the view, and has the parts that all views share: the address bar, the server's state,
// the key.
import {h, replace, announce} from '/pages/dom.js';
import {json, key, ApiError} from '/pages/api.js';
import {rate} from '/pages/format.js';
import {chatView} from '/pages/chat.js';
import {swarmView} from '/pages/swarm.js';
import {planView} from '/pages/plan.js';
import {ledgerView} from '/pages/ledger.js';
import {keysView} from '/pages/keys.js';
import {connectView, loginForm} from '/pages/connect.js';

const kViews = {chat: [chatView, 'Chat'], swarm: [swarmView, 'Swarm'], plan: [planView, 'Plan'],
                ledger: [ledgerView, 'Ledger'], keys: [keysView, 'Keys'], connect: [connectView, 'Connect']};
// Milliseconds between two requests for the state. Each counts against the key's rate limit, so the
// page asks often only while the view Swarm is open or the server does not answer.
const kWatching = 2000;
const kOften = 10000;
const kRarely = 30000;

// The server's last answer: {state, models, error}. `state` is null for a key that may not see it.
export const server = {state: null, models: [], error: null, listeners: new Set()};

let shown = null;  // {name, close}
let timer = null;

let told = {key: null, at: 0, hidden: false};  // when the models were told, and whether state is hidden

async function look() {
  clearTimeout(timer);
  if (told.key !== key()) told = {key: key(), at: 0, hidden: false};
  try {
    const now = Date.now();
    if (server.error || now - told.at >= kRarely) {
      server.models = (await json('/v1/models')).data;
      told.at = now;
    }
    const state = told.hidden ? null : await stateOrNull();
    if (server.error) announce('The server answers.');
    Object.assign(server, {state, error: null});
  } catch (error) {
    // The key's rate limit is reached, so the server is running.
    if (error.status !== 429) {
      if (!server.error) announce(error.message);
      server.error = error;
    }
  }
  showPulse();
  for (const listener of server.listeners) listener();
  timer = setTimeout(look, wait());
}

// Null: this key may not see it, and is not asked for it again.
async function stateOrNull() {
  try {
    return await json('/api/v1/state');
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403) throw error;
    told.hidden = true;
    return null;
  }
}

function wait() {
  if (document.hidden || told.hidden && !server.error) return kRarely;
  return server.error || route() === 'swarm' ? kWatching : kOften;
}

// Called after a new key, and when a view needs the state at once.
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

// The view changes when a key is required, entered or revoked.
function onNews() {
  const needsKey = server.error?.status === 401;
  if (shown && route() !== 'connect' && needsKey !== shown.stale) {
    shown.stale = true;
    show();
  }
}

server.listeners.add(onNews);
addEventListener('hashchange', () => { show(); look(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) look(); });
await look();
show();
