// The members of the cluster, the nodes that ask to join, and how another machine joins. Only for
// an admin key.
import {h, announce, askFirst, checkbox, command, field, notice, qrPicture, redrawer, select} from '/pages/dom.js';
import {ConnectionLost, json} from '/pages/api.js';
import {count, when} from '/pages/format.js';
import {server} from '/pages/app.js';
import {loginForm} from '/pages/connect.js';

const kEvery = 5000;  // milliseconds between two looks
const kAdminOrder = 'an admin of the cluster';  // as a worker names an order of these pages

const kLocked = {};  // in place of the members: the key may not manage them
const kRoles = [['worker', 'Worker: computes'], ['client', 'Client: sends prompts'], ['admin', 'Admin: manages the cluster']];
const kHours = [['0', 'until someone resumes it'], ['1', 'for 1 hour'], ['4', 'for 4 hours'], ['24', 'for 24 hours'], ['168', 'for 7 days']];

function order(node, word, seconds) {
  return json('/api/v1/orders', {method: 'POST', body: {node, order: word, ...(seconds > 0 && {seconds})}});
}

// Orders to a connected machine, as its owner gives them with hearth pause, drain and resume.
export function machineButtons(node) {
  const resumes = node.away?.why === kAdminOrder;
  const act = word => `${word} ${node.name}`;
  if (node.state === 'lost' || node.away && !resumes) return null;
  if (resumes) {
    const resume = async event => {
      event.target.disabled = true;
      try {
        await order(node.name, 'resume', 0);
        announce(`${node.name} may serve again.`);
      } catch (error) {
        askFirst({title: `Resume ${node.name}`, content: notice('bad', error.message), label: 'Try again',
                  act: () => order(node.name, 'resume', 0).then(() => null)});
      }
    };
    return h('button', {type: 'button', class: 'small', 'data-act': act('resume'), 'aria-label': act('Resume'), onclick: resume}, 'Resume');
  }
  const pause = () => askFirst({
    title: `Pause ${node.name}`,
    content: [
      h('p', {}, 'The machine gets no more work and frees its memory. Requests that run on it move to other machines where these have room.'),
      field('How', select('how', [['drain', 'Drain'], ['pause', 'Pause at once']]),
            'Drain: other machines take over its requests first, or these end'),
      field('How long', select('hours', kHours), 'Its owner can pause it longer on the machine itself: hearth pause')],
    label: 'Pause',
    act: async form => {
      await order(node.name, form.how.value, Number(form.hours.value) * 3600);
      announce(`${node.name} was told to ${form.how.value}.`);
    },
  });
  return h('button', {type: 'button', class: 'small', 'data-act': act('pause'), 'aria-label': act('Pause'), onclick: pause}, 'Pause…');
}

function approve(node, look) {
  askFirst({
    title: `Let ${node.name} in`,
    content: [
      h('p', {}, 'Compare: that machine must show the same three words.'),
      h('p', {class: 'words'}, node.words),
      h('p', {class: 'hint'}, `It asks from ${node.from}.`),
      field('Role', select('role', kRoles)),
      field('Owner', h('input', {id: 'owner', name: 'owner', autocomplete: 'off', maxlength: '128'}),
        'Optional: machines of one owner do not audit each other'),
      checkbox('newcomer', 'A newcomer: it checks the work of others before it may serve')],
    label: 'The words are the same: let it in',
    act: async form => {
      await json('/api/v1/members/approve', {method: 'POST', body: {
        key: node.key, role: form.role.value, newcomer: form.newcomer.checked,
        ...(form.owner.value.trim() && {owner: form.owner.value.trim()})}});
      announce(`${node.name} is a member now.`);
      await look();
    },
  });
}

function remove(member, look) {
  askFirst({
    title: `Remove ${member.name}`,
    content: h('p', {}, 'The machine loses its access at once, and what it computes moves to others where these have room. To come back it needs a new join token or your approval.'),
    label: 'Remove', kind: 'danger',
    act: async () => {
      await json(`/api/v1/members/${encodeURIComponent(member.name)}`, {method: 'DELETE'});
      announce(`${member.name} was removed.`);
      await look();
    },
  });
}

function makeToken(look) {
  askFirst({
    title: 'Join token',
    content: [
      h('p', {}, 'Anyone with the token can join until it expires or is used up. Send it over a channel that you trust.'),
      field('Role', select('role', kRoles)),
      field('Machines', h('input', {id: 'uses', name: 'uses', type: 'number', min: '1', max: '10000', value: '1', required: true}), 'How many may join with it'),
      field('Valid', select('hours', [['1', 'for 1 hour'], ['24', 'for 24 hours'], ['168', 'for 7 days']], '24')),
      checkbox('newcomer', 'Newcomers: they check the work of others before they may serve')],
    label: 'Make the token',
    act: async form => {
      const made = await json('/api/v1/tokens', {method: 'POST', body: {
        role: form.role.value, uses: Number(form.uses.value), seconds: Number(form.hours.value) * 3600,
        newcomer: form.newcomer.checked}});
      await look();
      return [h('p', {}, `On ${made.uses === 1 ? 'the other machine' : `each of ${count(made.uses, 'machine')}`}, paste:`),
              command(`hearth join ${made.token}`),
              made.qr && h('p', {}, 'Or scan the same command, and paste it there:'),
              made.qr && qrPicture(made.qr, 'QR code of the command'),
              h('p', {class: 'hint'}, `It is shown only now, and is valid until ${when(made.expires * 1000)}. The list of join tokens on this page revokes it, or: `,
                h('code', {}, `hearth token revoke ${made.id}`))];
    },
  });
}

function revokeToken(token, look) {
  askFirst({
    title: `Revoke the join token ${token.id}`,
    content: h('p', {}, 'No machine can join with it from now on. Machines that joined with it stay members.'),
    label: 'Revoke', kind: 'danger',
    act: async () => {
      await json(`/api/v1/tokens/${encodeURIComponent(token.id)}`, {method: 'DELETE'});
      announce(`The join token ${token.id} was revoked.`);
      await look();
    },
  });
}

// Join tokens without their secrets: how many machines may still join, and until when.
function tokensPart(tokens, look) {
  if (tokens.length === 0) return null;
  return [h('h3', {}, 'Valid join tokens'), h('ul', {class: 'rows'}, tokens.map(token => h('li', {},
    h('code', {}, token.id), ` ${token.newcomer ? 'newcomer' : token.role}, for ${count(token.uses_left, 'machine')} until ${when(token.expires * 1000)} `,
    h('button', {type: 'button', class: 'small', 'data-act': `revoke ${token.id}`, 'aria-label': `Revoke the join token ${token.id}`,
                 onclick: () => revokeToken(token, look)}, 'Revoke…'))))];
}

function waitingPanel(told, look) {
  const open = async event => {
    event.target.disabled = true;
    try { await json('/api/v1/members/open', {method: 'POST', body: {}}); } catch (error) { announce(error.message); }
    await look();
  };
  const rows = told.waiting.map(node => h('li', {},
    h('strong', {}, node.name), ` (${node.words}), from ${node.from} `,
    h('button', {type: 'button', class: 'small', 'data-act': `approve ${node.key}`, 'aria-label': `Let ${node.name} in`,
                 onclick: () => approve(node, look)}, 'Let in…')));
  return h('section', {class: 'panel', 'aria-label': 'Machines that ask to join'}, h('h2', {}, 'Machines that ask to join'),
    rows.length > 0 ? h('ul', {class: 'rows'}, rows)
      : h('p', {class: 'muted'}, told.may_ask
        ? ['None asks now. On the other machine: ', h('code', {}, 'hearth join')]
        : 'Machines may not ask now.'),
    !told.may_ask && h('button', {type: 'button', 'data-act': 'open', onclick: open}, 'Let machines ask for 10 minutes'));
}

function membersPanel(told, tokens, look) {
  const cell = (label, ...content) => h('td', {'data-label': label}, ...content);
  return h('section', {class: 'panel'}, h('h2', {}, 'Members'),
    h('p', {class: 'hint'}, `Cluster ${told.cluster} (${told.words}), machines join at ${told.address}`),
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Members'}, h('table', {class: 'stacks'},
      h('thead', {}, h('tr', {}, ['Name', 'Role', 'Joined', 'Owner', 'Actions'].map(name => h('th', {scope: 'col'}, name)))),
      h('tbody', {}, [...told.members].sort((a, b) => a.name.localeCompare(b.name)).map(member => h('tr', {},
        h('th', {scope: 'row', 'data-label': 'Name'}, member.name),
        cell('Role', member.newcomer ? `${member.role}, came as a newcomer` : member.role),
        cell('Joined', member.joined ? when(member.joined * 1000) : '-'),
        cell('Owner', member.owner ?? '-'),
        cell('Actions', member.removable
          ? h('button', {type: 'button', class: 'small', 'data-act': `remove ${member.key}`, 'aria-label': `Remove ${member.name}`,
                         onclick: () => remove(member, look)}, 'Remove…')
          : h('span', {class: 'hint'}, 'of the server\'s machine'))))))),
    tokensPart(tokens, look),
    h('p', {}, h('button', {type: 'button', class: 'main', 'data-act': 'token', onclick: () => makeToken(look)}, 'Add a machine: make a join token')));
}

// Shows the members in `place`, and calls `onAdmin` with whether the key may manage them. Returns a
// function that ends it.
export function membersPart(place, onAdmin) {
  let timer = null;
  let open = true;
  let asked = null;  // whether it may, when that was last looked at
  const draw = redrawer(place, (told, tokens, error) => {
    if (error) return notice('bad', error.message);
    if (!told) return null;
    if (told === kLocked) {
      return h('details', {class: 'panel'}, h('summary', {}, 'Manage the machines'), loginForm('Managing needs an admin key'));
    }
    return [waitingPanel(told, look), membersPanel(told, tokens, look)];
  });
  async function look() {
    clearTimeout(timer);
    const {state} = server;
    if (!open || !state) return;
    asked = state.manages;
    onAdmin(state.manages);
    if (!state.manages) { draw('locked', kLocked, [], null); return; }
    if (!state.joinable) { draw('', null, [], null); return; }
    try {
      const [told, {tokens}] = await Promise.all([json('/api/v1/members'), json('/api/v1/tokens')]);
      if (!open || !server.state?.manages) return;
      draw(JSON.stringify([told, tokens]), told, tokens, null);
    } catch (error) {
      // Without an answer, the state of the swarm above says so, and what stood here stays.
      if (open && !(error instanceof ConnectionLost) && error.status !== 429) draw(error.message, null, [], error);
    }
    timer = setTimeout(look, kEvery);
  }
  const onNews = () => { if (server.state && asked !== server.state.manages) look(); };
  server.listeners.add(onNews);
  look();
  return () => { open = false; clearTimeout(timer); server.listeners.delete(onNews); };
}
