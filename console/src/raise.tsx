// More of a budget for some days: nothing has to be done at their end.
import { type Free } from './client.ts';
import { Form } from './form.tsx';
import { ago } from './format.ts';
import type { FieldSpec } from './fields.ts';
import { notify, useBusy } from './hooks.ts';
import { Dialog } from './ui.tsx';

const FIELDS: FieldSpec[] = [
  { name: 'amount', label: 'So much more than the limit', kind: 'number', required: true },
  { name: 'days', label: 'For so many days', kind: 'number', required: true, first: '7' },
];

export const isRaised = (raise: Free | null | undefined): boolean => Boolean(raise && new Date(raise.until).getTime() > Date.now());

export function Raise({ current, save, onClose }: { current: Free | null | undefined; save: (raise: Free | null) => Promise<unknown>; onClose: () => void }) {
  const [isBusy, run] = useBusy();
  const put = async (raise: Free | null): Promise<void> => {
    await save(raise);
    notify(raise ? `Raised: it ends by itself ${ago(raise.until)}.` : 'The raise has ended.');
    onClose();
  };
  const raised = ({ amount, days }: Free): Promise<void> => put({ amount, until: new Date(Date.now() + days * 86_400_000).toISOString() });
  const end = (): Promise<void> => put(null).catch((why: Error) => notify(why.message, true));
  return (
    <Dialog title="Raise for some days" onClose={onClose}>
      {isRaised(current) && (
        <p class="note">
          It is raised by {current?.amount}, and that ends {ago(current?.until)}.{' '}
          <button type="button" class="link" disabled={isBusy} onClick={() => run(end)}>
            End it now
          </button>
        </p>
      )}
      <Form fields={FIELDS} before={null} buttons={['Raise']} save={raised} />
      <p class="help">What was used stays counted. The limit is as before when the days are over.</p>
    </Dialog>
  );
}
