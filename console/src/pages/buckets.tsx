// The buckets of a budget, and who has used most of theirs.
import { useState } from 'preact/hooks';
import { type Free, call, may } from '../client.ts';
import { notify, rowsOf, useGet } from '../hooks.ts';
import { query } from '../ranges.ts';
import { isRaised } from '../raise.tsx';
import { amount } from '../usage.tsx';
import { Badge, Confirm, Meter, Pager, Problem, Section, Table } from '../ui.tsx';

const SIZE = 50;

export function Buckets({ policy }: { policy: Free }) {
  const limit = policy.credit_limit + (isRaised(policy.raise) ? policy.raise.amount : 0);
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
    <Section title="Buckets, the most used first">
      <Problem error={buckets.error} retry={buckets.reload} />
      <Table
        label="Buckets"
        rows={rowsOf(buckets, 'data')}
        id={(bucket) => bucket.id}
        empty="Nothing was used of it in this window."
        columns={[
          { name: 'Bucket', isLong: true, cell: (bucket) => bucket.value_key },
          { name: 'Used', cell: (bucket) => <Meter used={bucket.current_usage} limit={limit} text={`${amount(policy.type, bucket.current_usage)} of ${amount(policy.type, limit)}`} /> },
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
    </Section>
  );
}
