// The batches that the gateway runs. They are made at the data port, by OpenAI's API.
import type { Free } from '../client.ts';
import { integer } from '../format.ts';
import { rowsOf, useFilters, useGet } from '../hooks.ts';
import { query } from '../ranges.ts';
import { Ago, Badge, Choice, Meter, Page, Pager, Problem, Table, type Tone } from '../ui.tsx';

const SIZE = 50;
const TONES: Record<string, Tone> = { completed: 'good', failed: 'bad', expired: 'bad', cancelled: 'warn', cancelling: 'warn' };
const at = (seconds: number | null | undefined): string | null => (seconds ? new Date(seconds * 1000).toISOString() : null);

export function Batches() {
  const [filters, setFilters] = useFilters();
  const page = Number(filters.page ?? 0) || 0;
  const batches = useGet<{ data: Free[]; total: number }>(`/v1/managed-batches${query({ open: filters.open, current_page: page, page_size: SIZE })}`, 10);
  return (
    <Page title="Batches" lead="Batches that the gateway runs, line by line or in a provider's own jobs." actions={<Choice label="Show" value={filters.open ?? ''} options={[['', 'All'], ['true', 'Not finished']]} onChange={(open) => setFilters({ open, page: '' })} />}>
      <Problem error={batches.error} retry={batches.reload} />
      <Table
        label="Batches"
        rows={rowsOf(batches, 'data')}
        id={(batch) => batch.id}
        empty="No batch. POST /v1/batches at the data port makes one: docs/batches.md."
        columns={[
          { name: 'Batch', cell: (batch) => <code>{batch.id}</code> },
          { name: 'Status', cell: (batch) => <Badge tone={TONES[batch.status] ?? 'quiet'}>{batch.status.replaceAll('_', ' ')}</Badge> },
          { name: 'Lines', cell: (batch) => <Meter used={batch.request_counts?.completed ?? 0} limit={batch.request_counts?.total ?? 0} text={`${integer(batch.request_counts?.completed)} of ${integer(batch.request_counts?.total)}`} /> },
          { name: 'Failed', isNumber: true, cell: (batch) => integer(batch.request_counts?.failed) },
          { name: 'Sent again', isNumber: true, cell: (batch) => integer(batch.lines_sent_again) },
          { name: 'Endpoint', cell: (batch) => batch.endpoint },
          { name: 'Made', cell: (batch) => <Ago at={at(batch.created_at)} /> },
          { name: 'Expires', cell: (batch) => <Ago at={at(batch.expires_at)} /> },
          { name: 'Errors', isLong: true, cell: (batch) => (batch.errors?.data ?? []).map((error: Free) => error.message).join(' ') || '–' },
        ]}
      />
      {batches.data && <Pager page={page} size={SIZE} total={batches.data.total} onPage={(page) => setFilters({ page: page ? String(page) : '' })} />}
    </Page>
  );
}
