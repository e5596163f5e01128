// Policies: budgets and rates with a bucket for each user, key, model …, and who has used most of them.
import { useState } from 'preact/hooks';
import { type Free, call, may } from '../client.ts';
import { ago, integer } from '../format.ts';
import { notify, rowsOf, useFilters, useGet } from '../hooks.ts';
import { query } from '../ranges.ts';
import { amount } from '../usage.tsx';
import { Badge, Confirm, Meter, Page, Pager, Problem, Section, Table, TextField } from '../ui.tsx';

const UNITS: Record<string, string> = { rps: 'a second', rpm: 'a minute', rph: 'an hour', rpd: 'a day', rpw: 'a week' };
const SIZE = 50;

const keysOf = (list: Free[] | null): string => (list ?? []).map((one) => (typeof one === 'string' ? one : one.key)).join(', ') || 'all together';
const conditions = (list: Free[] | null): string => (list ?? []).map((one) => `${one.key} ${one.excludes ? 'is not' : 'is'} ${[one.value ?? one.excludes].flat().join(' or ')}`).join(', ') || 'every request';

export function Limits() {
  const [filters, setFilters] = useFilters();
  const params = query({ search: filters.search, status: 'active', page_size: 200 });
  const usage = useGet<{ data: Free[] }>(`/v1/policies/usage-limits${params}`);
  const rates = useGet<{ data: Free[] }>(`/v1/policies/rate-limits${params}`);
  const shown = usage.data?.data.find((policy: Free) => policy.id === filters.policy);
  return (
    <Page title="Limits" lead="Policies limit what a user, key, model or value of the metadata may use. Limits of a single key are on its own page.">
      <div class="filters" role="search">
        <TextField label="Name has" value={filters.search ?? ''} onInput={(search) => setFilters({ search, policy: '' }, true)} />
      </div>
      <Problem error={usage.error ?? rates.error} retry={usage.reload} />
      <Section title="Budgets">
        <Table
          label="Budgets"
          rows={rowsOf(usage, 'data')}
          id={(policy) => policy.id}
          empty="No budget policy. POST /v1/policies/usage-limits makes one: docs/limits.md."
          columns={[
            { name: 'Name', isLong: true, cell: (policy) => policy.name ?? policy.slug },
            { name: 'Limit', isNumber: true, cell: (policy) => amount(policy.type, policy.credit_limit) + (policy.type === 'cost' ? '' : ` ${policy.type}`) },
            { name: 'For each', cell: (policy) => keysOf(policy.group_by) },
            { name: 'Of', isLong: true, cell: (policy) => conditions(policy.conditions) },
            { name: 'Starts anew', cell: (policy) => (policy.next_usage_reset_at ? ago(policy.next_usage_reset_at) : 'never') },
            { name: 'Hard', cell: (policy) => (policy.hard ? 'yes' : 'no') },
            { name: 'Buckets', cell: (policy) => <button type="button" class="link" aria-expanded={filters.policy === policy.id} onClick={() => setFilters({ policy: filters.policy === policy.id ? '' : policy.id })}>Most used</button> },
          ]}
        />
        {shown && <Buckets policy={shown} />}
      </Section>
      <Section title="Rates">
        <Table
          label="Rates"
          rows={rowsOf(rates, 'data')}
          id={(policy) => policy.id}
          empty="No rate policy. POST /v1/policies/rate-limits makes one: docs/limits.md."
          columns={[
            { name: 'Name', isLong: true, cell: (policy) => policy.name ?? policy.slug },
            { name: 'Limit', isNumber: true, cell: (policy) => `${integer(policy.value)} ${policy.type} ${UNITS[policy.unit] ?? policy.unit}` },
            { name: 'For each', cell: (policy) => keysOf(policy.group_by) },
            { name: 'Of', isLong: true, cell: (policy) => conditions(policy.conditions) },
          ]}
        />
      </Section>
    </Page>
  );
}

function Buckets({ policy }: { policy: Free }) {
  const [page, setPage] = useState(0);
  const path = `/v1/policies/usage-limits/${encodeURIComponent(policy.id)}/entities`;
  const buckets = useGet<{ data: Free[]; total: number }>(`${path}${query({ current_page: page, page_size: SIZE })}`);
  const [emptied, setEmptied] = useState<Free | null>(null);
  const empty = async (bucket: Free): Promise<void> => {
    await call('PUT', `${path}/${encodeURIComponent(bucket.id)}/reset`, {});
    notify('The bucket is empty again.');
    buckets.reload();
  };
  return (
    <>
      <h3>
        Buckets of <bdi>{policy.name ?? policy.slug}</bdi>, the most used first
      </h3>
      <Problem error={buckets.error} retry={buckets.reload} />
      <Table
        label="Buckets"
        rows={rowsOf(buckets, 'data')}
        id={(bucket) => bucket.id}
        empty="Nothing was used of it in this window."
        columns={[
          { name: 'Bucket', isLong: true, cell: (bucket) => bucket.value_key },
          { name: 'Used', cell: (bucket) => <Meter used={bucket.current_usage} limit={policy.credit_limit} text={`${amount(policy.type, bucket.current_usage)} of ${amount(policy.type, policy.credit_limit)}`} /> },
          { name: 'Held', isNumber: true, cell: (bucket) => amount(policy.type, bucket.reserved_usage) },
          { name: 'Status', cell: (bucket) => <Badge tone={bucket.status === 'exhausted' ? 'bad' : 'good'}>{bucket.status}</Badge> },
          { name: 'Change', cell: (bucket) => (may('policies.update') ? <button type="button" class="link" onClick={() => setEmptied(bucket)}>Empty it</button> : '') },
        ]}
      />
      {buckets.data && <Pager page={page} size={SIZE} total={buckets.data.total} onPage={setPage} />}
      {emptied && (
        <Confirm title="Empty this bucket?" action="Empty it" onConfirm={() => empty(emptied)} onClose={() => setEmptied(null)}>
          <p>
            <bdi>{emptied.value_key}</bdi> may use the whole limit again. This cannot be undone.
          </p>
        </Confirm>
      )}
    </>
  );
}
