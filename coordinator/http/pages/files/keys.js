// Keys: the API's keys, for an admin; and what this browser stores.
import {h, announce, askFirst, checkbox, command, field, notice, redrawer, select} from '/pages/dom.js';
import {json, key, setKey, ApiError} from '/pages/api.js';
import {lookNow, server} from '/pages/app.js';
import * as archive from '/pages/archive.js';
import {kSettings} from '/pages/chat.js';
import {loginForm} from '/pages/connect.js';
import {bytes, count, when} from '/pages/format.js';

const kLocked = new Error('only an admin key manages keys');
const ownId = () => key().split('.')[1] ?? '';

function create(look) {
  const models = server.models.map(model => model.id);
  askFirst({
    title: 'New API key',
    content: [
      field('Name', h('input', {id: 'name', name: 'name', required: true, maxlength: '128', autocomplete: 'off', spellcheck: 'false'}),
        'For you, to tell the keys apart'),
      field('Requests a minute', h('input', {id: 'rate', name: 'rate', type: 'number', min: '0', max: '1000000', value: '0', required: true}), '0: any number'),
      models.length > 1 && field('Models', h('select', {id: 'models', name: 'models', multiple: true}, models.map(id => h('option', {value: id}, id))),
        'That it may use; none chosen: all'),
      field('Verify answers', select('verify', [['none', 'as requests say'], ['spot', 'at least by a later draw'], ['full', 'every answer']])),
      field('Computed by', select('level', [['newcomer', 'any node'], ['probation', 'nodes on probation or better'],
        ['regular', 'regular nodes or better'], ['veteran', 'veterans']]), 'By the record of a node\'s audits'),
      field('Only these nodes', h('input', {id: 'trust', name: 'trust', autocomplete: 'off', spellcheck: 'false'}),
        'Names with commas between them; empty: all'),
      checkbox('admin', 'An admin key: it sees the swarm, and manages members and keys')],
    label: 'Create the key',
    act: async form => {
      const chosen = form.models ? [...form.models.selectedOptions].map(option => option.value) : [];
      const made = await json('/api/v1/keys', {method: 'POST', body: {
        name: form.name.value.trim(), requests_per_minute: Number(form.rate.value), models: chosen,
        verify: form.verify.value, min_level: form.level.value,
        trust: form.trust.value.split(',').map(name => name.trim()).filter(Boolean), admin: form.admin.checked}});
      await look();
      return [h('p', {}, `The key ${made.name} is shown only now. Copy it, and give it to its client as OPENAI_API_KEY or HEARTH_API_KEY:`),
              command(made.key, 'the key')];
    },
  });
}

function revoke(one, look) {
  const own = one.id === ownId();
  askFirst({
    title: `Revoke ${one.name}`,
    content: h('p', {}, own ? 'This page uses this very key, and asks for another one afterwards.'
      : 'Every client with this key is refused from the next request on. This cannot be undone.'),
    label: 'Revoke', kind: 'danger',
    act: async () => {
      await json(`/api/v1/keys/${encodeURIComponent(one.id)}`, {method: 'DELETE'});
      announce(`${one.name} was revoked.`);
      if (own) { setKey('', false); await lookNow(); }
      await look();
    },
  });
}

function limitsOf(one) {
  return [one.requests_per_minute > 0 ? `${count(one.requests_per_minute, 'request')} a minute` : 'any number of requests',
          one.models.length > 0 && `models ${one.models.join(', ')}`,
          one.trust.length > 0 && `computed by ${one.trust.join(', ')}`,
          one.verify !== 'none' && `verify ${one.verify}`,
          one.min_level !== 'newcomer' && `by nodes from ${one.min_level} on`].filter(Boolean);
}

function keyRow(one, look) {
  const cell = (label, ...content) => h('td', {'data-label': label}, ...content);
  const remark = one.of_server ? 'in admin.key of the server' : one.of_node ? 'of a member\'s machine' : one.id === ownId() ? 'this page uses it' : '';
  return h('tr', {},
    h('th', {scope: 'row', 'data-label': 'Name'}, one.name),
    cell('Id', h('code', {}, one.id)),
    cell('Role', one.role),
    cell('Created', when(one.created * 1000)),
    cell('Limits', h('div', {}, limitsOf(one).map(text => h('div', {}, text)))),
    cell('Actions', h('div', {}, !one.of_server && h('button', {type: 'button', class: 'small', 'data-act': `revoke ${one.id}`,
      'aria-label': `Revoke ${one.name}`, onclick: () => revoke(one, look)}, 'Revoke…'), remark && h('div', {class: 'hint'}, remark))));
}

function keysPanel(told, error, look) {
  if (error === kLocked) {
    return [notice('', 'Only an admin key lists, creates and revokes API keys.'),
            h('details', {class: 'panel'}, h('summary', {}, 'Use an admin key'), loginForm('Managing needs an admin key'))];
  }
  if (!told) return error ? notice('bad', error.message) : h('p', {class: 'muted'}, 'Asking the server for its keys…');
  const valid = told.keys.filter(one => !one.revoked);
  const gone = told.keys.length - valid.length;
  const names = ['Name', 'Id', 'Role', 'Created', 'Limits', 'Actions'];
  return h('section', {class: 'panel'}, h('h2', {}, 'API keys'),
    valid.length === 0 ? h('p', {class: 'muted'}, 'There is no key yet. Clients on other machines need one.')
      : h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'API keys'}, h('table', {class: 'stacks'},
        h('thead', {}, h('tr', {}, names.map(name => h('th', {scope: 'col'}, name)))),
        h('tbody', {}, valid.map(one => keyRow(one, look))))),
    gone > 0 && h('p', {class: 'hint'}, `${count(gone, 'revoked key')} not shown`),
    h('p', {}, h('button', {type: 'button', class: 'main', 'data-act': 'create', onclick: () => create(look)}, 'Create a key')));
}

// Shows the data of these pages in localStorage, sessionStorage and IndexedDB.
function browserPanel(conversations, look) {
  const size = conversations.reduce((sum, one) => sum + JSON.stringify(one).length, 0);
  const remembered = localStorage.getItem('hearth.key') !== null;
  const clear = (title, text, act) => askFirst({title, content: h('p', {}, text), label: title, kind: 'danger',
                                               act: async () => { await act(); announce('Done.'); await look(); }});
  const dropChats = async () => { await archive.clear(); };
  const dropAll = async () => {
    await archive.clear();
    localStorage.removeItem(kSettings);
    setKey('', false);
    await lookNow();
  };
  return h('section', {class: 'panel'}, h('h2', {}, 'In this browser'),
    h('dl', {class: 'pairs'},
      h('dt', {}, 'API key'), h('dd', {}, !key() ? 'none' : remembered ? 'kept until you forget it' : 'in this tab only'),
      h('dt', {}, 'Conversations'), h('dd', {}, conversations.length ? `${count(conversations.length, 'conversation')}, about ${bytes(size)}` : 'none'),
      h('dt', {}, 'Settings of the chat'), h('dd', {}, localStorage.getItem(kSettings) ? 'kept' : 'none')),
    h('p', {class: 'hint'}, 'The pages store nothing else, and no cookie. Of a running answer the server keeps the prompt until it has ended.'),
    h('p', {class: 'buttons'},
      key() && h('button', {type: 'button', 'data-act': 'forget', onclick: async () => { setKey('', false); await lookNow(); await look(); }}, 'Forget the key'),
      h('button', {type: 'button', 'data-act': 'chats', disabled: conversations.length === 0, onclick: () => clear('Delete all conversations',
        'They are only in this browser and cannot be restored.', dropChats)}, 'Delete all conversations…'),
      h('button', {type: 'button', 'data-act': 'all', onclick: () => clear('Clear everything',
        'Deletes the key, the settings and all conversations from this browser. The server keeps its own.', dropAll)}, 'Clear everything…')));
}

export function keysView(main) {
  const keys = h('div');
  const browser = h('div');
  main.append(h('div', {class: 'inner'}, h('h1', {}, 'Keys'), keys, browser));
  main.className = 'page';
  let open = true;
  let asked = null;
  const now = () => `${key()} ${server.state?.manages ?? false}`;
  const drawKeys = redrawer(keys, keysPanel);
  const drawBrowser = redrawer(browser, browserPanel);
  async function look() {
    asked = now();
    let told = null;
    let error = null;
    if (!server.state?.manages) error = kLocked;
    else try { told = await json('/api/v1/keys'); } catch (thrown) { error = thrown; }
    const conversations = await archive.list();
    if (!open) return;
    if (!(error instanceof ApiError && error.status === 429)) drawKeys(JSON.stringify([told, error?.message, key()]), told, error, look);
    drawBrowser(JSON.stringify([key(), conversations.map(one => [one.id, one.updated]), localStorage.getItem(kSettings)]), conversations, look);
  }
  const onNews = () => { if (asked !== now()) look(); };
  server.listeners.add(onNews);
  drawKeys('', null, null, look);
  look();
  return () => { open = false; server.listeners.delete(onNews); };
}
