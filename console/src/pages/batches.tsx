// The batches that the gateway runs: their progress, and the errors of their lines. They are made, cancelled and read at the data port, by
// OpenAI's API, with the key that made them.
import { useRoute } from 'preact-iso';
import { type Free, may } from '../client.ts';
import { curl, dataBase } from '../curl.ts';
import { ago, fullTime, integer } from '../format.ts';
import { rowsOf, useFilters, useGet } from '../hooks.ts';
import { ERROR_STATUSES } from '../judged.ts';
import { Workspace } from '../names.tsx';
import { query } from '../ranges.ts';
import { Ago, Badge, Choice, Code, Facts, Loading, Meter, Page, Pager, Problem, Section, Status, Table, type Tone } from '../ui.tsx';

const SIZE = 50;
const TONES: Record<string, Tone> = { completed: 'good', failed: 'bad', expired: 'bad', cancelled: 'warn', cancelling: 'warn' };
const isRunning = (batch: Free | null): boolean => ['validating', 'in_progress', 'finalizing', 'cancelling'].includes(batch?.status);
const at = (seconds: number | null | undefined): string | null => (seconds ? new Date(seconds * 1000).toISOString() : null);
const State = ({ batch }: { batch: Free }) => <Badge tone={TONES[batch.status] ?? 'quiet'}>{batch.status.replaceAll('_', ' ')}</Badge>;
const Lines = ({ batch }: { batch: Free }) => {
  const { completed = 0, failed = 0, total = 0 } = batch.request_counts ?? {};
  return total === 0 ? <>–</> : <Meter used={completed + failed} limit={total} text={`${integer(completed + failed)} of ${integer(total)}`} />;
};

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
          { name: 'Batch', isLong: true, cell: (batch) => <a href={`/console/batches/${batch.id}`}><code>{batch.id}</code></a> },
          { name: 'Status', cell: (batch) => <State batch={batch} /> },
          { name: 'Lines done', cell: (batch) => <Lines batch={batch} /> },
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

export function BatchPage() {
  const id = useRoute().params.id ?? '';
  const found = useGet<Free>(`/v1/managed-batches/${encodeURIComponent(id)}`, (batch) => (batch && !isRunning(batch) ? 0 : 10));
  const batch = found.data;
  const isOpen = isRunning(batch);
  const from = at(batch?.created_at);
  const failed = useGet<{ data: Free[]; total: number }>(from && may('logs.list') ? `/v1/logs${query({ time_of_generation_min: from, trace_id: id, status_code: ERROR_STATUSES, page_size: SIZE })}` : null, () => (isOpen ? 10 : 0));
  const call = (path: string, method = 'GET'): string => curl(dataBase(), path, method, {}, undefined);
  const commands = batch ? [...(isOpen ? [['Cancel it', call(`/v1/batches/${id}/cancel`, 'POST')]] : []), ...[['Results', batch.output_file_id], ['Lines that failed', batch.error_file_id]].flatMap(([name, file]) => (file ? [[name, call(`/v1/files/${file}/content`)]] : []))] : [];
  return (
    <Page title="Batch" lead={<code>{id}</code>} actions={batch && may('logs.list') && <a class="button" href={`/console/requests${query({ trace: id, range: '7d' })}`}>Its requests</a>}>
      <Problem error={found.error ?? failed.error} retry={found.reload} />
      {!found.data && !found.error && <Loading />}
      {batch && (
        <>
          <div class="card">
            <Facts
              pairs={[
                ['Status', <State batch={batch} />],
                ['Lines done', <Lines batch={batch} />],
                ['Failed', integer(batch.request_counts?.failed)],
                ['Sent again', integer(batch.lines_sent_again)],
                ['Endpoint', batch.endpoint],
                ['Window', batch.completion_window],
                ['Made', fullTime(from)],
                ['Finished', batch.completed_at ? fullTime(at(batch.completed_at)) : null],
                ['Expires', isOpen ? ago(at(batch.expires_at)) : null],
                ['Workspace', <Workspace id={batch.workspace_id} />],
              ]}
            />
          </div>
          {(batch.errors?.data ?? []).length > 0 && (
            <Section title="Lines that are wrong">
              <Table label="Lines that are wrong" rows={batch.errors.data as Free[]} id={(_, index) => String(index)} empty="" columns={[{ name: 'Line', isNumber: true, cell: (error) => error.line ?? '–' }, { name: 'Code', cell: (error) => error.code }, { name: 'What', cell: (error) => <div class="wrap">{error.message}</div> }]} />
            </Section>
          )}
          {failed.data && failed.data.total > 0 && (
            <Section title={`Lines that failed (${integer(failed.data.total)})`}>
              <Table
                label="Lines that failed"
                rows={failed.data.data}
                id={(log) => log.id}
                empty=""
                columns={[
                  { name: 'Time', cell: (log) => <a href={`/console/requests/${log.id}`}><Ago at={log.created_at} /></a> },
                  { name: 'Status', cell: (log) => <Status code={log.response_status_code} /> },
                  { name: 'Error', cell: (log) => log.error_code ?? '–' },
                  { name: 'Model', isLong: true, cell: (log) => log.requested_model ?? log.ai_model ?? '–' },
                ]}
              />
            </Section>
          )}
          {commands.length > 0 && (
            <Section title="With a key of its workspace, at the data port">
              {commands.map(([name = '', text = '']) => (
                <div key={name}>
                  <h3>{name}</h3>
                  <Code label={name} text={text} />
                </div>
              ))}
            </Section>
          )}
        </>
      )}
    </Page>
  );
}
