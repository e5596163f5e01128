// Sign-in with a service key. The key is sent once, and is not kept in the page.
import { useRef, useState } from 'preact/hooks';
import { signIn, signedOutWhy } from '../client.ts';
import { Field, Problem } from '../ui.tsx';

export function SignIn() {
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
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <h1>Turnpike console</h1>
        <p class="muted">Sign in with a service key. You can do here what the key can do by API, and nothing else.</p>
        {signedOutWhy.value && (
          <p class="note" role="status">
            {signedOutWhy.value}
          </p>
        )}
        <Field label="Service key" help="The first start wrote an administrator's key into administrator.key in the state directory; its path is in the log.">
          {(id, help) => <input id={id} ref={field} type="password" aria-describedby={help} autocomplete="current-password" autofocus required spellcheck={false} />}
        </Field>
        <Problem error={error} />
        <button class="primary" type="submit" disabled={isBusy}>
          {isBusy ? 'Signing in …' : 'Sign in'}
        </button>
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
