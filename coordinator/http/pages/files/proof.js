// The proof of one answer in readable form: the checks of receipt.js, the nodes that computed the
// answer, and the results of its audits.
import {h, command, notice, replace} from '/pages/dom.js';
import {json} from '/pages/api.js';
import {count, when} from '/pages/format.js';
import {checkAnswer, hex, Incomplete, whyNot, Wrong} from '/pages/receipt.js';

const kTries = 16;  // the server logs receipts within about a second after the answer
const kPause = 750;  // milliseconds

async function prove(name) {
  for (let tries = 1; ; tries += 1) {
    const told = await json(`/api/v1/receipts/${encodeURIComponent(name)}`);
    try {
      return await checkAnswer(name, told);
    } catch (error) {
      if (!(error instanceof Incomplete) || tries === kTries) throw error;
    }
    await new Promise(resolve => setTimeout(resolve, kPause));
  }
}

function auditWord({agreed, differed, verdict}) {
  if (verdict) return ['bad', `verdict: ${verdict}`];
  if (differed > 0) return ['warn', 'disputed'];
  return agreed > 0 ? ['good', `${count(agreed, 'audit')} agreed`] : ['muted', 'not audited yet'];
}

function proved({checkpoint, receipts}) {
  const cell = (label, ...content) => h('td', {'data-label': label}, ...content);
  const names = ['Positions', 'Layers', 'Computed by', 'When', 'Audits'];
  return [
    notice('good', h('strong', {}, 'Checked in this browser. '),
      `${count(receipts.length, 'receipt')}: each is signed by the machine that computed, neighbours agree on what passed between them, and the log that the key below has signed holds it.`),
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Receipts'}, h('table', {class: 'stacks'},
      h('thead', {}, h('tr', {}, names.map(name => h('th', {scope: 'col'}, name)))),
      h('tbody', {}, receipts.map(one => {
        const [kind, word] = auditWord(one.audits);
        return h('tr', {}, cell('Positions', `${one.first} to ${one.first + one.positions}`),
          cell('Layers', `${one.layerBegin}-${one.layerEnd - 1}`),
          cell('Computed by', h('span', {title: hex(one.worker)}, one.name || `${hex(one.worker).slice(0, 16)}…`)),
          cell('When', when(one.begun)),
          cell('Audits', h('span', {class: `tag ${kind}`}, word)));
      })))),
    h('p', {class: 'hint'}, `The log has ${checkpoint.size.toLocaleString('en')} entries, ${checkpoint.witnesses > 0
      ? `${count(checkpoint.witnesses, 'key', 'keys')} cosigned this state as witnesses` : 'no witness has cosigned this state yet'}. Its key is `,
      h('code', {class: 'wraps'}, hex(checkpoint.key)), '. A server that lies can make up a log with another key: compare the key with the one that you know. Names, audits and which keys are witnesses are what the server says. A log cannot show that the receipts of the last positions are missing.')];
}

// An element that requests the receipts of this answer, checks them, and shows the result.
export function proofPart(name) {
  const place = h('div', {'aria-live': 'polite'}, h('p', {class: 'muted'}, 'Checking the signatures and the log…'));
  const run = async () => {
    try {
      const why = await whyNot();
      if (why) {
        replace(place, notice('warn', `${why} On the machine of the server this command checks the receipt:`));
        return;
      }
      replace(place, proved(await prove(name)));
    } catch (error) {
      const isWrong = error instanceof Wrong && !(error instanceof Incomplete);
      replace(place, notice(isWrong ? 'bad' : 'warn', h('strong', {}, error instanceof Wrong ? 'Not proved: ' : 'Not checked: '),
        error.message, error instanceof Incomplete && '. A machine that was lost, or that makes no receipts, leaves some out.'));
    }
  };
  run();
  return h('div', {}, place, h('details', {}, h('summary', {}, 'In a terminal'), h('p', {class: 'hint'},
    'On the machine of the server; with the saved answer, --re-execute also computes it again:'), command(`hearth verify ${name}`)));
}
