// Connect: the visitor's key, and how other programs reach this server.
import {h, replace, command, notice, announce} from '/pages/dom.js';
import {key, setKey} from '/pages/api.js';
import {server, lookNow} from '/pages/app.js';

// `title`: why a key is asked for.
export function loginForm(title = 'This server asks for an API key') {
  const field = h('input', {id: 'key', type: 'password', autocomplete: 'off', spellcheck: 'false',
                            placeholder: 'hk1…', 'aria-describedby': 'key-hint key-fault'});
  const remember = h('input', {type: 'checkbox', id: 'remember'});
  const fault = h('p', {id: 'key-fault', class: 'bad', role: 'alert'});
  const submit = async event => {
    event.preventDefault();
    const before = key();
    setKey(field.value.trim(), remember.checked);
    await lookNow();
    if (server.error) {
      const wrong = server.error.status === 401;
      fault.textContent = wrong ? 'The server does not know this key. Check that all of it was copied.'
        : server.error.message;
      if (wrong) setKey(before, false);
    } else {
      announce('The key works.');
    }
  };
  return h('section', {class: 'panel', 'aria-labelledby': 'key-title'},
    h('h1', {id: 'key-title'}, title),
    h('form', {onsubmit: submit},
      h('div', {class: 'field'}, h('label', {for: 'key'}, 'API key'), field,
        h('p', {class: 'hint', id: 'key-hint'}, 'The owner of the server creates one with ', h('code', {}, 'hearth key create NAME'),
          '; the one for administration is in the file admin.key of the server\'s folder.')),
      h('div', {class: 'field'}, h('label', {class: 'check', for: 'remember'}, remember, 'Remember it in this browser')),
      fault, h('button', {class: 'main', type: 'submit'}, 'Use this key')));
}

function keyPanel(redraw) {
  if (!key()) {
    return h('section', {class: 'panel'}, h('h2', {}, 'API key'),
      h('p', {}, 'From its own machine the server needs no key. If you enter one, its limits and its account apply.'),
      h('details', {}, h('summary', {}, 'Use a key'), loginForm()));
  }
  const forget = () => { setKey('', false); lookNow(); redraw(); };
  return h('section', {class: 'panel'}, h('h2', {}, 'API key'),
    h('p', {}, 'This page uses the key ', h('code', {}, `${key().slice(0, 8)}…`),
      server.state ? ', which may see the state of the swarm.' : ', which may send prompts.'),
    h('button', {type: 'button', onclick: forget}, 'Forget the key'));
}

export function connectView(main) {
  const inner = h('div', {class: 'inner'});
  main.append(inner);
  main.className = 'page';
  let drawn = null;
  const draw = () => {
    const model = server.models[0]?.id ?? 'MODEL';
    const asks = server.error?.status === 401;
    const now = JSON.stringify([model, asks, key(), server.state !== null]);
    if (now === drawn) return;  // what the visitor types stays
    drawn = now;
    const base = `${location.origin}/v1`;
    const shownKey = key() ? 'hk1…' : 'none';
    replace(inner,
      h('h1', {}, 'Connect'),
      h('p', {class: 'muted'}, 'Any client of OpenAI, Anthropic or Ollama works with this server.'),
      asks ? loginForm() : keyPanel(draw),
      h('section', {class: 'panel'}, h('h2', {}, 'Addresses'),
        h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Addresses'}, h('table', {},
          h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'Dialect'), h('th', {scope: 'col'}, 'Base URL'))),
          h('tbody', {},
            [['OpenAI', base], ['Anthropic', location.origin], ['Ollama', location.origin]].map(([name, url]) =>
              h('tr', {}, h('th', {scope: 'row'}, name), h('td', {}, h('code', {}, url)))))))),
      h('section', {class: 'panel'}, h('h2', {}, 'A coding agent or another client program'),
        h('p', {}, 'On a machine that has Hearth, ', h('code', {}, 'hearth launch'),
          ' starts claude, codex, opencode, aider, goose, llm or open-webui with this server:'),
        command(`hearth launch aider --host ${location.host}`)),
      h('section', {class: 'panel'}, h('h2', {}, 'curl'),
        command(`curl ${base}/chat/completions -H 'Content-Type: application/json'${key() ? " -H 'Authorization: Bearer hk1…'" : ''} \\\n  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`)),
      h('section', {class: 'panel'}, h('h2', {}, 'Python'),
        command(`from openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key="${shownKey}")\nanswer = client.chat.completions.create(\n    model="${model}", messages=[{"role": "user", "content": "Hello"}])\nprint(answer.choices[0].message.content)`, 'the program')),
      notice('', 'The API is plain HTTP. On a network that you do not trust, put a proxy with TLS in front of it.'));
  };
  server.listeners.add(draw);
  draw();
  return () => { server.listeners.delete(draw); };
}
