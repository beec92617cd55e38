// Checks the receipts of one answer in the browser: each is signed by its worker, neighbours agree
// on what passed between them, and the log's signed tree holds it (ledger/PROTOCOL.md,
// ledger/receipt.h, ledger/note.h, ledger/merkle.h). Bytes of the server are not trusted: what is
// wrong is thrown as a Wrong. No page, no request; WebCrypto only.

export class Wrong extends Error {}
// A receipt is missing: it may be logged a moment later.
export class Incomplete extends Wrong {}

const kReceiptBytes = 448;
const kReceiptAt = 41;  // in an entry: its kind, its time and the payer stand before
const kEntryBytes = kReceiptAt + kReceiptBytes + 4;
const kSignatureBytes = 64;
const kWindow = 4096;  // positions
const kStages = 512;
const kLayers = 512;
const kContext = 1048576;
const kLogPrefix = 'hearth-log/';
const kWitnessPrefix = 'hearth-node/';

const text = value => new TextEncoder().encode(value);
const must = (condition, why) => { if (!condition) throw new Wrong(why); };
const need = (condition, why) => { if (!condition) throw new Incomplete(why); };
export const hex = bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');

function unhex(value) {
  must(/^([0-9a-f]{2})+$/.test(value), 'a key is not written in hexadecimal digits');
  return Uint8Array.from(value.match(/../g), pair => parseInt(pair, 16));
}
function unbase64(value) {
  try {
    return Uint8Array.from(atob(value), character => character.charCodeAt(0));
  } catch {
    throw new Wrong('a field is not base64');
  }
}
function join(...parts) {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { out.set(part, at); at += part.length; }
  return out;
}
const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);
const sha256 = async bytes => new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));

const keys = new Map();  // imported, by their digits
async function verify(key, signature, message) {
  const digits = hex(key);
  if (!keys.has(digits)) {
    let imported = null;
    try { imported = await crypto.subtle.importKey('raw', key, {name: 'Ed25519'}, false, ['verify']); } catch (error) {
      if (error.name === 'NotSupportedError') throw error;
    }
    keys.set(digits, imported);  // null: the bytes are no key
  }
  const found = keys.get(digits);
  return found !== null && crypto.subtle.verify({name: 'Ed25519'}, found, signature, message);
}

// Why this browser cannot check; null: it can.
export async function whyNot() {
  if (!globalThis.crypto?.subtle) {
    return 'A browser gives its cryptography to encrypted pages and to pages of its own machine only.';
  }
  try {
    await crypto.subtle.importKey('raw', new Uint8Array(32), {name: 'Ed25519'}, false, ['verify']);
  } catch (error) {
    if (error.name === 'NotSupportedError') return 'This browser does not know Ed25519 signatures; newer ones do.';
  }
  return null;
}

// The log's signed state: {key, size, root, witnesses}.
export async function readCheckpoint(note) {
  const blank = note.lastIndexOf('\n\n');
  must(blank > 0 && note.endsWith('\n'), 'the checkpoint is no signed note');
  const signed = note.slice(0, blank + 1);
  const lines = signed.split('\n');
  must(lines.length === 4 && lines[0].startsWith(kLogPrefix), 'the checkpoint has not three lines');
  const key = unhex(lines[0].slice(kLogPrefix.length));
  must(key.length === 32, 'the log\'s key has not 32 bytes');
  must(/^(0|[1-9][0-9]{0,15})$/.test(lines[1]), 'the checkpoint states no number of entries');
  const size = Number(lines[1]);
  must(Number.isSafeInteger(size), 'the checkpoint states too many entries');
  const root = unbase64(lines[2]);
  must(root.length === 32, 'the checkpoint\'s root is no hash');
  let isSigned = false;
  const witnesses = new Set();
  for (const line of note.slice(blank + 2).split('\n').slice(0, -1)) {
    const [dash, name, encoded] = line.split(' ');
    must(dash === '\u2014' && name && encoded, 'a line of the checkpoint is no signature');
    const bytes = unbase64(encoded);
    if (name === lines[0]) {
      const id = (await sha256(join(text(`${name}\n`), Uint8Array.of(1), key))).slice(0, 4);
      if (!same(id, bytes.slice(0, 4))) continue;
      must(await verify(key, bytes.slice(4), text(signed)), 'the log\'s signature of the checkpoint is wrong');
      isSigned = true;
    } else if (name.startsWith(kWitnessPrefix)) {
      const witness = unhex(name.slice(kWitnessPrefix.length));
      const id = (await sha256(join(text(`${name}\n`), Uint8Array.of(4), witness))).slice(0, 4);
      if (!same(id, bytes.slice(0, 4)) || bytes.length !== 4 + 8 + kSignatureBytes) continue;
      const time = new DataView(bytes.buffer).getBigUint64(4);
      const message = text(`cosignature/v1\ntime ${time}\n${signed}`);
      must(await verify(witness, bytes.slice(12), message), 'a witness\'s signature of the checkpoint is wrong');
      must(!witnesses.has(name), 'a witness has signed the checkpoint twice');
      witnesses.add(name);
    }
  }
  must(isSigned, 'the log has not signed the checkpoint');
  return {key, size, root, witnesses: witnesses.size};
}

// RFC 9162, section 2.1.3.2, with numbers above 2^31.
export async function checkInclusion(entry, index, size, proof, root) {
  const what = `entry ${index}: `;
  must(Number.isSafeInteger(index) && index >= 0 && index < size, `${what}the log has ${size} entries`);
  let hash = await sha256(join(Uint8Array.of(0), entry));
  let at = index;
  let last = size - 1;
  const half = value => Math.floor(value / 2);
  for (const sibling of proof) {
    must(last > 0, `${what}its proof is too long`);
    if (at % 2 === 1 || at === last) {
      hash = await sha256(join(Uint8Array.of(1), sibling, hash));
      while (at % 2 === 0 && at !== 0) { at = half(at); last = half(last); }
    } else {
      hash = await sha256(join(Uint8Array.of(1), hash, sibling));
    }
    at = half(at);
    last = half(last);
  }
  must(last === 0, `${what}its proof is too short`);
  must(same(hash, root), `${what}it is not in the tree that the log has signed`);
}

export function readReceipt(entry) {
  must(entry.length === kEntryBytes && entry[0] === 5, 'an entry is no receipt');
  const bytes = entry.slice(kReceiptAt, kReceiptAt + kReceiptBytes);
  must(String.fromCharCode(...bytes.slice(0, 4)) === 'HRC1', 'an entry is no receipt');
  const view = new DataView(bytes.buffer);
  const at = (begin, length) => bytes.slice(begin, begin + length);
  const out = {
    bytes, epoch: at(4, 8), request: at(12, 16), program: at(28, 32), layerBegin: view.getUint16(60, true),
    layerEnd: view.getUint16(62, true), stage: view.getUint16(64, true), stages: view.getUint16(66, true),
    window: view.getUint32(68, true), first: view.getUint32(72, true), positions: view.getUint32(76, true),
    promptPositions: view.getUint32(80, true), tokens: at(84, 32), inRoot: at(116, 32), outRoot: at(148, 32),
    begun: Number(view.getBigUint64(212, true)), took: view.getUint32(220, true), worker: at(224, 32),
    inEdge: at(256, 64), outEdge: at(320, 64)};
  must(out.stage < out.stages && out.stages <= kStages && out.layerBegin < out.layerEnd && out.layerEnd <= kLayers
       && out.positions > 0 && out.positions <= kWindow && out.first + out.positions <= kContext
       && out.first === out.window * kWindow && out.promptPositions <= out.positions, 'a receipt breaks its format');
  must(out.stages === 1 || !same(out.inRoot, out.outRoot), 'a receipt\'s output is its input');
  must(out.stage > 0 || same(out.inRoot, out.tokens), 'a receipt of the first stage has other input than its tokens');
  must(out.stage + 1 < out.stages || same(out.outRoot, out.tokens), 'a receipt of the last stage has other output than its tokens');
  return out;
}

const purpose = name => join(text(name), Uint8Array.of(0));

function checkWorker(receipt, cluster) {
  const message = join(purpose('hearth receipt v1'), cluster, receipt.bytes.slice(0, kReceiptBytes - kSignatureBytes));
  return verify(receipt.worker, receipt.bytes.slice(kReceiptBytes - kSignatureBytes), message);
}

// `below`: the number of the stage that the edge leads to.
function checkEdge(receipt, below, root, cluster, signer, signature) {
  const numbers = new DataView(new ArrayBuffer(6));
  numbers.setUint16(0, below, true);
  numbers.setUint32(2, receipt.window, true);
  const message = join(purpose('hearth edge v1'), cluster, receipt.request, receipt.epoch, new Uint8Array(numbers.buffer), root);
  return verify(signer, signature, message);
}
const checkIn = (receipt, cluster, signer) => checkEdge(receipt, receipt.stage, receipt.inRoot, cluster, signer, receipt.inEdge);
const checkOut = (receipt, cluster, signer) => checkEdge(receipt, receipt.stage + 1, receipt.outRoot, cluster, signer, receipt.outEdge);

async function checkWindow(stages, cluster) {
  const name = `window ${stages[0].window}: `;
  const wanted = stages[0].stages;
  for (let i = 0; i < wanted; i += 1) {
    const here = stages[i];
    need(here?.stage === i && here.stages === wanted, `${name}stage ${i} of ${wanted} has no receipt`);
    if (i === 0) continue;
    const above = stages[i - 1];
    const where = `${name}stages ${i - 1} and ${i}: `;
    must(above.layerEnd === here.layerBegin && same(above.program, here.program) && same(above.tokens, here.tokens)
         && above.first === here.first && above.positions === here.positions && above.promptPositions === here.promptPositions,
         `${where}they state different models, layers, tokens or positions`);
    must(same(above.outRoot, here.inRoot), `${where}what went out is not what came in`);
    must(await checkIn(here, cluster, above.worker), `${where}the sender has not signed what it sent`);
    must(await checkOut(above, cluster, here.worker), `${where}the receiver has not signed what it received`);
  }
  must(stages.length === wanted, `${name}a stage has two receipts`);
  must(await checkIn(stages[0], cluster, cluster), `${name}the cluster has not signed the tokens that went in`);
  must(await checkOut(stages[wanted - 1], cluster, cluster), `${name}the cluster has not signed the tokens that came out`);
}

function order(a, b) {
  const first = hex(a.request) + hex(a.epoch.slice().reverse());
  const second = hex(b.request) + hex(b.epoch.slice().reverse());
  if (first !== second) return first < second ? -1 : 1;
  return a.window - b.window || a.stage - b.stage;
}

// `told`: the answer of GET /api/v1/receipts/NAME. Returns what was checked, or throws a Wrong.
export async function checkAnswer(name, told) {
  must(/^[0-9a-f]{28}$/.test(name), 'a receipt has 28 hexadecimal digits');
  const checkpoint = await readCheckpoint(told.checkpoint);
  need(told.receipts.length > 0, 'the log has no receipt of this answer');
  const receipts = [];
  for (const one of told.receipts) {
    const entry = unbase64(one.bytes);
    await checkInclusion(entry, one.entry, checkpoint.size, one.proof.map(unbase64), checkpoint.root);
    const receipt = readReceipt(entry);
    must(hex(receipt.request).startsWith(name), `entry ${one.entry}: it is of another answer`);
    must(await checkWorker(receipt, checkpoint.key), `entry ${one.entry}: its signature is not its worker's`);
    receipts.push({...receipt, entry: one.entry, name: one.worker, audits: one.audits});
  }
  receipts.sort(order);
  const windowOf = receipt => hex(receipt.request) + hex(receipt.epoch) + receipt.window;
  let before = null;
  for (let begin = 0; begin < receipts.length;) {
    const first = receipts[begin];
    const continues = before && same(before.request, first.request) && same(before.epoch, first.epoch);
    need(first.window === (continues ? before.window + 1 : 0), `window ${first.window}: what is before it has no receipts`);
    let end = begin;
    while (end < receipts.length && windowOf(receipts[end]) === windowOf(first)) end += 1;
    await checkWindow(receipts.slice(begin, end), checkpoint.key);
    if (continues) {
      must(before.positions === kWindow, `window ${before.window}: only the last window may be partly filled`);
      must(first.promptPositions === 0 || before.promptPositions === before.positions,
           `window ${first.window}: prompt positions follow generated ones`);
    }
    before = first;
    begin = end;
  }
  return {checkpoint, receipts};
}
