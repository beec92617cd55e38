// Swarm: the machines, their layers and states, and what is missing; for an admin, also orders to
// them.
import {h, command, notice, redrawer} from '/pages/dom.js';
import {server} from '/pages/app.js';
import {machineButtons, membersPart} from '/pages/members.js';
import {bytes, count, layers, linkRate, rate, seconds, sentence} from '/pages/format.js';

const kKinds = {serving: 'good', checking: 'good', paused: 'warn', lost: 'bad'};  // of states

function figure(name, value) { return h('div', {}, h('dt', {}, name), h('dd', {}, value)); }

function headline(state) {
  const models = state.models ?? [];
  return h('section', {class: 'panel', 'aria-label': 'Now'},
    h('dl', {class: 'figures'},
      figure('Model', state.model.id),
      figure('Tokens a second', rate(state.tokens_per_second)),
      figure('Prompt tokens a second', rate(state.prompt_tokens_per_second)),
      figure('Requests running', String(state.running)),
      figure('Requests waiting', String(state.waiting))),
    models.length > 1 && h('p', {class: 'hint'}, 'Models: ', models.map(one =>
      `${one.id} (${one.state}${one.waiting ? `, ${count(one.waiting, 'request')} waiting` : ''})`).join(', ')));
}

function missing(state) {
  if (state.ready) return null;
  const needs = state.uncovered.map(each => h('li', {}, `${layers(each.layers)}: `,
    each.memory_bytes ? `a machine with ${bytes(each.memory_bytes)} of free memory` : 'a machine'));
  return notice('warn', h('strong', {}, 'The swarm does not serve yet. '), sentence(state.missing),
                needs.length > 0 && h('ul', {}, needs));
}

function linkBetween(state, from, to) {
  return state.measured?.links.find(each => each.from === from && each.to === to);
}

// A model that keeps a state for each sequence has a most of them; further ones wait.
function running(pipeline) {
  return pipeline.sequences > 0 ? `${pipeline.running} of at most ${count(pipeline.sequences, 'sequence')}`
    : count(pipeline.running, 'sequence');
}

function pipelines(state) {
  if (state.pipelines.length === 0) return null;
  const byName = new Map(state.nodes.map(node => [node.name, node]));
  return h('section', {class: 'panel'}, h('h2', {}, state.pipelines.length > 1 ? 'Pipelines' : 'Pipeline'),
    state.pipelines.map((pipeline, number) => h('div', {},
      h('p', {class: 'hint'}, `${number + 1}: ${pipeline.state}, ${running(pipeline)} running, `,
        modelOf(state, pipeline).id !== state.model.id && `model ${pipeline.model}, `,
        `KV pages ${pipeline.kv_pages_reserved.toLocaleString('en')} of ${pipeline.kv_pages.toLocaleString('en')} reserved`),
      h('ol', {class: 'path'}, pipeline.nodes.map((name, i) => {
        const next = pipeline.nodes[i + 1];
        const link = next && linkBetween(state, name, next);
        return h('li', {},
          h('div', {class: 'stop'}, h('strong', {}, name), h('span', {}, layers(byName.get(name)?.layers ?? [0, 0]))),
          next && h('span', {class: 'hop'}, '→', link && [h('br'), linkRate(link.bytes_per_second), h('br'), seconds(link.seconds)]));
      })))));
}

// [kind, word]
function stateOf(node) {
  const word = node.away && node.state !== 'lost' ? (node.away.drain ? 'draining' : 'paused') : node.state;
  return [kKinds[word] ?? 'muted', word];
}

// All states of a node that its owner should know, as sentences.
function remarks(node) {
  const out = [];
  if (node.away) {
    const until = node.away.until ? ` until ${new Date(node.away.until * 1000).toLocaleTimeString([], {timeStyle: 'short'})}` : '';
    out.push(`${node.away.drain ? 'draining' : 'paused'}${node.away.why ? ` (${node.away.why})` : ''}${until}`);
  }
  for (const field of ['spare', 'slow', 'barred', 'unreceipted', 'newcomer']) if (node[field]) out.push(node[field]);
  if (node.held) out.push(`fetching ${layers(node.held.layers)}: ${bytes(node.held.bytes)} of ${bytes(node.held.bytes_total)}`);
  if (node.heartbeat_age_seconds > 5) out.push(`last heard ${seconds(node.heartbeat_age_seconds)} ago`);
  return out.length > 0 ? out : ['-'];
}

function gpu(card) {
  if (!card) return null;
  return [card.busy_percent !== undefined && `${card.busy_percent} % busy`,
          card.memory_used !== undefined && `${bytes(card.memory_used)} used`,
          card.celsius !== undefined && `${card.celsius} °C`,
          card.watts !== undefined && `${Math.round(card.watts)} W`].filter(Boolean).join(', ');
}

function layerBar(node, total) {
  const [begin, end] = node.layers;
  const bar = h('div', {class: 'span', role: 'img', 'aria-label': `${layers(node.layers)} of ${total}`});
  if (end > begin) {
    const part = h('i');
    part.style.left = `${(100 * begin) / total}%`;
    part.style.width = `${(100 * (end - begin)) / total}%`;
    bar.append(part);
  }
  return bar;
}

// Of the machine's model, which may be loaded beside the others' one.
function modelOf(state, node) {
  return state.models?.find(each => each.id === node.model) ?? state.model;
}

function nodeRow(state, node, manages) {
  const [kind, word] = stateOf(node);
  const model = modelOf(state, node);
  const level = node.standing?.level;
  const cell = (label, ...content) => h('td', {'data-label': label}, ...content);
  return h('tr', {},
    h('th', {scope: 'row', 'data-label': 'Machine'}, node.name),
    cell('State', h('span', {class: `tag ${kind}`}, word)),
    cell('Layers', h('div', {}, layers(node.layers), model.id !== state.model.id && ` of ${model.id}`, layerBar(node, model.layers))),
    cell('Computes with', h('div', {}, node.device || 'CPU', h('div', {class: 'hint'},
      node.card ? gpu(node.card) : `${count(node.threads, 'thread')}, ${node.isa}`))),
    cell('Weights', bytes(node.weight_bytes)),
    cell('Busy', `${Math.round(node.busy_ratio * 100)} %`),
    cell('Rows a second', rate(node.rows_per_second)),
    cell('Standing', level ?? '-'),
    cell('Remarks', h('div', {}, remarks(node).map(text => h('div', {}, text)))),
    manages && cell('Actions', machineButtons(node) ?? '-'));
}

function machines(state, manages) {
  if (state.nodes.length === 0) {
    return h('section', {class: 'panel'}, h('h2', {}, 'Machines'),
      h('p', {class: 'muted'}, 'No machine has joined. The first one may be this one: ', h('code', {}, 'hearth worker'), '.'));
  }
  const names = ['Machine', 'State', 'Layers', 'Computes with', 'Weights', 'Busy', 'Rows a second', 'Standing', 'Remarks',
                 ...(manages ? ['Actions'] : [])];
  return h('section', {class: 'panel'}, h('h2', {}, 'Machines'),
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Machines'},
      h('table', {class: 'stacks'}, h('thead', {}, h('tr', {}, names.map(name => h('th', {scope: 'col'}, name)))),
        h('tbody', {}, state.nodes.map(node => nodeRow(state, node, manages))))),
    copies(state));
}

// The number of serving machines that hold each layer: with one copy, the loss of its machine
// interrupts answers.
function copies(state) {
  const held = new Array(state.model.layers).fill(0);
  for (const pipeline of state.pipelines) {
    if (modelOf(state, pipeline).id !== state.model.id) continue;
    for (const name of pipeline.nodes) {
      const node = state.nodes.find(each => each.name === name);
      if (!node || node.state === 'lost') continue;
      for (let i = node.layers[0]; i < node.layers[1]; i += 1) held[i] += 1;
    }
  }
  const least = Math.min(...held);
  const spares = state.nodes.filter(node => node.spare && !node.away && node.state !== 'lost').length;
  if (!state.ready) return null;
  return h('p', {class: 'hint'}, least > 1 ? `Every layer is on at least ${least} machines. `
    : 'Each layer is on one machine in a pipeline. ', spares > 0 && `${count(spares, 'machine')} could take over.`);
}

function audits(state) {
  if (!state.audits || state.audits.mode === 'off') return null;
  const a = state.audits;
  return h('section', {class: 'panel'}, h('h2', {}, 'Audits'),
    h('dl', {class: 'figures'}, figure('Recomputed, equal', a.agreed.toLocaleString('en')),
      figure('Disputed', a.disputed.toLocaleString('en')), figure('Waiting', a.waiting.toLocaleString('en')),
      figure('Missed', a.missed.toLocaleString('en'))),
    a.why_waiting && h('p', {class: 'hint'}, `${sentence(a.why_waiting)}.`),
    state.credits && h('p', {class: 'hint'}, `Credit of this server's account: ${state.credits.balance.toLocaleString('en')}, of ${state.credits.in_circulation.toLocaleString('en')} in circulation.`));
}

function howToAdd(state, manages) {
  if (manages) return null;
  return h('section', {class: 'panel'}, h('h2', {}, 'Add a machine'),
    state.joinable
      ? [h('p', {}, 'On this server, make a join token; on the other machine, paste it:'),
         command('hearth token create'), command('hearth join hh1…')]
      : [h('p', {}, 'This server takes only workers of its own machine. To let others join, give the cluster a name once and restart the server:'),
         command('hearth init home'), command(`hearth serve --model ${state.model.id}`)],
    h('p', {class: 'hint'}, 'The owner of a machine pauses it with ', h('code', {}, 'hearth pause'), ' and takes it out with ',
      h('code', {}, 'hearth leave'), '. An admin does both to another machine: ', h('code', {}, 'hearth pause --node NAME'), ', ',
      h('code', {}, 'hearth nodes rm NAME'), '.'));
}

function content(state, error, manages) {
  if (!state) {
    return [h('h1', {}, 'Swarm'), error ? notice('bad', error.message)
      : notice('', 'This key may send prompts only. The state of the swarm needs an admin key: ', h('code', {}, 'hearth key create --admin NAME'), '.')];
  }
  return [h('h1', {}, state.cluster || 'Swarm'), error && notice('bad', error.message, ' What follows is what it last said.'),
          missing(state), headline(state), pipelines(state), machines(state, manages), audits(state), howToAdd(state, manages)];
}

export function swarmView(main) {
  const inner = h('div', {class: 'inner'});
  const now = h('div');
  const members = h('div');
  inner.append(now, members);
  main.append(inner);
  main.className = 'page';
  let manages = false;
  const redraw = redrawer(now, content);
  const draw = () => {
    const {state, error} = server;
    const scrolled = main.scrollTop;
    const wasTable = document.activeElement?.className === 'scroll' && now.contains(document.activeElement);
    redraw(JSON.stringify([state, error?.message, manages]), state, error, manages);
    main.scrollTop = scrolled;
    if (wasTable) now.querySelector('.scroll')?.focus({preventScroll: true});
  };
  server.listeners.add(draw);
  draw();
  const end = membersPart(members, admin => { if (admin !== manages) { manages = admin; draw(); } });
  return () => { server.listeners.delete(draw); end(); };
}
