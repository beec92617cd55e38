// Makes elements. Text always becomes text nodes: nothing here or elsewhere parses HTML.

// h('p', {class: 'hint', onclick: f}, 'text', child, ...): a property that begins with `on` is a
// listener, null and false are left out. Children may be nodes, texts, arrays, null or false.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Tells screen readers, politely.
export function announce(text) {
  const place = document.getElementById('announcer');
  place.textContent = '';
  // An equal text is a change only if it was gone before.
  requestAnimationFrame(() => { place.textContent = text; });
}

export async function copyText(text) {
  // The clipboard's own interface exists on encrypted pages and on this machine only.
  if (navigator.clipboard) {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* not permitted */ }
  }
  const area = h('textarea', {class: 'unseen', 'aria-hidden': 'true', value: text});
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  return copied;
}

export function copyButton(text, what) {
  const button = h('button', {type: 'button', class: 'quiet', 'aria-label': `Copy ${what}`}, 'Copy');
  button.addEventListener('click', async () => {
    const copied = await copyText(typeof text === 'function' ? text() : text);
    button.textContent = copied ? 'Copied' : 'Not copied';
    announce(copied ? `Copied ${what}` : 'The browser did not permit copying');
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  return button;
}

export function command(text, what = 'the command') {
  return h('div', {class: 'command'}, h('pre', {tabindex: '0'}, text), copyButton(text, what));
}

export function notice(kind, ...children) { return h('div', {class: `notice ${kind}`}, ...children); }
