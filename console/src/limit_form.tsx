// The form of the limits of a key, workspace or provider (and of a key's expiry), and what it has the API change.
import type { Free } from './client.ts';
import { localTime } from './fields.ts';
import { RATE_UNITS } from './usage.tsx';
import { Choice, TextField } from './ui.tsx';

export type LimitInput = {
  expires: string;
  budget: string;
  alert: string;
  reset: string;
  rate: string;
  unit: string;
};

const RESETS: [string, string][] = [['', 'Never'], ['weekly', 'Weekly'], ['monthly', 'Monthly']];

/** Whether the form can show the limits of a key: one budget in dollars, one rate of requests. */
export function isSimple(key: Free): boolean {
  const usage = Array.isArray(key.usage_limits) ? key.usage_limits : key.usage_limits ? [key.usage_limits] : [];
  const rates: Free[] = key.rate_limits ?? [];
  return usage.length <= 1 && usage.every((limit: Free) => (limit.type ?? 'cost') === 'cost' && !limit.periodic_reset_days) && rates.length <= 1 && rates.every((rate) => (rate.type ?? 'requests') === 'requests');
}

export function limitInput(key: Free): LimitInput {
  const usage: Free = (Array.isArray(key.usage_limits) ? key.usage_limits[0] : key.usage_limits) ?? {};
  const rate: Free = key.rate_limits?.[0] ?? {};
  const text = (value: unknown): string => (value === null || value === undefined ? '' : String(value));
  return { expires: localTime(key.expires_at), budget: text(usage.credit_limit), alert: text(usage.alert_threshold), reset: text(usage.periodic_reset), rate: text(rate.value), unit: rate.unit ?? 'rpm' };
}

/**
 * The members of a key that the form stands for. `withLimits`: false where the key has more than the form shows. The expiry is sent where
 * it was changed alone: the form has no seconds, and a key that has expired can have another name.
 */
export function limitBody(input: LimitInput, withLimits: boolean, before: LimitInput): Free {
  const body: Free = input.expires === before.expires ? {} : { expires_at: input.expires ? new Date(input.expires).toISOString() : null };
  if (!withLimits) return body;
  const number = (text: string): number | null => (text === '' ? null : Number(text));
  const hasBudget = input.budget !== '' || input.alert !== '';
  body.usage_limits = hasBudget ? { credit_limit: number(input.budget), alert_threshold: number(input.alert), periodic_reset: input.reset || null } : null;
  body.rate_limits = input.rate === '' ? null : { type: 'requests', unit: input.unit, value: Number(input.rate) };
  return body;
}

/** The limits that were changed, for the update of an object: who may not change its limits may still change the rest of it. */
export function limitChanges(input: LimitInput, before: LimitInput): Free {
  const was = limitBody(before, true, before);
  return Object.fromEntries(Object.entries(limitBody({ ...input, expires: before.expires }, true, before)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(was[name])));
}

export function LimitFields({ input, set, hasExpiry = true }: { input: LimitInput; set: (input: LimitInput) => void; hasExpiry?: boolean }) {
  const put = (name: keyof LimitInput) => (value: string): void => set({ ...input, [name]: value });
  return (
    <>
      <div class="row">
        <TextField label="Budget, $" type="number" min="0" step="any" value={input.budget} onInput={put('budget')} placeholder="no limit" />
        <Choice label="Starts anew" value={input.reset} options={RESETS} onChange={put('reset')} />
        <TextField label="Alert at, $" type="number" min="0" step="any" value={input.alert} onInput={put('alert')} placeholder="none" />
      </div>
      <div class="row">
        <TextField label="Requests" type="number" min="0" step="1" value={input.rate} onInput={put('rate')} placeholder="no limit" />
        <Choice label="in" value={input.unit} options={RATE_UNITS} onChange={put('unit')} />
      </div>
      {hasExpiry && <TextField label="Expires" type="datetime-local" value={input.expires} onInput={put('expires')} help="Empty: never. Times are your own zone's." />}
    </>
  );
}
