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

// A QR code as the server draws it: black on white in both themes, as cameras expect it.
export function qrPicture({size, path}, label) {
  const drawn = (tag, properties, ...children) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, String(value));
    element.append(...children);
    return element;
  };
  return drawn('svg', {class: 'qr', viewBox: `0 0 ${size} ${size}`, role: 'img', 'aria-label': label,
                       'shape-rendering': 'crispEdges'},
    drawn('rect', {width: size, height: size, fill: '#fff'}), drawn('path', {d: path, fill: '#000'}));
}

// A modal dialog; the focus returns to where it was, or to what was drawn in its place.
export function showDialog(dialog) {
  const before = document.activeElement;
  dialog.addEventListener('close', () => {
    dialog.remove();
    const act = before?.dataset.act;
    if (before?.isConnected) before.focus();
    else if (act) [...document.querySelectorAll('[data-act]')].find(each => each.dataset.act === act)?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

// A field of a form: a control that has an id, with its label and a hint.
export function field(label, control, hint) {
  if (hint) control.setAttribute('aria-describedby', `${control.id}-hint`);
  return h('div', {class: 'field'}, h('label', {for: control.id}, label), control,
    hint && h('p', {class: 'hint', id: `${control.id}-hint`}, hint));
}

export function select(id, options, chosen = options[0][0]) {
  const out = h('select', {id, name: id}, options.map(([value, word]) => h('option', {value}, word)));
  out.value = chosen;
  return out;
}

export function checkbox(id, label) {
  return h('div', {class: 'field'}, h('label', {class: 'check', for: id}, h('input', {type: 'checkbox', id, name: id}), label));
}

// A dialog that asks before something is done. `act`, with the form's elements, does it; what it
// returns is shown in place of the form, or the dialog closes. An error is shown and the form stays.
export function askFirst({title, content = [], label, kind = 'main', act}) {
  const fault = h('p', {class: 'bad', role: 'alert'});
  const go = h('button', {type: 'submit', class: kind}, label);
  const submit = async event => {
    event.preventDefault();
    go.disabled = true;
    fault.textContent = '';
    try {
      const result = await act(form.elements);
      if (!result) { dialog.close(); return; }
      replace(form, h('h2', {id: 'dialog-title'}, title), result,
        h('div', {class: 'end'}, h('button', {type: 'button', class: 'main', onclick: () => dialog.close()}, 'Done')));
      form.querySelector('.end button').focus();
    } catch (error) {
      fault.textContent = error.message;
      go.disabled = false;
    }
  };
  const form = h('form', {onsubmit: submit}, h('h2', {id: 'dialog-title'}, title), content, fault,
    h('div', {class: 'end'}, h('button', {type: 'button', onclick: () => dialog.close()}, 'Cancel'), go));
  const dialog = h('dialog', {'aria-labelledby': 'dialog-title'}, form);
  showDialog(dialog);
}

// Draws anew when `signature` changes, and not while a button is pressed: a click on an element
// that is replaced meanwhile is lost. Elements with the same `data-act` keep the focus.
export function redrawer(place, make) {
  let drawn = null;
  let pressed = false;
  let late = null;
  const draw = (signature, ...values) => {
    if (pressed) { late = [signature, ...values]; return; }
    late = null;
    if (signature === drawn) return;
    drawn = signature;
    const act = place.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    replace(place, make(...values));
    if (act) [...place.querySelectorAll('[data-act]')].find(each => each.dataset.act === act)?.focus({preventScroll: true});
  };
  const release = () => setTimeout(() => { pressed = false; if (late) draw(...late); });
  place.addEventListener('pointerdown', () => {
    pressed = true;
    addEventListener('pointerup', release, {once: true});
    addEventListener('pointercancel', release, {once: true});
  });
  return draw;
}
