// Chat: conversations with the model, kept in this browser.
import {h, replace, append, announce, copyButton, notice, showDialog} from '/pages/dom.js';
import {answer, ConnectionLost} from '/pages/api.js';
import {server} from '/pages/app.js';
import {bytes, rate, seconds, when} from '/pages/format.js';
import {proofPart} from '/pages/proof.js';
import {blocks, renderBlock} from '/pages/markdown.js';
import * as archive from '/pages/archive.js';
import * as talk from '/pages/conversation.js';

const kFileBytes = 1 << 20;
export const kSettings = 'hearth.settings';
const kDefaults = {model: '', system: '', temperature: '', top_p: '', top_k: '', min_p: '', max_tokens: '', seed: '',
                   effort: '', verify: ''};
const kNumbers = [  // field, label, hint, step
  ['temperature', 'Temperature', '0 always takes the likeliest token; default 1', '0.1'],
  ['top_p', 'Top p', '0 to 1; default 1, off', '0.05'],
  ['top_k', 'Top k', 'from 1; empty: off', '1'],
  ['min_p', 'Min p', '0 to 1; default 0, off', '0.01'],
  ['max_tokens', 'Tokens at most', 'of an answer; default 4,096', '1'],
  ['seed', 'Seed', 'the same seed gives the same answer', '1'],
];

// The answers that run, over changes of the view: {controller, wait} by the id of their message.
const running = new Map();
const settings = {...kDefaults, ...readSettings()};

function randomSeed() { return crypto.getRandomValues(new Uint32Array(1))[0]; }

function readSettings() {
  try { return JSON.parse(localStorage.getItem(kSettings)) ?? {}; } catch { return {}; }
}

export function chatView(main) {
  let list = [];
  let current = talk.create();
  let open = true;      // until the view is closed
  let files = [];       // of the message that is written
  let editing = null;   // the message that is edited
  const drawn = new Map();  // of the messages that are shown: their elements by id

  // The frame
  const shelfList = h('ul', {'aria-label': 'Conversations'});
  const shelfFoot = h('footer', {}, 'Conversations stay in this browser.');
  const shelf = h('section', {class: 'shelf', 'aria-label': 'Conversations'},
    h('header', {}, h('button', {type: 'button', onclick: () => pick(talk.create(), true)}, 'New chat')), shelfList, shelfFoot);
  const title = h('h1', {}, current.title);
  const model = h('select', {'aria-label': 'Model'});
  const opener = h('button', {type: 'button', class: 'quiet only-narrow', 'aria-expanded': 'false', onclick: () => toggleShelf()}, 'Chats');
  const inner = h('div', {class: 'inner'});
  const messages = h('div', {class: 'messages', tabindex: '0', role: 'log', 'aria-label': 'Messages', 'aria-live': 'off'}, inner);
  const field = h('textarea', {id: 'prompt', rows: '2', 'aria-label': 'Message', placeholder: 'Write a message'});
  const fileList = h('ul', {class: 'files', 'aria-label': 'Attached files'});
  const filePicker = h('input', {type: 'file', multiple: true, class: 'unseen', tabindex: '-1', 'aria-label': 'Files to attach'});
  const attach = h('button', {type: 'button', class: 'quiet', onclick: () => filePicker.click()}, 'Attach text');
  const sendButton = h('button', {type: 'submit', class: 'main'}, 'Send');
  const stopButton = h('button', {type: 'button', onclick: () => stop()}, 'Stop');
  const hint = h('p', {class: 'hint'}, 'Enter sends, Shift+Enter starts a new line');
  const form = h('form', {onsubmit: event => { event.preventDefault(); submit(); }}, fileList, field,
    h('div', {class: 'row'}, attach, filePicker, hint, stopButton, sendButton));
  const talkPane = h('section', {class: 'talk', 'aria-label': 'Conversation'},
    h('header', {}, opener, title, model, h('button', {type: 'button', onclick: openSettings}, 'Settings')),
    messages, h('div', {class: 'composer'}, form));
  main.append(h('div', {class: 'chat'}, shelf, talkPane));

  field.addEventListener('keydown', event => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
  });
  field.addEventListener('input', fit);
  filePicker.addEventListener('change', () => { readFiles(filePicker.files); filePicker.value = ''; });
  const onKey = event => {
    if (event.key !== 'Escape') return;
    if (shelf.classList.contains('open')) toggleShelf();
    else if (editing) { editing = null; drawMessages(); }
    else stop();
  };
  addEventListener('keydown', onKey);
  const onClick = event => {
    if (shelf.classList.contains('open') && !shelf.contains(event.target) && !opener.contains(event.target)) toggleShelf();
  };
  addEventListener('click', onClick);
  model.addEventListener('change', () => { settings.model = model.value; keepSettings(); });

  function keepSettings() {
    try { localStorage.setItem(kSettings, JSON.stringify(settings)); } catch { /* the browser keeps nothing */ }
  }
  function fit() {
    field.style.height = 'auto';
    field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight * 0.4)}px`;
  }
  function toggleShelf() {
    const shown = shelf.classList.toggle('open');
    opener.setAttribute('aria-expanded', String(shown));
    if (shown) shelf.querySelector('button').focus(); else opener.focus();
  }
  const leaf = () => talk.path(current).at(-1) ?? null;
  const isRunning = () => leaf() !== null && running.has(leaf().id);

  // The conversations
  function pick(conversation, focus) {
    current = conversation;
    editing = null;
    files = [];
    drawn.clear();
    replace(inner);
    drawAll();
    messages.scrollTop = messages.scrollHeight;
    if (shelf.classList.contains('open')) toggleShelf();
    if (focus) field.focus();
  }
  async function remove(conversation) {
    if (!confirm(`Delete “${conversation.title}”? It is only in this browser and cannot be restored.`)) return;
    for (const node of Object.values(conversation.messages)) running.get(node.id)?.controller.abort();
    list = list.filter(each => each.id !== conversation.id);
    await archive.remove(conversation.id);
    if (conversation.id === current.id) pick(talk.create(), true); else drawShelf();
  }
  function drawShelf() {
    replace(shelfList, list.map(each => h('li', {'aria-current': each.id === current.id ? 'true' : null},
      h('button', {type: 'button', title: when(each.updated), onclick: () => pick(each, false)}, each.title),
      h('button', {type: 'button', class: 'quiet', 'aria-label': `Delete ${each.title}`, onclick: () => remove(each)}, '×'))));
    if (list.length === 0) replace(shelfList, h('li', {}, h('p', {class: 'hint'}, 'None yet')));
  }
  function keep(conversation) {
    conversation.updated = Date.now();
    list = [conversation, ...list.filter(each => each.id !== conversation.id)];
    archive.save(conversation).catch(() => {
      shelfFoot.textContent = 'The browser has no room left: this conversation lasts as long as the page.';
    });
  }

  // The messages
  function drawAll() {
    title.textContent = current.title;
    drawShelf();
    drawMessages();
    drawComposer();
  }
  function drawMessages() {
    const path = talk.path(current);
    const ids = new Set(path.map(node => node.id));
    for (const [id, view] of drawn) if (!ids.has(id)) { view.element.remove(); drawn.delete(id); }
    inner.querySelector('.empty')?.remove();
    if (path.length === 0) {
      inner.append(h('div', {class: 'empty'}, h('h2', {}, 'What would you like to know?'),
        h('p', {}, 'The machines of this swarm compute the answer. No other service sees it.')));
    }
    path.forEach((node, i) => {
      let view = drawn.get(node.id);
      if (!view) {
        view = makeMessage(node);
        drawn.set(node.id, view);
      }
      if (inner.children[i] !== view.element) inner.insertBefore(view.element, inner.children[i] ?? null);
      view.draw();
    });
  }
  function drawComposer() {
    const busy = isRunning();
    sendButton.hidden = busy;
    stopButton.hidden = !busy;
    sendButton.disabled = Boolean(server.error);
    replace(fileList, files.map((file, i) => h('li', {}, `${file.name} (${bytes(file.text.length)})`,
      h('button', {type: 'button', class: 'quiet', 'aria-label': `Remove ${file.name}`,
                   onclick: () => { files.splice(i, 1); drawComposer(); }}, '×'))));
    fileList.hidden = files.length === 0;
  }
  function drawModels() {
    const names = server.models.filter(each => !each.capabilities?.includes('embedding')).map(each => each.id);
    if (names.join('\n') !== [...model.options].map(each => each.value).join('\n')) {
      replace(model, names.map(name => h('option', {value: name}, name)));
    }
    model.value = names.includes(settings.model) ? settings.model : names[0] ?? '';
    model.hidden = names.length === 0;
  }

  function makeMessage(node) {
    const body = h('div', {class: 'body'});
    const thought = h('details', {class: 'thought'}, h('summary', {}, 'Thoughts'), h('div'));
    const calls = h('div');
    const fault = h('div');
    const facts = h('div', {class: 'facts'});
    const assistant = node.role === 'assistant';
    const element = h('article', {class: `message ${node.role}`, 'aria-label': assistant ? 'Answer' : 'Your message'},
      h('header', {}, h('strong', {}, assistant ? node.model ?? 'Answer' : 'You')),
      thought, body, calls, fault, facts);
    let shownBlocks = [];
    let signature = null;

    function drawText() {
      if (!assistant) {
        replace(body, node.content, (node.files ?? []).map(file =>
          h('div', {class: 'hint'}, `With ${file.name} (${bytes(file.text.length)})`)));
        return;
      }
      // Blocks that have not changed keep their elements, and with them a reader's selection.
      const next = blocks(node.content ?? '');
      next.forEach((block, i) => {
        if (shownBlocks[i]?.source === block.source && shownBlocks[i].kind === block.kind) return;
        const rendered = renderBlock(block);
        if (body.children[i]) body.children[i].replaceWith(rendered); else body.append(rendered);
      });
      while (body.children.length > next.length) body.lastElementChild.remove();
      shownBlocks = next;
    }
    function draw() {
      const run = running.get(node.id);
      const siblings = talk.siblingsOf(current, node);
      const now = JSON.stringify([node.content, node.reasoning, node.calls, node.error, node.facts, run?.wait ?? null,
                                  Boolean(run), siblings, editing === node.id, isRunning()]);
      if (now === signature) return;
      signature = now;
      if (editing === node.id) { drawEditor(); return; }
      drawText();
      thought.hidden = !node.reasoning;
      if (node.reasoning) {
        thought.lastElementChild.textContent = node.reasoning;
        thought.firstElementChild.textContent = run && !node.content ? 'Thinking…' : 'Thoughts';
      }
      replace(calls, (node.calls ?? []).map(call => h('div', {class: 'code'},
        h('header', {}, h('span', {}, `Calls ${call.name}`)), h('pre', {tabindex: '0'}, h('code', {}, call.arguments)))));
      const waiting = run && !node.content && !node.reasoning;
      replace(fault, run?.wait ? h('p', {class: 'muted'}, run.wait) : waiting ? h('p', {class: 'muted waiting'}, 'Waiting for the first token ') : null,
        node.error && notice('bad', node.error));
      element.classList.toggle('busy', Boolean(run));
      drawFacts(run, siblings);
    }
    function drawFacts(run, siblings) {
      const f = node.facts ?? {};
      const at = siblings.indexOf(node.id);
      const step = by => { talk.choose(current, current.messages[siblings[at + by]]); keep(current); drawAll(); };
      const figures = [];
      if (f.tokens) figures.push(`${f.tokens.toLocaleString('en')} tokens`);
      if (f.rate) figures.push(`${rate(f.rate)} tokens/s`);
      if (f.first !== undefined) figures.push(`first token ${seconds(f.first)}`);
      if (f.finish === 'length') figures.push('cut off at the limit of tokens');
      if (node.stopped) figures.push('stopped');
      replace(facts,
        siblings.length > 1 && [
          h('button', {type: 'button', class: 'quiet', disabled: at === 0, 'aria-label': 'Earlier version', onclick: () => step(-1)}, '‹'),
          h('span', {}, `${at + 1} of ${siblings.length}`),
          h('button', {type: 'button', class: 'quiet', disabled: at === siblings.length - 1, 'aria-label': 'Later version', onclick: () => step(1)}, '›')],
        figures.map(text => h('span', {class: 'figure'}, text)),
        f.verified && verifiedTag(node),
        !run && [
          copyButton(() => node.content ?? '', assistant ? 'the answer' : 'the message'),
          assistant ? [
            h('button', {type: 'button', class: 'quiet', disabled: isRunning(), onclick: () => again(node, {})}, 'Ask again'),
            f.seed !== undefined && h('button', {type: 'button', class: 'quiet', disabled: isRunning(),
              title: 'The same seed must give the same answer, bit for bit', onclick: () => again(node, {seed: f.seed, repeats: node.id})}, 'Repeat'),
            f.receipt && h('button', {type: 'button', class: 'quiet', onclick: () => showReceipt(node)}, 'Receipt')]
            : h('button', {type: 'button', class: 'quiet', disabled: isRunning(), onclick: () => { editing = node.id; drawMessages(); }}, 'Edit')]);
      if (f.repeats) append(facts, [h('span', {class: `tag ${f.same ? 'good' : 'bad'}`},
        f.same ? 'the same answer, bit for bit' : 'differs from the first answer')]);
    }
    function drawEditor() {
      const area = h('textarea', {rows: '4', 'aria-label': 'Edit the message', value: node.content});
      const save = event => {
        event.preventDefault();
        if (!area.value.trim()) return;
        editing = null;
        ask(talk.add(current, talk.parentOf(current, node), {role: 'user', content: area.value.trim(), files: node.files}));
      };
      replace(body, h('form', {onsubmit: save}, area, h('div', {class: 'row'},
        h('button', {type: 'submit', class: 'main'}, 'Send'), ' ',
        h('button', {type: 'button', onclick: () => { editing = null; drawMessages(); }}, 'Cancel'))));
      replace(facts);
      area.focus();
    }
    return {element, draw};
  }

  // The receipt is a click away.
  function verifiedTag(node) {
    const {verified, receipt} = node.facts;
    const [kind, word] = {
      verified: ['good', 'verified'], verifying: ['muted', 'verifying'], disputed: ['warn', 'disputed'],
      retracted: ['bad', 'retracted'], by_draw: ['muted', 'audited by draw'], unverified: ['muted', 'not verified'],
    }[verified.state] ?? ['muted', verified.state];
    if (!receipt) return h('span', {class: `tag ${kind}`, title: verified.why ?? ''}, word);
    return h('button', {type: 'button', class: `tag ${kind}`, title: 'Show the receipt', onclick: () => showReceipt(node)}, word);
  }

  function showReceipt(node) {
    const f = node.facts;
    const dialog = h('dialog', {class: 'wide', 'aria-labelledby': 'receipt-title'},
      h('h2', {id: 'receipt-title'}, 'Receipt'),
      h('p', {}, 'The machines that computed this answer have signed what they computed, and the log of the cluster holds it.'),
      proofPart(f.receipt),
      f.verified?.why && h('p', {class: 'hint'}, f.verified.why),
      h('p', {class: 'hint'}, `Seed ${f.seed}`),
      h('div', {class: 'end'}, h('button', {type: 'button', class: 'main', onclick: () => dialog.close()}, 'Close')));
    showDialog(dialog);
  }

  function openSettings() {
    const number = ([name, label, text, stepSize]) => h('div', {class: 'field'}, h('label', {for: `set-${name}`}, label),
      h('input', {id: `set-${name}`, name, type: 'number', step: stepSize === '1' ? '1' : 'any', value: settings[name], 'aria-describedby': `set-${name}-hint`}),
      h('p', {class: 'hint', id: `set-${name}-hint`}, text));
    const choice = (name, label, text, options) => {
      const select = h('select', {id: `set-${name}`, name, 'aria-describedby': `set-${name}-hint`},
        options.map(([value, word]) => h('option', {value}, word)));
      select.value = settings[name];
      return h('div', {class: 'field'}, h('label', {for: `set-${name}`}, label), select, h('p', {class: 'hint', id: `set-${name}-hint`}, text));
    };
    const form = h('form', {method: 'dialog'},
      h('h2', {id: 'settings-title'}, 'Settings'),
      h('div', {class: 'field'}, h('label', {for: 'set-system'}, 'System prompt'),
        h('textarea', {id: 'set-system', name: 'system', rows: '4', value: settings.system, 'aria-describedby': 'set-system-hint'}),
        h('p', {class: 'hint', id: 'set-system-hint'}, 'Stands before every conversation')),
      h('div', {class: 'two'}, kNumbers.map(number),
        choice('effort', 'Reasoning', 'for models that think', [['', 'as the model does'], ['none', 'none'], ['low', 'low'], ['medium', 'medium'], ['high', 'high']]),
        choice('verify', 'Verify answers', 'recomputes the answer on other machines', [['', 'as the server does'], ['spot', 'by a later draw'], ['full', 'every answer']])),
      h('div', {class: 'end'},
        h('button', {type: 'button', onclick: () => { Object.assign(settings, kDefaults); keepSettings(); dialog.close(); }}, 'Reset all'),
        h('button', {type: 'submit', class: 'main'}, 'Done')));
    const dialog = h('dialog', {'aria-labelledby': 'settings-title'}, form);
    form.addEventListener('submit', () => {
      for (const name of Object.keys(kDefaults)) if (form.elements[name]) settings[name] = form.elements[name].value;
      keepSettings();
    });
    showDialog(dialog);
  }

  async function readFiles(chosen) {
    for (const file of chosen) {
      if (file.size > kFileBytes) {
        alert(`${file.name} has ${bytes(file.size)}; a file may have ${bytes(kFileBytes)}.`);
        continue;
      }
      try {
        files.push({name: file.name, text: new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer())});
      } catch {
        alert(`${file.name} is not a text in UTF-8.`);
      }
    }
    drawComposer();
  }

  // Asking
  function submit() {
    const text = field.value.trim();
    if ((!text && files.length === 0) || isRunning() || server.error) return;
    const user = talk.add(current, leaf(), {role: 'user', content: text, files});
    if (talk.path(current).length === 1) current.title = talk.titleOf(text || files[0].name);
    field.value = '';
    files = [];
    fit();
    ask(user);
  }
  function again(node, options) { ask(talk.parentOf(current, node), options); }
  function stop() { if (isRunning()) running.get(leaf().id).controller.abort(); }

  function requestOf(conversation, user, options) {
    const body = {model: model.value, messages: talk.prompt(conversation, user, settings.system), stream: true,
                  stream_options: {include_usage: true}};
    for (const [name] of kNumbers) if (settings[name] !== '') body[name] = Number(settings[name]);
    if (settings.effort) body.reasoning_effort = settings.effort;
    if (settings.verify) body.hearth = {verify: settings.verify};
    // The page chooses the seed, because a JSON number in a browser holds 53 bits and a seed has
    // 64.
    body.seed = options.seed ?? body.seed ?? randomSeed();
    return body;
  }

  async function ask(user, options = {}) {
    const conversation = current;
    const body = requestOf(conversation, user, options);
    const node = talk.add(conversation, user, {role: 'assistant', content: '', reasoning: '', model: body.model});
    const run = {controller: new AbortController(), wait: null};
    running.set(node.id, run);
    keep(conversation);
    let frame = null;
    const draw = () => {
      if (frame !== null) return;
      // A timer instead of a frame of the screen: a hidden page gets no frames.
      frame = setTimeout(() => { frame = null; if (open && conversation.id === current.id) follow(drawMessages); }, 60);
    };
    drawAll();
    messages.scrollTop = messages.scrollHeight;
    const begin = performance.now();
    const facts = {seed: body.seed};
    try {
      for await (const chunk of answer(body, {signal: run.controller.signal, onWait: text => { run.wait = text; draw(); }})) {
        take(node, facts, chunk, run, begin);
        draw();
      }
    } catch (error) {
      if (run.controller.signal.aborted) node.stopped = true;
      else node.error = error instanceof ConnectionLost || error.status ? error.message : `The answer could not be read: ${error.message}`;
    }
    running.delete(node.id);
    if (options.repeats) {
      facts.repeats = options.repeats;
      facts.same = conversation.messages[options.repeats]?.content === node.content;
    }
    node.facts = facts;
    keep(conversation);
    announce(node.error ?? (node.stopped ? 'Stopped.' : `Answer: ${node.content.slice(0, 600)}`));
    if (open && conversation.id === current.id) follow(drawAll);
    else if (open) drawShelf();
  }

  // Adds the content of a chunk to the message.
  function take(node, facts, chunk, run, begin) {
    const told = chunk.hearth ?? {};
    if (told.loading) {
      const l = told.loading;
      run.wait = l.state === 'waiting' ? `Waiting until another model has finished its requests, then ${l.model} is loaded.`
        : `Loading ${l.model}${l.bytes_total ? `: ${bytes(l.bytes)} of ${bytes(l.bytes_total)}` : ''}…`;
    }
    for (const choice of chunk.choices ?? []) {
      const delta = choice.delta ?? {};
      if (delta.content || delta.reasoning_content || delta.tool_calls) {
        run.wait = null;
        facts.first ??= (performance.now() - begin) / 1000;
      }
      node.content += delta.content ?? '';
      node.reasoning += delta.reasoning_content ?? '';
      for (const call of delta.tool_calls ?? []) {
        (node.calls ??= []).push({name: call.function.name, arguments: call.function.arguments});
      }
      if (choice.finish_reason) facts.finish = choice.finish_reason;
    }
    if (told.receipt) facts.receipt = told.receipt;
    if (told.verified) facts.verified = {state: told.verified.state, why: told.verified.why};
    if (told.corrected) {
      if (told.corrected.text !== undefined) node.content = told.corrected.text;
      if (told.corrected.reasoning_content !== undefined) node.reasoning = told.corrected.reasoning_content;
    }
    if (chunk.timings) facts.rate = chunk.timings.predicted_per_second;
    if (chunk.usage) facts.tokens = chunk.usage.completion_tokens;
  }

  // Draws, and keeps the end in view if it was.
  function follow(drawing) {
    const atEnd = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 80;
    drawing();
    if (atEnd) messages.scrollTop = messages.scrollHeight;
  }

  const onNews = () => { drawModels(); drawComposer(); };
  server.listeners.add(onNews);
  drawModels();
  drawAll();
  archive.list().then(async all => {
    if (!open) return;
    const running_ = list;
    list = all.map(each => running_.find(one => one.id === each.id) ?? each);
    if (!(await archive.isKept())) shelfFoot.textContent = 'This browser keeps nothing: conversations last as long as the page.';
    drawShelf();
  });
  field.focus();
  return () => {
    open = false;
    server.listeners.delete(onNews);
    removeEventListener('keydown', onKey);
    removeEventListener('click', onClick);
  };
}
