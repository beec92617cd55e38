// Markdown of an answer, as elements. HTML in it stays text, images become links (a page may load
// nothing from elsewhere), and links lead to http, https and mailto only. A subset of CommonMark
// with GitHub's tables, strikethrough and task lists.
import {h, copyButton} from '/pages/dom.js';

const kDepth = 12;  // of lists, quotes and emphasis within each other

// The blocks of a text: {kind, source, ...}. A text that grows changes its last blocks only.
export function blocks(text) { return parseBlocks(text.replace(/\r\n?/g, '\n').split('\n')); }

const kFence = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const kRule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const kItem = /^( {0,3})([-*+]|\d{1,9}[.)])( +|\t|$)(.*)$/;
const kDelimiter = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

function parseBlocks(lines) {
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === '') { at += 1; continue; }
    const begin = at;
    let block;
    const fence = kFence.exec(line);
    if (fence) {
      const [, indent, mark, info] = fence;
      const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ \\t]*$`);
      const code = [];
      for (at += 1; at < lines.length && !end.test(lines[at]); at += 1) {
        code.push(lines[at].replace(new RegExp(`^ {0,${indent.length}}`), ''));
      }
      at += 1;
      block = {kind: 'code', language: info.trim().split(/\s+/)[0], text: code.join('\n')};
    } else if (kHeading.test(line)) {
      const [, marks, text] = kHeading.exec(line);
      block = {kind: 'heading', level: marks.length, text: text ?? ''};
      at += 1;
    } else if (kRule.test(line)) {
      block = {kind: 'rule'};
      at += 1;
    } else if (/^ {0,3}>/.test(line)) {
      const inner = [];
      while (at < lines.length && /^ {0,3}>/.test(lines[at])) {
        inner.push(lines[at].replace(/^ {0,3}> ?/, ''));
        at += 1;
      }
      block = {kind: 'quote', lines: inner};
    } else if (kItem.test(line)) {
      [block, at] = parseList(lines, at);
    } else if (line.includes('|') && at + 1 < lines.length && kDelimiter.test(lines[at + 1]) &&
               cells(line).length === cells(lines[at + 1]).length) {
      const aligns = cells(lines[at + 1]).map(cell => cell.startsWith(':') && cell.endsWith(':') ? 'center'
        : cell.endsWith(':') ? 'right' : null);
      const rows = [];
      const head = cells(line);
      for (at += 2; at < lines.length && lines[at].includes('|'); at += 1) rows.push(cells(lines[at]));
      block = {kind: 'table', head, aligns, rows};
    } else {
      const text = [];
      while (at < lines.length && lines[at].trim() !== '' &&
             (text.length === 0 || !interrupts(lines[at]))) {
        text.push(lines[at].replace(/^ {1,3}/, ''));
        at += 1;
      }
      block = {kind: 'paragraph', text: text.join('\n')};
    }
    block.source = lines.slice(begin, at).join('\n');
    out.push(block);
  }
  return out;
}

function interrupts(line) {
  return kFence.test(line) || kHeading.test(line) || kRule.test(line) || /^ {0,3}>/.test(line) ||
    /^ {0,3}([-*+]|1[.)]) +\S/.test(line);
}

function cells(line) {
  const out = [''];
  const text = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  for (let i = 0; i < text.length; i += 1) {
    if (text[i] === '\\' && text[i + 1] === '|') { out[out.length - 1] += '|'; i += 1; }
    else if (text[i] === '|') out.push('');
    else out[out.length - 1] += text[i];
  }
  return out.map(cell => cell.trim());
}

// Lines that are indented to an item's text belong to it.
function parseList(lines, at) {
  const ordered = /\d/.test(kItem.exec(lines[at])[2]);
  const first = ordered ? parseInt(kItem.exec(lines[at])[2], 10) : 1;
  const items = [];
  while (at < lines.length) {
    const found = kItem.exec(lines[at]);
    if (!found || kRule.test(lines[at]) || /\d/.test(found[2]) !== ordered) break;
    const width = found[1].length + found[2].length + 1;
    const inner = [found[4]];
    at += 1;
    while (at < lines.length) {
      const line = lines[at];
      const indent = line.length - line.trimStart().length;
      if (line.trim() === '') {
        // An empty line ends the item unless something indented follows.
        const next = lines[at + 1];
        if (next === undefined || next.trim() === '' || next.length - next.trimStart().length < width) break;
        inner.push('');
      } else if (indent >= width) {
        inner.push(line.slice(width));
      } else if (indent >= 2 && kItem.test(line.trimStart())) {
        inner.push(line.trimStart());  // models indent by two, whatever the mark is wide
      } else if (!kItem.test(line) && !interrupts(line) && inner.at(-1) !== '') {
        inner.push(line.trimStart());
      } else {
        break;
      }
      at += 1;
    }
    items.push(inner);
    let next = at;
    while (next < lines.length && lines[next].trim() === '') next += 1;
    if (next < lines.length && next > at && kItem.test(lines[next])) at = next;
  }
  return [{kind: 'list', ordered, first, items}, at];
}

export function renderBlock(block, depth = 0) {
  switch (block.kind) {
    case 'code': {
      const name = block.language || 'text';
      return h('div', {class: 'code'},
               h('header', {}, h('span', {}, name), copyButton(block.text, 'the code')),
               h('pre', {tabindex: '0', role: 'region', 'aria-label': `Code, ${name}`}, h('code', {}, block.text)));
    }
    // Below the page's h1; answers skip levels as they like, so all are of one.
    case 'heading':
      return block.text === '' ? h('p', {}, '#'.repeat(block.level)) : h('h2', {class: `level-${block.level}`}, inline(block.text));
    case 'rule': return h('hr');
    case 'quote': return h('blockquote', {}, renderLines(block.lines, depth + 1));
    case 'list':
      return h(block.ordered ? 'ol' : 'ul', {start: block.ordered && block.first !== 1 ? block.first : null},
               block.items.map(lines => renderItem(lines, depth + 1)));
    case 'table':
      return h('table', {tabindex: '0'},
               h('thead', {}, h('tr', {}, block.head.map(cell => h('th', {scope: 'col'}, inline(cell))))),
               h('tbody', {}, block.rows.map(row => h('tr', {},
                 block.head.map((_, i) => h('td', {class: block.aligns[i] === 'right' ? 'number' : null},
                                            inline(row[i] ?? '')))))));
    default: return h('p', {}, inline(block.text));
  }
}

function renderLines(lines, depth) {
  if (depth > kDepth) return lines.join('\n');
  return parseBlocks(lines).map(block => renderBlock(block, depth));
}

function renderItem(lines, depth) {
  const task = /^\[([ xX])\] (.*)$/.exec(lines[0]);
  const inner = task ? [task[2], ...lines.slice(1)] : lines;
  const parts = depth > kDepth ? [lines.join('\n')] : parseBlocks(inner).map((block, i) =>
    // The text of a tight item needs no paragraph.
    i === 0 && block.kind === 'paragraph' ? inline(block.text) : renderBlock(block, depth));
  return h('li', {}, task ? (task[1] === ' ' ? '☐ ' : '☑ ') : null, parts);
}

// Text with emphasis, code and links, as nodes.
export function inline(text, depth = 0) {
  const out = [];
  let plain = '';
  const flush = () => { if (plain) { out.push(plain); plain = ''; } };
  const push = node => { flush(); out.push(node); };
  for (let at = 0; at < text.length;) {
    const c = text[at];
    if (c === '\\' && at + 1 < text.length && /[!-/:-@[-`{-~]/.test(text[at + 1])) {
      plain += text[at + 1];
      at += 2;
    } else if (c === '\n') {
      if (/ {2,}$/.test(plain)) { plain = plain.trimEnd(); push(h('br')); } else { plain += '\n'; }
      at += 1;
    } else if (c === '`') {
      const ticks = /^`+/.exec(text.slice(at, at + 64))[0];
      const end = closing(text, at + ticks.length, ticks);
      if (end < 0) { plain += ticks; at += ticks.length; continue; }
      push(h('code', {}, text.slice(at + ticks.length, end).replace(/\n/g, ' ').replace(/^ (.+) $/, '$1')));
      at = end + ticks.length;
    } else if ((c === '[' || (c === '!' && text[at + 1] === '[')) && depth < kDepth) {
      const found = link(text, c === '!' ? at + 1 : at);
      if (!found) { plain += c; at += 1; continue; }
      push(anchor(found.target, inline(found.label || found.target, depth + 1)));
      at = found.end;
    } else if (c === '<') {
      const found = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/.exec(text.slice(at, at + 2048));
      if (!found) { plain += c; at += 1; continue; }
      push(anchor(found[1], [found[1]]));
      at += found[0].length;
    } else if (c === 'h' && !/\w$/.test(plain) && text.startsWith('http', at)) {
      const found = /^https?:\/\/[^\s<>"'`]{1,2000}/.exec(text.slice(at, at + 2048));
      if (!found) { plain += c; at += 1; continue; }
      const target = found[0].replace(/[.,:;!?*_~)\]]+$/, '');
      push(anchor(target, [target]));
      at += target.length;
    } else if ((c === '*' || c === '_' || c === '~') && depth < kDepth) {
      const mark = new RegExp(`^\\${c}{1,3}`).exec(text.slice(at, at + 3))[0];
      const end = c === '~' && mark.length !== 2 ? -1 : emphasisEnd(text, at, mark);
      if (end < 0) { plain += mark; at += mark.length; continue; }
      const inner = inline(text.slice(at + mark.length, end), depth + 1);
      if (c === '~') push(h('del', {}, inner));
      else if (mark.length === 1) push(h('em', {}, inner));
      else if (mark.length === 2) push(h('strong', {}, inner));
      else push(h('strong', {}, h('em', {}, inner)));
      at = end + mark.length;
    } else {
      plain += c;
      at += 1;
    }
  }
  flush();
  return out;
}

// Where the same number of back ticks stands again; -1: nowhere.
function closing(text, from, ticks) {
  for (let at = text.indexOf(ticks, from); at >= 0;) {
    let end = at;
    while (text[end] === '`') end += 1;
    if (end - at === ticks.length) return at;
    at = text.indexOf(ticks, end);
  }
  return -1;
}

const kEmphasis = 2000;  // characters that it may span, so that a text of stars stays cheap

function emphasisEnd(text, at, mark) {
  const c = mark[0];
  const word = /[\p{L}\p{N}]/u;
  const after = text[at + mark.length];
  if (after === undefined || /\s/.test(after)) return -1;
  if (c === '_' && at > 0 && word.test(text[at - 1])) return -1;
  const limit = Math.min(text.length, at + kEmphasis);
  for (let i = at + mark.length; i < limit; i += 1) {
    if (text[i] === '\\') { i += 1; continue; }
    if (text[i] === '`') {
      const end = text.indexOf('`', i + 1);
      if (end > 0 && end < limit) { i = end; continue; }
    }
    if (text[i] !== c) continue;
    let run = i;
    while (text[run] === c) run += 1;
    if (run - i === mark.length && !/\s/.test(text[i - 1]) &&
        !(c === '_' && run < text.length && word.test(text[run]))) {
      return i;
    }
    i = run - 1;
  }
  return -1;
}

// [label](target "title") at a bracket.
function link(text, at) {
  let depth = 0;
  const limit = Math.min(text.length, at + 1000);
  for (let i = at; i < limit; i += 1) {
    if (text[i] === '\\') { i += 1; continue; }
    if (text[i] === '[') depth += 1;
    if (text[i] !== ']') continue;
    depth -= 1;
    if (depth > 0) continue;
    const rest = text.slice(i + 1, i + 2400);
    const found = /^\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/.exec(rest);
    return found ? {label: text.slice(at + 1, i), target: found[1], end: i + 1 + found[0].length} : null;
  }
  return null;
}

function anchor(target, label) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return h('span', {}, label);
  return h('a', {href: target, target: '_blank', rel: 'noopener noreferrer nofollow'}, label);
}
