// The gateways of this store: which runs what, which is behind or silent.
import { type Free } from '../client.ts';
import { ago, integer } from '../format.ts';
import { rowsOf, useGet } from '../hooks.ts';
import { Ago, Badge, Page, Problem, Table } from '../ui.tsx';

export function Nodes() {
  const nodes = useGet<{ data: Free[] }>('/v1/nodes?page_size=1000', 5);
  const all = nodes.data?.data ?? [];
  const settings = new Set(all.map((node) => node.settings_hash)).size;
  return (
    <Page title="Nodes" lead="The gateways that use this store. A change is in force on each of them within two seconds.">
      <Problem error={nodes.error} retry={nodes.reload} />
      {settings > 1 && <p class="note">{integer(settings)} different settings are in force: compare the settings files of the nodes below.</p>}
      <Table
        label="Nodes"
        rows={rowsOf(nodes, 'data')}
        id={(node) => node.id}
        empty="No gateway has written of itself yet. Each does when it starts."
        columns={[
          { name: 'Name', isLong: true, cell: (node) => node.name },
          { name: 'Control port', isLong: true, cell: (node) => node.address ?? '–' },
          { name: 'Role', cell: (node) => node.role },
          { name: 'Status', cell: (node) => <Badge tone={node.status === 'serving' ? 'good' : node.status === 'silent' ? 'bad' : 'warn'}>{node.status}</Badge> },
          { name: 'Version', cell: (node) => node.version },
          { name: 'Revision', isNumber: true, cell: (node) => <>{integer(node.revision)} {node.behind > 0 && <Badge tone="warn">{integer(node.behind)} behind</Badge>}</> },
          { name: 'Settings', cell: (node) => <code>{node.settings_hash}</code> },
          { name: 'Heard from', cell: (node) => <Ago at={node.reported_at} /> },
          { name: 'Clock', cell: (node) => (Math.abs(node.clock_ahead_seconds) < 1 ? 'right' : <Badge tone="warn">{Math.abs(node.clock_ahead_seconds)} s {node.clock_ahead_seconds > 0 ? 'ahead' : 'behind'}</Badge>) },
          { name: 'Started', cell: (node) => (node.started_at ? ago(node.started_at) : '–') },
        ]}
      />
    </Page>
  );
}
