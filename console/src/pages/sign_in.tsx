// Sign-in with a service key or at the identity provider, as a page or above the page whose session has ended. The key is sent once, and is
// not kept in the page.
import { useEffect, useRef, useState } from 'preact/hooks';
import { comeBack, get, leave, signIn, signedOutWhy } from '../client.ts';
import { Dialog, Field, Problem } from '../ui.tsx';

function useSignIn() {
  const field = useRef<HTMLInputElement>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const input = field.current;
    if (!input?.value.trim()) return;
    setBusy(true);
    setError(null);
    try {
      const key = input.value.trim();
      input.value = '';
      await signIn(key);
    } catch (why) {
      setError(why as Error);
      setBusy(false);
    }
  };
  return { field, error, isBusy, submit };
}

function Fields({ form }: { form: ReturnType<typeof useSignIn> }) {
  const why = signedOutWhy.use();
  return (
    <>
      {why && (
        <p class="note" role="status">
          {why}
        </p>
      )}
      <Field label="Service key" help="The first start wrote an administrator's key into administrator.key in the state directory; its path is in the log.">
        {(id, help) => <input id={id} ref={form.field} type="password" aria-describedby={help} autocomplete="current-password" autofocus required spellcheck={false} />}
      </Field>
      <Problem error={form.error} />
    </>
  );
}

/** Leads to the identity provider, where the settings have persons sign in at one. `isKept`: in a tab of its own, since this page stays. */
function Provider({ isKept }: { isKept?: boolean }) {
  const [issuer, setIssuer] = useState('');
  useEffect(() => {
    get('/console/session').then(
      (found) => setIssuer(found.identity_provider ?? ''),
      () => undefined,
    );
    if (!isKept) return;
    const look = (): void => void comeBack();
    addEventListener('focus', look);
    return () => removeEventListener('focus', look);
  }, []);
  if (!issuer) return null;
  const to = isKept ? '' : `?to=${encodeURIComponent(location.pathname + location.search)}`;
  return (
    <p>
      <a class="button" href={`/console/sign-in${to}`} target={isKept ? '_blank' : undefined}>
        Sign in at {new URL(issuer).host}
      </a>
      {isKept && <span class="help"> In a new tab; then come back to this one.</span>}
    </p>
  );
}

const Send = ({ isBusy }: { isBusy: boolean }) => (
  <button class="primary" type="submit" disabled={isBusy}>
    {isBusy ? 'Signing in …' : 'Sign in'}
  </button>
);

export function SignIn() {
  const form = useSignIn();
  return (
    <main class="sign-in">
      <form class="card" onSubmit={form.submit}>
        <h1>Turnpike console</h1>
        <p class="muted">Sign in with a service key. You can do here what the key can do by API, and nothing else.</p>
        <Provider />
        <Fields form={form} />
        <Send isBusy={form.isBusy} />
        {!window.isSecureContext && (
          <p class="note">
            This page came over plain HTTP from another machine: a browser keeps no session then. Give <code>listen.control</code> a certificate, or forward the port:{' '}
            <code>{`ssh -L 8788:127.0.0.1:8788 ${location.hostname}`}</code>
          </p>
        )}
        <p class="help">A session ends after an hour without a call, and eight hours after sign-in.</p>
      </form>
    </main>
  );
}

/** Above the page, which keeps what was written there. Another key than before begins anew. */
export function SignInAgain() {
  const form = useSignIn();
  return (
    <Dialog title="Sign in again" isKept onClose={() => undefined}>
      <form class="form" onSubmit={form.submit}>
        <Fields form={form} />
        <Provider isKept />
        <p class="help">What you have written stays below this dialog, if you sign in with the same key.</p>
        <div class="actions end">
          <button type="button" onClick={() => leave('The session has ended.')}>
            Leave the page
          </button>
          <Send isBusy={form.isBusy} />
        </div>
      </form>
    </Dialog>
  );
}
