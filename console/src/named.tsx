// The page of one object of the store, by what stands in the address: an id, or a slug that several workspaces may have.
import type { ComponentChildren } from 'preact';
import { useFilters, useGet } from './hooks.ts';
import { Workspace } from './names.tsx';
import { query } from './ranges.ts';
import { UUID, meant } from './judged.ts';
import { Page, Table } from './ui.tsx';

interface Row {
  id: string | null;
  slug: string;
  name: string;
  workspace_id: string | null;
}

/**
 * Gives `children` what paths name the object by: its id, since without a workspace a slug is that of the oldest in any of them. The slug
 * itself stands for what is in the settings file. `workspace` in the address, an id or slug, says whose the slug is.
 */
export function Named({ list, here, named, mayList, children }: { list: string; here: string; named: string; mayList: boolean; children: (id: string) => ComponentChildren }) {
  const [filters] = useFilters();
  const isId = named === 'new' || UUID.test(named) || !mayList;
  const found = useGet<{ data: Row[] }>(isId ? null : `${list}${query({ search: named, workspace_id: filters.workspace, page_size: 1000 })}`);
  if (isId || found.error) return <>{children(named)}</>;
  if (!found.data) return <Page title={named}><p class="loading" role="status">Loading …</p></Page>;
  const rows = meant(found.data.data, named, Boolean(filters.workspace));
  if (rows.length < 2) return <>{children(rows[0]?.id ?? named)}</>;
  return (
    <Page title={named} lead="Several workspaces have one with this slug.">
      <Table
        label="Those with this slug"
        rows={rows}
        id={(row) => row.id ?? row.slug}
        empty=""
        columns={[
          { name: 'Name', isLong: true, cell: (row) => <a href={`${here}/${row.id ?? encodeURIComponent(row.slug)}`}>{row.name}</a> },
          { name: 'Workspace', cell: (row) => <Workspace id={row.workspace_id} /> },
        ]}
      />
    </Page>
  );
}
