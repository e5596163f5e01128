// The frame of the console: who is signed in, where one can go, and which page a path is.
import { type ComponentChildren, render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { isOver, may, seat, self, signOut, whoAmI } from './client.ts';
import { notice, notify } from './hooks.ts';
import { Audit } from './pages/audit.tsx';
import { Batches } from './pages/batches.tsx';
import { Cache } from './pages/cache.tsx';
import { Clients } from './pages/clients.tsx';
import { ConfigPage, Configs } from './pages/configs.tsx';
import { Explain } from './pages/explain.tsx';
import { GuardrailPage, Guardrails } from './pages/guardrails.tsx';
import { KeyPage, Keys } from './pages/keys.tsx';
import { Limits } from './pages/limits.tsx';
import { MyKey } from './pages/my_key.tsx';
import { Node } from './pages/node.tsx';
import { Overview } from './pages/overview.tsx';
import { Playground } from './pages/playground.tsx';
import { PromptPage, Prompts } from './pages/prompts.tsx';
import { Providers } from './pages/providers.tsx';
import { RequestPage } from './pages/request.tsx';
import { Requests } from './pages/requests.tsx';
import { SignIn, SignInAgain } from './pages/sign_in.tsx';
import { Spend } from './pages/spend.tsx';
import { Page } from './ui.tsx';
import './style.css';

/** What is in the menu, and the scopes of which one is needed. */
const MENU: [string, [string, string, string[]][]][] = [
  ['Traffic', [['', 'Overview', ['analytics.view']], ['requests', 'Requests', ['logs.list']], ['spend', 'Spend', ['analytics.view']]]],
  ['Access', [['my-key', 'My key', []], ['keys', 'Keys', ['organisation_service_api_keys.list', 'workspace_service_api_keys.list', 'workspace_user_api_keys.list']], ['limits', 'Limits', ['policies.list']], ['clients', 'Clients', []]]],
  ['Routing', [['providers', 'Providers and targets', ['providers.list', 'targets.read']], ['configs', 'Configs', ['configs.list']], ['guardrails', 'Guardrails', ['guardrails.list', 'organisation_guardrails.list']], ['prompts', 'Prompts', ['prompts.list']], ['cache', 'Cache', ['configs.read']]]],
  ['Try', [['playground', 'Playground', []], ['explain', 'Explain', ['explain.read']], ['batches', 'Batches', ['logs.list']]]],
  ['Gateway', [['audit', 'Audit log', ['audit_logs.list']], ['node', 'Node and settings', []]]],
];

const THEMES = ['system', 'light', 'dark'];

function useTheme(): [string, () => void] {
  const [theme, setTheme] = useState(localStorage.getItem('turnpike-theme') ?? 'system');
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem('turnpike-theme', theme);
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'system')];
}

export const Mark = () => (
  <svg viewBox="0 0 16 16" aria-hidden="true">
    <rect width="16" height="16" fill="var(--accent)" />
    <path d="M4 5h8M8 5v7" stroke="var(--on-accent)" stroke-width="2" stroke-linecap="round" />
  </svg>
);

function Side() {
  const { path } = useLocation();
  const [isOpen, setOpen] = useState(false);
  const [theme, nextTheme] = useTheme();
  useEffect(() => setOpen(false), [path]);
  const here = path.replace(/^\/console\/?/, '').split('/')[0] ?? '';
  const leave = (): void => void signOut().catch((why: Error) => notify(why.message, true));
  return (
    <div class={`side ${isOpen ? '' : 'closed'}`}>
      <div class="bar">
        <a class="brand" href="/console/">
          <Mark /> Turnpike
        </a>
        <button type="button" class="menu-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Menu
        </button>
      </div>
      <nav aria-label="Pages">
        {MENU.map(([group, items]) => {
          const shown = items.filter(([, , scopes]) => scopes.length === 0 || may(...scopes));
          return shown.length === 0 ? null : (
            <>
              <h3>{group}</h3>
              {shown.map(([to, name]) => (
                <a key={to} href={`/console/${to}`} aria-current={here === to ? 'page' : undefined}>
                  {name}
                </a>
              ))}
            </>
          );
        })}
      </nav>
      <div class="who">
        <div class="name" title={self.value?.name}>
          <span class="muted">Key</span> <bdi>{self.value?.name}</bdi>
        </div>
        <div class="actions">
          <button type="button" class="link" onClick={leave}>
            Sign out
          </button>
          <button type="button" class="link" onClick={nextTheme}>
            Theme: {theme}
          </button>
        </div>
      </div>
    </div>
  );
}

const Nothing = () => (
  <Page title="There is no such page">
    <p>
      Go to the <a href="/console/">overview</a>.
    </p>
  </Page>
);

/** Lets the keyboard go to a page: `g`, then the first letter of its name; `/` goes to the first filter. */
function useKeys(): void {
  const { route } = useLocation();
  useEffect(() => {
    let isGoing = false;
    const press = (event: KeyboardEvent): void => {
      const isTyping = event.target instanceof Element && event.target.closest('input, textarea, select, dialog');
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('.filters input');
        if (field) {
          event.preventDefault();
          field.focus();
        }
      }
      const targets: Record<string, string> = { o: '', r: 'requests', s: 'spend', k: 'keys', p: 'providers', c: 'configs', e: 'explain', a: 'audit' };
      const to = targets[event.key];
      if (isGoing && to !== undefined) route(`/console/${to}`);
      isGoing = event.key === 'g';
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [route]);
}

function Frame({ children }: { children: ComponentChildren }) {
  useKeys();
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <Side />
      {children}
    </div>
  );
}

function Notices() {
  const shown = notice.value;
  return (
    <div role="status" aria-live="polite">
      {shown && <div class={`notice ${shown.isError ? 'error' : ''}`}>{shown.text}</div>}
    </div>
  );
}

function App() {
  useEffect(() => void whoAmI(), []);
  if (self.value === undefined) return <p class="loading">Loading …</p>;
  if (self.value === null) return <SignIn />;
  return (
    <LocationProvider scope="/console">
      <Frame key={seat.value}>
        <Router>
          <Route path="/console" component={Overview} />
          <Route path="/console/requests" component={Requests} />
          <Route path="/console/requests/:id" component={RequestPage} />
          <Route path="/console/spend" component={Spend} />
          <Route path="/console/my-key" component={MyKey} />
          <Route path="/console/keys" component={Keys} />
          <Route path="/console/keys/:id" component={KeyPage} />
          <Route path="/console/limits" component={Limits} />
          <Route path="/console/clients" component={Clients} />
          <Route path="/console/providers" component={Providers} />
          <Route path="/console/configs" component={Configs} />
          <Route path="/console/configs/:slug" component={ConfigPage} />
          <Route path="/console/guardrails" component={Guardrails} />
          <Route path="/console/guardrails/:slug" component={GuardrailPage} />
          <Route path="/console/prompts" component={Prompts} />
          <Route path="/console/prompts/:slug" component={PromptPage} />
          <Route path="/console/cache" component={Cache} />
          <Route path="/console/playground" component={Playground} />
          <Route path="/console/explain" component={Explain} />
          <Route path="/console/batches" component={Batches} />
          <Route path="/console/audit" component={Audit} />
          <Route path="/console/node" component={Node} />
          <Route default component={Nothing} />
        </Router>
      </Frame>
      <Notices />
      {isOver.value && <SignInAgain />}
    </LocationProvider>
  );
}

const root = document.getElementById('app');
if (root) render(<App />, root);
