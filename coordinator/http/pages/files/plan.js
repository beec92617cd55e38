// Plan: which of the models on the server's disk fit these machines, and how fast each would be.
import {h, announce, notice, redrawer} from '/pages/dom.js';
import {json, key, ApiError} from '/pages/api.js';
import {server} from '/pages/app.js';
import {bytes, count, layers, rate, seconds} from '/pages/format.js';

const kLocked = new Error('Planning needs an admin key.');
const kUnmeasured = new Error('No machine has measured itself yet. They do so in their first seconds, unless the server was started with --stages or --place.');
const kTries = 60;
const kPause = 1000;  // milliseconds, while another plan is being made

const figure = (name, value) => h('div', {}, h('dt', {}, name), h('dd', {}, value));

async function planOf(id) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await json(`/api/v1/plan/${encodeURIComponent(id)}`);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 429) || tries === kTries) throw error;
      await new Promise(resolve => setTimeout(resolve, kPause));
    }
  }
}

function stageTable(stages, model) {
  const names = ['Machine', 'Layers', 'Weights', 'KV', 'Of its memory', 'One row', 'To the next'];
  const cell = (label, ...content) => h('td', {'data-label': label}, ...content);
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Layers of each machine, ${model}`}, h('table', {class: 'stacks'},
    h('thead', {}, h('tr', {}, names.map(name => h('th', {scope: 'col'}, name)))),
    h('tbody', {}, stages.map(stage => h('tr', {}, h('th', {scope: 'row', 'data-label': 'Machine'}, stage.node),
      cell('Layers', layers(stage.layers)), cell('Weights', bytes(stage.weight_bytes)), cell('KV', bytes(stage.kv_bytes)),
      cell('Of its memory', bytes(stage.memory_bytes)), cell('One row', seconds(stage.seconds)),
      cell('To the next', seconds(stage.to_next_seconds)))))));
}

// For more machines than the exact search takes: layer ranges with their replicas.
function rangeTable(ranges, model) {
  const names = ['Layers', 'Machines', 'Weights', 'KV', 'Tokens a second, all'];
  const cell = (label, ...content) => h('td', {'data-label': label}, ...content);
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Ranges of layers, ${model}`}, h('table', {class: 'stacks'},
    h('thead', {}, h('tr', {}, names.map(name => h('th', {scope: 'col'}, name)))),
    h('tbody', {}, ranges.map(range => h('tr', {}, h('th', {scope: 'row', 'data-label': 'Layers'}, layers(range.layers)),
      cell('Machines', range.replicas.map(one => one.node).join(', ')), cell('Weights', bytes(range.weight_bytes)),
      cell('KV', bytes(range.kv_bytes)), cell('Tokens a second, all', rate(range.all_tokens_per_second)))))));
}

function planPart(told) {
  const {plan} = told;
  const first = plan.ranges ? plan : plan.pipelines[0];
  const memory = (plan.ranges ?? first.stages).reduce((sum, one) => sum + (one.weight_bytes + one.kv_bytes) * (one.replicas?.length ?? 1), 0);
  return [
    h('dl', {class: 'figures'}, figure('Tokens a second, one stream', rate(first.tokens_per_second)),
      figure(`Together, ${count(first.streams, 'stream')}`, rate(first.all_tokens_per_second)),
      figure('Prompt tokens a second', rate(first.prompt_tokens_per_second)), figure('Memory for weights and KV', bytes(memory))),
    plan.ranges ? rangeTable(plan.ranges, told.id) : stageTable(first.stages, told.id),
    !plan.ranges && plan.pipelines.length > 1 && h('p', {class: 'hint'},
      `${count(plan.pipelines.length - 1, 'more pipeline')} of the machines that are left: ${plan.pipelines.slice(1).map(one =>
        one.stages.map(stage => stage.node).join(' → ')).join('; ')}`),
    plan.spares.length > 0 && h('ul', {}, plan.spares.map(spare => h('li', {}, `${spare.node} would be a spare: ${spare.why}`))),
    plan.improvements.length > 0 && [h('h3', {}, 'What would make it faster'), h('ul', {}, plan.improvements.map(text => h('li', {}, text)))],
    told.measured_with !== told.id && h('p', {class: 'hint'}, `Estimated from the rates at which the machines read the weights of ${told.measured_with}.`)];
}

function modelPanel(model) {
  const {told, error} = model;
  const state = told ? (told.fits ? ['good', 'fits'] : ['warn', 'does not fit']) : error ? ['bad', 'no plan'] : ['muted', 'planning…'];
  return h('section', {class: 'panel', 'aria-label': model.id},
    h('h2', {}, model.id, ' ', h('span', {class: `tag ${state[0]}`}, state[1]), model.served && [' ', h('span', {class: 'tag muted'}, 'served now')]),
    h('p', {class: 'hint'}, `${bytes(model.bytes)} on the server's disk`),
    error && notice('bad', error.message), told && !told.fits && notice('warn', told.why), told?.fits && planPart(told));
}

function content(state, again) {
  if (state.error) return notice(state.error === kLocked ? '' : state.error === kUnmeasured ? 'warn' : 'bad', state.error.message);
  if (!state.models) return h('p', {class: 'muted'}, 'Asking the server for its models…');
  return [h('p', {class: 'muted'}, 'Predicted from what these machines and their links were measured to do. In a terminal: ', h('code', {}, 'hearth plan MODEL'), '.'),
          state.models.map(modelPanel),
          h('p', {}, h('button', {type: 'button', 'data-act': 'again', disabled: state.busy, onclick: again}, 'Plan again'))];
}

export function planView(main) {
  const place = h('div');
  main.append(h('div', {class: 'inner'}, h('h1', {}, 'Plan'), place));
  main.className = 'page';
  let open = true;
  let run = 0;  // an older run ends when a newer one begins
  let asked = null;
  const measured = () => (server.state?.measured?.nodes.length ?? 0) > 0;
  const now = () => `${key()} ${Boolean(server.state)} ${measured()}`;
  let state = {models: null, error: null, busy: true};
  const redraw = redrawer(place, content);
  const draw = () => redraw(JSON.stringify([state.models?.map(one => [one, one.error?.message]), state.error?.message, state.busy]), state, plan);
  async function plan() {
    const mine = run += 1;
    const stale = () => !open || mine !== run;
    asked = now();
    state = {...state, error: null, busy: true};
    draw();
    try {
      if (!server.state) throw kLocked;
      if (!measured()) throw kUnmeasured;
      const {models} = await json('/api/v1/plan');
      if (stale()) return;
      state.models = models;
      draw();
      for (const model of models) {
        try {
          model.told = await planOf(model.id);
        } catch (error) {
          model.error = error;
        }
        if (stale()) return;
        draw();
      }
    } catch (error) {
      if (stale()) return;
      state.error = error;
    }
    state.busy = false;
    draw();
    announce('The plans are there.');
  }
  // Machines measure themselves in their first seconds; and another key may see more.
  const onNews = () => { if (asked !== now()) plan(); };
  server.listeners.add(onNews);
  plan();
  return () => { open = false; server.listeners.delete(onNews); };
}
