// A conversation is a tree: editing a message or asking again begins a branch beside the old one.
// Plain objects, as the archive keeps them.
import {randomName} from '/pages/api.js';

export function create() {
  const now = Date.now();
  return {id: randomName(), title: 'New chat', created: now, updated: now, messages: {}, roots: [], chosen: null};
}

// {id, parent, role, content, children, chosen, ...facts}; `chosen`: the child that is shown.
export function add(conversation, parent, message) {
  const node = {id: randomName(), parent: parent?.id ?? null, children: [], chosen: null, ...message};
  conversation.messages[node.id] = node;
  const siblings = siblingsOf(conversation, node);
  siblings.push(node.id);
  choose(conversation, node);
  return node;
}

export function siblingsOf(conversation, node) {
  return node.parent ? conversation.messages[node.parent].children : conversation.roots;
}

export function choose(conversation, node) {
  const holder = node.parent ? conversation.messages[node.parent] : conversation;
  holder.chosen = node.id;
}

// The messages that are shown, from the first one.
export function path(conversation) {
  const out = [];
  for (let id = conversation.chosen; id; id = conversation.messages[id].chosen) out.push(conversation.messages[id]);
  return out;
}

export function parentOf(conversation, node) { return node.parent ? conversation.messages[node.parent] : null; }

// The messages that the model reads before it answers `leaf`, which is a message of the user.
export function prompt(conversation, leaf, system) {
  const out = [];
  for (let node = leaf; node; node = parentOf(conversation, node)) {
    if (node.role === 'assistant' && !node.content && !node.calls) continue;  // it failed
    out.unshift({role: node.role, content: textOf(node)});
  }
  if (system.trim()) out.unshift({role: 'system', content: system});
  return out;
}

// A message of the user with its files.
export function textOf(node) {
  const files = node.files ?? [];
  return [...files.map(file => `${file.name}:\n\n${fenced(file.text)}`), node.content].join('\n\n');
}

function fenced(text) {
  const longest = (text.match(/`{3,}/g) ?? []).reduce((most, run) => Math.max(most, run.length), 2);
  const mark = '`'.repeat(longest + 1);
  return `${mark}\n${text}\n${mark}`;
}

export function titleOf(text) {
  const line = text.trim().split('\n')[0];
  return line.length > 60 ? `${line.slice(0, 59)}…` : line || 'New chat';
}
