// How clients are set up for this gateway: to copy and paste.
import { useState } from 'preact/hooks';
import { dataBase } from '../curl.ts';
import { useFilters } from '../hooks.ts';
import { may } from '../client.ts';
import { Choice, Code, Page, TextField } from '../ui.tsx';

type Snippet = (base: string, model: string) => string;

const CLIENTS: [string, string, string, Snippet][] = [
  ['curl', 'curl', 'In a shell', (base, model) => `curl ${base}/v1/chat/completions -H "x-gateway-api-key: $TURNPIKE_KEY" -H 'content-type: application/json' \\\n  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}]}'`],
  ['claude', 'Claude Code', 'In a shell', (base, model) => `export ANTHROPIC_BASE_URL=${base}\nexport ANTHROPIC_AUTH_TOKEN=$TURNPIKE_KEY\nexport ANTHROPIC_MODEL=${model}\nexport ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}\nclaude`],
  ['codex', 'Codex', '~/.codex/config.toml', (base, model) => `model = "${model}"\nmodel_provider = "turnpike"\nmodel_reasoning_effort = "medium"\nmodel_supports_reasoning_summaries = true\n\n[model_providers.turnpike]\nname = "Turnpike"\nbase_url = "${base}/v1"\nenv_key = "TURNPIKE_KEY"\nwire_api = "responses"`],
  ['cursor', 'Cursor', 'Settings, Models: OpenAI API key, then Override OpenAI base URL', (base, model) => `Base URL: ${base}/v1\nAPI key:  the service key\nModel:    ${model}`],
  ['gemini', 'Gemini CLI', 'In a shell', (base, model) => `export GOOGLE_GEMINI_BASE_URL=${base}\nexport GEMINI_API_KEY=$TURNPIKE_KEY\nexport GEMINI_MODEL=${model}\nmkdir -p ~/.gemini\necho '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > ~/.gemini/settings.json\ngemini`],
  ['python', "OpenAI's SDK, Python", 'pip install openai', (base, model) => `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${base}/v1", api_key=os.environ["TURNPIKE_KEY"])\nresponse = client.chat.completions.create(\n    model="${model}",\n    messages=[{"role": "user", "content": "Hello"}],\n)\nprint(response.choices[0].message.content)`],
  ['node', "OpenAI's SDK, JavaScript", 'npm install openai', (base, model) => `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: '${base}/v1', apiKey: process.env.TURNPIKE_KEY });\nconst response = await client.chat.completions.create({\n  model: '${model}',\n  messages: [{ role: 'user', content: 'Hello' }],\n});\nconsole.log(response.choices[0].message.content);`],
  ['anthropic', "Anthropic's SDK, Python", 'pip install anthropic', (base, model) => `import os\nfrom anthropic import Anthropic\n\nclient = Anthropic(base_url="${base}", api_key=os.environ["TURNPIKE_KEY"])\nmessage = client.messages.create(\n    model="${model}",\n    max_tokens=1024,\n    messages=[{"role": "user", "content": "Hello"}],\n)\nprint(message.content[0].text)`],
];

/** What is to be copied for one client, chosen by the address. */
export function Setup() {
  const [filters, setFilters] = useFilters();
  const [base, setBase] = useState(dataBase());
  const [model, setModel] = useState('gpt-4o-mini');
  const [, name, where, snippet] = CLIENTS.find(([id]) => id === filters.client) ?? (CLIENTS[0] as (typeof CLIENTS)[number]);
  return (
    <>
      <div class="form">
        <Choice label="Client" value={filters.client ?? 'curl'} options={CLIENTS.map(([id, name]) => [id, name])} onChange={(client) => setFilters({ client })} />
        <div class="row">
          <TextField label="Address of the data port" value={base} onInput={(text) => setBase(text.replace(/\/+$/, ''))} help="This host's name with the default port: correct it where listen.data has another." spellcheck={false} />
          <TextField label="Model" value={model} onInput={setModel} help="A model, a name of models, or @slug/model." spellcheck={false} />
        </div>
      </div>
      <h3>
        {name}: {where}
      </h3>
      <Code label={`Setup of ${name}`} text={snippet(base, model)} />
      <p class="help">More clients, and what each of them needs: docs/clients.md.</p>
    </>
  );
}

export function Clients() {
  return (
    <Page title="Clients" lead="What a client needs to use this gateway: its address and a service key with the scope completions.write. The key is read from the variable TURNPIKE_KEY." actions={may('workspace_service_api_keys.create') && <a class="button" href="/console/keys?make=1">Make a key for it</a>}>
      <Setup />
    </Page>
  );
}
