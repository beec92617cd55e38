// Ledger: standings of nodes, results of audits, verdicts and credits; and the proof of an answer,
// by its receipt.
import {h, notice, redrawer, replace} from '/pages/dom.js';
import {json, key, ApiError} from '/pages/api.js';
import {server} from '/pages/app.js';
import {count, when} from '/pages/format.js';
import {proofPart} from '/pages/proof.js';

const kLocked = new Error('the ledger needs an admin key');
const kNone = new Error('This server keeps no ledger (--no-receipts).');
const kEvery = 10000;  // milliseconds between two looks
const kLevels = {veteran: 'good', regular: 'good', probation: 'muted', newcomer: 'muted', ended: 'bad'};
const kVerdicts = {fault: 'warn', fraud: 'bad', unjudged: 'muted'};

const number = value => value.toLocaleString('en');
const figure = (name, value) => h('div', {}, h('dt', {}, name), h('dd', {}, value));
const who = one => h('span', {title: one.key ?? ''}, one.name ?? (one.key ? `${one.key.slice(0, 16)}…` : '-'));

function table(label, names, rows) {
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label}, h('table', {class: 'stacks'},
    h('thead', {}, h('tr', {}, names.map(name => h('th', {scope: 'col'}, name)))),
    h('tbody', {}, rows.map(cells => h('tr', {}, cells.map((cell, i) => i === 0
      ? h('th', {scope: 'row', 'data-label': names[i]}, cell) : h('td', {'data-label': names[i]}, cell)))))));
}

function standings(told) {
  const names = ['Machine', 'Standing', 'Windows served', 'Audited, right', 'Faults', 'In dispute', 'Audited share',
                 ...(told.credits ? ['Balance', 'Escrow'] : [])];
  const level = one => h('span', {}, h('span', {class: `tag ${kLevels[one.standing] ?? 'muted'}`}, one.standing === 'ended' ? 'banned' : one.standing),
    one.checks !== undefined && h('span', {class: 'hint'}, ` ${count(one.checks, 'check')} on ${count(one.check_days, 'day')}`));
  return h('section', {class: 'panel'}, h('h2', {}, 'Standings'),
    told.members.length === 0 ? h('p', {class: 'muted'}, 'No machine has computed for the ledger yet. Ask something in the chat.')
      : table('Standings', names, told.members.map(one => [who(one), level(one), number(one.windows_served), number(one.audited_right),
        number(one.faults), number(one.in_dispute), `${(one.audit_rate_ppm / 1e4).toFixed(1)} %`,
        ...(told.credits ? [number(one.balance), number(one.escrow)] : [])])));
}

function audits(told) {
  const a = told.audits;
  return h('section', {class: 'panel'}, h('h2', {}, 'Audits and verdicts'),
    h('dl', {class: 'figures'}, figure('Windows drawn', number(a.selected)), figure('Recomputed, equal', number(a.agreed)),
      figure('Recomputed, different', number(a.disagreed)), figure('Missed', number(a.missed)),
      figure('Open disputes', number(a.open_disputes)), figure('By the server\'s referee', number(a.refereed))),
    told.verdicts.length === 0
      ? h('p', {class: 'hint'}, `No verdict among the latest ${number(Math.min(told.entries, told.verdicts_of_entries))} entries.`)
      : table('Verdicts', ['Entry', 'When', 'Verdict', 'Against', 'About entry'], told.verdicts.map(one => [number(one.entry),
        when(one.time * 1000), h('span', {class: `tag ${kVerdicts[one.verdict]}`}, one.verdict), who(one), number(one.receipt)])));
}

function credits(told) {
  if (!told.credits) return null;
  return h('section', {class: 'panel'}, h('h2', {}, 'Credits'),
    h('p', {}, `${number(told.in_circulation)} credits are in circulation.`),
    told.payers.length > 0 && table('Accounts that pay', ['Account', 'Balance'], told.payers.map(one => [who(one), number(one.balance)])),
    told.payers_total > told.payers.length && h('p', {class: 'hint'}, `${number(told.payers_total - told.payers.length)} more accounts are not shown.`));
}

function content(told, error) {
  if (error === kLocked) return notice('', 'The ledger needs an admin key. A receipt can be checked with any key.');
  if (error) return notice(error === kNone ? '' : 'bad', error.message);
  if (!told) return h('p', {class: 'muted'}, 'Reading the ledger…');
  return [h('p', {class: 'muted'}, `${count(told.entries, 'entry', 'entries')} in the log`, told.entries > 0 && `, the latest of ${when(told.time * 1000)}`, '.'),
          standings(told), audits(told), credits(told)];
}

function receiptForm(place) {
  const input = h('input', {id: 'receipt', name: 'receipt', autocomplete: 'off', spellcheck: 'false', required: true,
                            pattern: '[0-9a-fA-F]{28}', 'aria-describedby': 'receipt-hint', title: '28 hexadecimal digits'});
  const show = name => replace(place, name && proofPart(name));
  const submit = event => {
    event.preventDefault();
    const name = input.value.trim().toLowerCase();
    if (location.hash === `#/ledger/${name}`) show(name); else location.hash = `#/ledger/${name}`;
  };
  const follow = () => {
    const name = location.hash.split('/')[2] ?? '';
    if (!/^[0-9a-f]{28}$/.test(name)) return;
    input.value = name;
    show(name);
  };
  const form = h('form', {onsubmit: submit}, h('div', {class: 'field'}, h('label', {for: 'receipt'}, 'Receipt of an answer'), input,
    h('p', {class: 'hint', id: 'receipt-hint'}, 'The field hearth.receipt of an answer; in the chat, the badge below it')),
    h('button', {type: 'submit', class: 'main'}, 'Check'));
  return {form, follow};
}

export function ledgerView(main) {
  const now = h('div');
  const proof = h('div');
  const {form, follow} = receiptForm(proof);
  main.append(h('div', {class: 'inner'}, h('h1', {}, 'Ledger'),
    h('section', {class: 'panel'}, h('h2', {}, 'Check an answer'), form, proof), now));
  main.className = 'page';
  let open = true;
  let timer = null;
  let asked = null;
  const allowed = () => `${key()} ${Boolean(server.state?.ledger)}`;
  const draw = redrawer(now, content);
  async function look() {
    clearTimeout(timer);
    asked = allowed();
    let told = null;
    let error = null;
    if (!server.state) error = kLocked;
    else if (!server.state.ledger) error = kNone;
    else try { told = await json('/api/v1/ledger'); } catch (thrown) { error = thrown; }
    if (!open) return;
    if (!(error instanceof ApiError && error.status === 429)) draw(JSON.stringify([told, error?.message]), told, error);
    if (server.state?.ledger) timer = setTimeout(look, kEvery);
  }
  const onNews = () => { if (asked !== allowed()) look(); };
  server.listeners.add(onNews);
  addEventListener('hashchange', follow);
  draw('', null, null);
  follow();
  look();
  return () => { open = false; clearTimeout(timer); removeEventListener('hashchange', follow); server.listeners.delete(onNews); };
}
