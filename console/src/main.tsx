// The frame of the console: who is signed in, where one can go, and which page a path is.
import { type ComponentChildren, render } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { isOver, may, seat, self, signOut, whoAmI } from './client.ts';
import { mayLeave } from './form.tsx';
import { notice, notify } from './hooks.ts';
import { Audit } from './pages/audit.tsx';
import { BUDGETS, CONFIGS, GUARDRAILS, INVITES, LABELS, MCP_SERVERS, MODEL_NAMES, PARTIALS, PROMPTS, PROVIDERS, RATES, USERS, WORKSPACES } from './kinds.tsx';
import { type Kind, Lists, One } from './objects.tsx';
import { BatchPage, Batches } from './pages/batches.tsx';
import { Cache } from './pages/cache.tsx';
import { Clients } from './pages/clients.tsx';
import { ConfigPage } from './pages/configs.tsx';
import { Explain } from './pages/explain.tsx';
import { GuardrailPage } from './pages/guardrails.tsx';
import { KeyPage, Keys } from './pages/keys.tsx';
import { MyKey } from './pages/my_key.tsx';
import { Node } from './pages/node.tsx';
import { Nodes } from './pages/nodes.tsx';
import { Overview } from './pages/overview.tsx';
import { Playground } from './pages/playground.tsx';
import { PromptPage } from './pages/prompts.tsx';
import { Providers } from './pages/providers.tsx';
import { RequestPage } from './pages/request.tsx';
import { Requests } from './pages/requests.tsx';
import { SignIn, SignInAgain } from './pages/sign_in.tsx';
import { Spend } from './pages/spend.tsx';
import { Dialog, Facts, Page } from './ui.tsx';
import './style.css';

/** What is in the menu, and the scopes of which one is needed. */
const MENU: [string, [string, string, string[]][]][] = [
  ['Traffic', [['', 'Overview', ['analytics.view']], ['requests', 'Requests', ['logs.list']], ['spend', 'Spend', ['analytics.view']]]],
  ['Access', [['my-key', 'My key', []], ['keys', 'Keys', ['organisation_service_api_keys.list', 'workspace_service_api_keys.list', 'workspace_user_api_keys.list']], ['limits', 'Limits', ['policies.list']], ['workspaces', 'Workspaces', ['workspaces.list']], ['users', 'Users', ['organisation_users.list']], ['clients', 'Clients', []]]],
  ['Routing', [['providers', 'Providers and targets', ['providers.list', 'targets.read']], ['configs', 'Configs', ['configs.list']], ['models', 'Model names', ['configs.list']], ['guardrails', 'Guardrails', ['guardrails.list', 'organisation_guardrails.list']], ['prompts', 'Prompts', ['prompts.list']], ['cache', 'Cache', ['configs.read']], ['mcp', 'MCP servers', ['mcp_servers.list']]]],
  ['Try', [['playground', 'Playground', []], ['explain', 'Explain', ['explain.read']], ['batches', 'Batches', ['logs.list']]]],
  ['Gateway', [['audit', 'Audit log', ['audit_logs.list']], ['nodes', 'Nodes', ['metrics.read']], ['node', 'This node, settings', []]]],
];

/** Pages that are lists of the API's objects, each with a page of its own. */
const LISTS: { path: string; title: string; lead: string; kinds: Kind[] }[] = [
  { path: 'limits', title: 'Limits', lead: 'Policies limit what a user, key, model or value of the metadata may use. Limits of a single key, workspace or provider are on its own page.', kinds: [BUDGETS, RATES] },
  { path: 'workspaces', title: 'Workspaces', lead: 'Each has its keys, providers, configs, limits and people. A key of one sees its own alone.', kinds: [WORKSPACES] },
  { path: 'users', title: 'Users', lead: 'People with roles. Clients need none: a service key is enough.', kinds: [USERS, INVITES] },
  { path: 'configs', title: 'Configs', lead: 'Saved configs say where requests go, and what happens when a target fails. Requests name them in x-gateway-config, or as @slug in model.', kinds: [CONFIGS] },
  { path: 'guardrails', title: 'Guardrails', lead: 'Checks of requests and responses, with what follows from them. Configs and workspaces name them by slug.', kinds: [GUARDRAILS] },
  { path: 'models', title: 'Model names', lead: 'Names that clients write in model, and what they stand for.', kinds: [MODEL_NAMES] },
  { path: 'prompts', title: 'Prompts', lead: 'Stored prompts with variables and versions. Clients render them by slug.', kinds: [PROMPTS, PARTIALS, LABELS] },
  { path: 'mcp', title: 'MCP servers', lead: 'Servers of tools and what each says of itself. Clients use them at /mcp of the data port.', kinds: [MCP_SERVERS] },
];
/** Kinds whose page is the one that their table describes. */
const KINDS = [BUDGETS, RATES, PROVIDERS, WORKSPACES, INVITES, USERS, MODEL_NAMES, PARTIALS, LABELS, MCP_SERVERS];

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
  const leave = (): void => void (mayLeave() && signOut().catch((why: Error) => notify(why.message, true)));
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

/** Where `g` and a letter go. */
const GOES: Record<string, string> = { o: '', r: 'requests', s: 'spend', m: 'my-key', k: 'keys', l: 'limits', w: 'workspaces', p: 'providers', c: 'configs', g: 'guardrails', t: 'prompts', x: 'cache', y: 'playground', e: 'explain', b: 'batches', a: 'audit', n: 'nodes' };
const KEYS: [string, string][] = [['/', 'the first filter'], ['j, k', 'the next and the previous row; Enter opens it'], ['n', 'a new one, where the page makes some'], ['Ctrl Enter', 'saves, or sends, what is written'], ['?', 'these keys']];

/** The links of rows: the first of each. */
const rowLinks = (): HTMLElement[] => [...document.querySelectorAll('main tbody tr')].flatMap((row) => row.querySelector<HTMLElement>('a, button') ?? []);

/** Presses the button of the form, or of the part of the page, that is written in: not what a dialog asks, nor what is below it. */
function save(written: Element): void {
  if (!written.matches('input, textarea, select')) return;
  const form = written.closest('form');
  const part = form ?? written.closest('dialog, .section, main');
  if (part?.localName !== 'dialog') part?.querySelector<HTMLElement>(form ? '[type=submit]' : 'button.primary')?.click();
}

/** The address of the page that is shown. */
let shownUrl = '';

/** Asks before something unsaved is left by a link or by Back. These hear of it before the router does, which is there after them. */
document.addEventListener(
  'click',
  (event) => {
    const link = event.target instanceof Element && event.target.closest('a[href^="/"]:not([target]):not([download])');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || mayLeave()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);
window.addEventListener('popstate', (event) => {
  if (mayLeave()) return;
  event.stopImmediatePropagation();
  history.pushState(null, '', shownUrl);
});

/** What the keyboard does without the mouse, on every page. Returns whether its list is shown. */
function useKeys(): [boolean, () => void] {
  const { route } = useLocation();
  const [isShown, setShown] = useState(false);
  // As soon as the page is there.
  useLayoutEffect(() => {
    let isGoing = false;
    const press = (event: KeyboardEvent): void => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) return save(event.target as Element);
      const isTyping = event.target instanceof Element && event.target.closest('input, textarea, select, dialog');
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      const { key } = event;
      const wasGoing = isGoing;
      isGoing = key === 'g' && !wasGoing;
      const to = GOES[key];
      if (wasGoing) return void (to !== undefined && mayLeave() && route(`/console/${to}`));
      const links = rowLinks();
      const at = links.indexOf(document.activeElement as HTMLElement);
      const target = { '/': document.querySelector<HTMLElement>('.filters input'), j: links[at + 1], k: links[Math.max(0, at - 1)] }[key];
      if (target) {
        event.preventDefault();
        target.focus();
      } else if (key === 'n') document.querySelector<HTMLElement>('.page-head .primary, .section-head .primary')?.click();
      else if (key === '?') setShown(true);
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [route]);
  return [isShown, () => setShown(false)];
}

function KeyList({ onClose }: { onClose: () => void }) {
  const pages = MENU.flatMap(([, items]) => items);
  const going = Object.entries(GOES).flatMap(([key, to]): [string, string][] => pages.filter(([path]) => path === to).map(([, name]) => [`g ${key}`, name]));
  return (
    <Dialog title="Keys of the keyboard" onClose={onClose}>
      <Facts pairs={[...KEYS, ...going].map(([key, what]): [string, ComponentChildren] => [key, what])} />
    </Dialog>
  );
}

function Frame({ children }: { children: ComponentChildren }) {
  const [isShown, hide] = useKeys();
  const { url } = useLocation();
  useLayoutEffect(() => void (shownUrl = url), [url]);
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <Side />
      {children}
      {isShown && <KeyList onClose={hide} />}
    </div>
  );
}

function Notices() {
  const shown = notice.use();
  return (
    <div role="status" aria-live="polite">
      {shown && <div class={`notice ${shown.isError ? 'error' : ''}`}>{shown.text}</div>}
    </div>
  );
}

/** An upgrade under an open page: its files are others then. */
function useUpgrade(): boolean {
  const [isOld, setOld] = useState(false);
  useEffect(() => {
    const own = document.querySelector('script[src]')?.getAttribute('src') ?? '';
    const look = async (): Promise<void> => {
      const page = await fetch('/console/', { cache: 'no-store' }).then((response) => (response.ok ? response.text() : null), () => null);
      if (page?.includes('<script') && !page.includes(own)) setOld(true);
    };
    const timer = setInterval(() => void (document.hidden || look()), 60_000);
    return () => clearInterval(timer);
  }, []);
  return isOld;
}

const Upgraded = () => (
  <p class="note upgraded" role="status">
    The gateway was upgraded. Save what you have written, and{' '}
    <button type="button" class="link" onClick={() => location.reload()}>
      load this page again
    </button>
    .
  </p>
);

function App() {
  const isOld = useUpgrade();
  const [own, place, isEnded] = [self.use(), seat.use(), isOver.use()];
  useEffect(() => void whoAmI(), []);
  if (own === undefined) return <p class="loading">Loading …</p>;
  if (own === null) return <SignIn />;
  return (
    <LocationProvider scope="/console">
      <Frame key={place}>
        <Router>
          <Route path="/console" component={Overview} />
          <Route path="/console/requests" component={Requests} />
          <Route path="/console/requests/:id" component={RequestPage} />
          <Route path="/console/spend" component={Spend} />
          <Route path="/console/my-key" component={MyKey} />
          <Route path="/console/keys" component={Keys} />
          <Route path="/console/keys/:id" component={KeyPage} />
          <Route path="/console/clients" component={Clients} />
          <Route path="/console/providers" component={Providers} />
          <Route path="/console/configs/:slug" component={ConfigPage} />
          <Route path="/console/guardrails/:slug" component={GuardrailPage} />
          <Route path="/console/prompts/:slug" component={PromptPage} />
          <Route path="/console/cache" component={Cache} />
          <Route path="/console/playground" component={Playground} />
          <Route path="/console/explain" component={Explain} />
          <Route path="/console/batches" component={Batches} />
          <Route path="/console/batches/:id" component={BatchPage} />
          <Route path="/console/audit" component={Audit} />
          <Route path="/console/nodes" component={Nodes} />
          <Route path="/console/node" component={Node} />
          {LISTS.map(({ path, ...list }) => (
            <Route key={path} path={`/console/${path}`} component={Lists} {...list} />
          ))}
          {KINDS.map((kind) => (
            <Route key={kind.here} path={`/console/${kind.here}/:id`} component={One} kind={kind} />
          ))}
          <Route default component={Nothing} />
        </Router>
      </Frame>
      <Notices />
      {isOld && <Upgraded />}
      {isEnded && <SignInAgain />}
    </LocationProvider>
  );
}

const root = document.getElementById('app');
if (root) render(<App />, root);
