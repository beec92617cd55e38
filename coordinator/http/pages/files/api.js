// Requests to the server that these pages come from, with the visitor's API key. The key goes into a
// header, never into a cookie: a page of another site cannot make the browser send it.

const kStored = 'hearth.key';

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class ConnectionLost extends Error {
  constructor() { super('The server does not answer. It may be restarting, or the network is down.'); }
}

export function key() {
  return sessionStorage.getItem(kStored) ?? localStorage.getItem(kStored) ?? '';
}
// `remember`: beyond this tab.
export function setKey(value, remember) {
  sessionStorage.removeItem(kStored);
  localStorage.removeItem(kStored);
  if (value) (remember ? localStorage : sessionStorage).setItem(kStored, value);
}

// Crypto.randomUUID() is there on encrypted pages only.
export function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)),
                    byte => byte.toString(16).padStart(2, '0')).join('');
}

async function send(path, {method = 'GET', body, signal, headers = {}} = {}) {
  const all = {...headers};
  if (key()) all.Authorization = `Bearer ${key()}`;
  if (body !== undefined) all['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method, signal, headers: all, cache: 'no-store', credentials: 'omit', redirect: 'error',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ConnectionLost();
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => '');
  let told = {};
  try { told = JSON.parse(text).error ?? {}; } catch { /* not of this server */ }
  throw new ApiError(response.status, told.code ?? '', told.message ?? `The server answered ${response.status}.`);
}

export async function json(path, options) {
  const response = await send(path, options);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new ConnectionLost();
  }
}

// The events of a text/event-stream: {id, data}. Comments are left out.
export async function* parseEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = {id: null, data: []};
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const raw of lines) {
        const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
        if (line === '') {
          if (event.data.length > 0) yield {id: event.id, data: event.data.join('\n')};
          event = {id: null, data: []};
        } else if (line.startsWith('data:')) {
          event.data.push(line.slice(line[5] === ' ' ? 6 : 5));
        } else if (line.startsWith('id:')) {
          event.id = line.slice(3).trim();
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const kTries = 30;
const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));

// The chunks of a chat completion. A connection that ends early is taken up again where it ended: the
// request has an Idempotency-Key, so its answer goes on without a reader, and even through a restart
// of the server. The server forgets prompt and answer when the stream has ended or was stopped.
// `onWait`: called with a text while the connection is being restored, with null when it is back.
export async function* answer(body, {signal, onWait = () => {}}) {
  const name = randomName();
  let last = null;
  let tries = 0;
  const forget = () => json('/v1/requests', {method: 'DELETE', headers: {'Idempotency-Key': name}})
    .catch(() => { /* it forgets by itself after ten minutes */ });
  try {
    for (;;) {
      try {
        const headers = {'Idempotency-Key': name};
        if (last !== null) headers['Last-Event-ID'] = last;
        const response = await send('/v1/chat/completions', {method: 'POST', body, signal, headers});
        if (tries > 0) onWait(null);
        for await (const event of parseEvents(response.body)) {
          tries = 0;
          if (event.data === '[DONE]') return;
          const chunk = JSON.parse(event.data);
          if (chunk.error) throw new ApiError(500, chunk.error.code ?? '', chunk.error.message);
          yield chunk;
          if (event.id) last = event.id;
        }
        throw new ConnectionLost();
      } catch (error) {
        if (signal.aborted) throw error;
        const again = tries > 0 && error instanceof ApiError && [429, 502, 503].includes(error.status);
        const lost = !(error instanceof ApiError) && !(error instanceof SyntaxError);
        if ((!lost && !again) || ++tries > kTries) throw error;
        onWait('Connection lost. Reconnecting…');
        await pause(Math.min(250 * 2 ** Math.min(tries, 4), 4000));
      }
    }
  } finally {
    forget();
  }
}
