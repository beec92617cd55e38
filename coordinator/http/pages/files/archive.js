// The conversations, in this browser only (IndexedDB). Where the browser keeps nothing (a private
// window), they last as long as the page.

const kName = 'hearth';
const kTable = 'conversations';

let opened = null;
const memory = new Map();

function open() {
  opened ??= new Promise(resolve => {
    let request;
    try {
      request = indexedDB.open(kName, 1);
    } catch {
      resolve(null);
      return;
    }
    request.onupgradeneeded = () => request.result.createObjectStore(kTable, {keyPath: 'id'});
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
    request.onblocked = () => resolve(null);
  });
  return opened;
}

async function run(mode, act) {
  const database = await open();
  if (!database) return undefined;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(kTable, mode);
    const request = act(transaction.objectStore(kTable));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = () => reject(transaction.error);
  });
}

export async function isKept() { return (await open()) !== null; }

// The newest first.
export async function list() {
  const all = (await run('readonly', table => table.getAll())) ?? [...memory.values()];
  return all.sort((a, b) => b.updated - a.updated);
}

export async function save(conversation) {
  const copy = structuredClone(conversation);
  memory.set(copy.id, copy);
  await run('readwrite', table => table.put(copy));
}

export async function remove(id) {
  memory.delete(id);
  await run('readwrite', table => table.delete(id));
}

export async function clear() {
  memory.clear();
  await run('readwrite', table => table.clear());
}
