// Lists and pages of the API's objects, each kind described by a table: how it is called, its columns, its fields, its scopes.
import type { ComponentChildren, ComponentType } from 'preact';
import { useState } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso';
import { type Free, call, may } from './client.ts';
import { type FieldSpec, shownFields, textOf } from './fields.ts';
import { Form } from './form.tsx';
import { notify, put, rowsOf, useFilters, useGet } from './hooks.ts';
import { Workspace, forgetNames } from './names.tsx';
import { Raise } from './raise.tsx';
import { query } from './ranges.ts';
import { type Column, Confirm, Facts, Loading, Page, Pager, Problem, Section, Table, TextField } from './ui.tsx';

export interface Kind {
  /** One of them, and several. */
  one: string;
  several: string;
  /** Its path below /console/, and the API's. */
  here: string;
  api: string;
  /** `scope.create`, `scope.update` …; each of several suffices. */
  scope: string | string[];
  columns: Column<Free>[];
  fields: FieldSpec[];
  empty: ComponentChildren;
  /** The parameter of the list that looks for a text, and the others that it always has. */
  search?: string;
  params?: Free;
  hasLimits?: boolean;
  /** Whether it is a budget itself, which can be raised for some days. */
  isBudget?: boolean;
  /** Whether something else makes them. */
  isMadeOtherwise?: boolean;
  /** What an update has done, where that is not in force at once. */
  saved?: string;
  facts?: (row: Free) => [string, ComponentChildren][];
  isReadOnly?: (row: Free) => string | null;
  /** What its end is called, what it means, and whether there can be something in it that ends too. */
  end?: { action: string; text: string; hasContent?: boolean };
  More?: ComponentType<{ data: Free; path: string; reload: () => void }>;
}

export const can = (kind: Kind, action: string): boolean => may(...[kind.scope].flat().map((scope) => `${scope}.${action}`));
export const titleOf = (row: Free): string => row.name ?? row.email ?? row.slug ?? row.id;
const linkOf = (kind: Kind, row: Free): string => `/console/${kind.here}/${encodeURIComponent(row.id ?? row.slug ?? row.name)}`;
const SIZE = 50;

/** A page of lists, one below the other, with one text to look for in all of them. */
export function Lists({ title, lead, kinds, children }: { title: string; lead: string; kinds: Kind[]; children?: ComponentChildren }) {
  const [filters, setFilters] = useFilters();
  const shown = kinds.filter((kind) => can(kind, 'list'));
  return (
    <Page title={title} lead={lead}>
      {shown.some((kind) => kind.search) && (
        <div class="filters" role="search">
          <TextField label={shown.every((kind) => kind.search === 'email') ? 'Whole address' : 'Name has'} value={filters.search ?? ''} onInput={(search) => setFilters({ search, ...Object.fromEntries(kinds.map((_, at) => [`page${at || ''}`, ''])) }, true)} />
        </div>
      )}
      {shown.map((kind, at) => (
        <List key={kind.here} kind={kind} pageName={`page${at || ''}`} />
      ))}
      {children}
    </Page>
  );
}

function List({ kind, pageName }: { kind: Kind; pageName: string }) {
  const [filters, setFilters] = useFilters();
  const page = Number(filters[pageName] ?? 0) || 0;
  const params = { ...kind.params, ...(kind.search ? { [kind.search]: filters.search } : {}), current_page: page, page_size: SIZE };
  const list = useGet<{ data: Free[]; total: number }>(kind.api + query(params));
  const [first, ...others] = kind.columns;
  const columns = first ? [{ ...first, cell: (row: Free) => <a href={linkOf(kind, row)}>{first.cell(row)}</a> }, ...others] : [];
  return (
    <Section title={kind.several} actions={!kind.isMadeOtherwise && can(kind, 'create') && <a class="button primary" href={`/console/${kind.here}/new`}>{`New ${kind.one}`}</a>}>
      <Problem error={list.error} retry={list.reload} />
      <Table label={kind.several} rows={rowsOf(list, 'data')} id={(row, at) => row.id ?? `${row.name} ${at}`} columns={columns} empty={filters.search && kind.search ? `None matches "${filters.search}".` : kind.empty} />
      {list.data && <Pager page={page} size={SIZE} total={list.data.total} onPage={(page) => setFilters({ [pageName]: page ? String(page) : '' })} />}
    </Section>
  );
}

/** The page of one object, or of a new one. */
export function One({ kind }: { kind: Kind }) {
  const id = useRoute().params.id ?? '';
  return id === 'new' && !kind.isMadeOtherwise ? <Make key={kind.here} kind={kind} /> : <Change key={id} kind={kind} id={id} />;
}

function Make({ kind }: { kind: Kind }) {
  const { route } = useLocation();
  const save = async (body: Free): Promise<void> => {
    const made = await call('POST', kind.api, body);
    forgetNames();
    notify('Saved: it is in force.');
    route(linkOf(kind, { ...body, ...made }));
  };
  return (
    <Page title={`New ${kind.one}`} lead={<a href={`/console/${kind.here.split('/')[0]}`}>{kind.several}</a>}>
      <Form fields={kind.fields} before={null} hasLimits={kind.hasLimits} buttons={['Save']} save={save} />
    </Page>
  );
}

function Change({ kind, id }: { kind: Kind; id: string }) {
  const path = `${kind.api}/${encodeURIComponent(id)}`;
  const loaded = useGet(path);
  const { data } = loaded;
  const [round, setRound] = useState(0);
  const save = async (body: Free): Promise<void> => {
    await put(path, loaded, body);
    forgetNames();
    notify(kind.saved ?? 'Saved: it is in force.');
    setRound((round) => round + 1);
    await loaded.reload();
  };
  return (
    <Page title={data ? titleOf(data) : kind.several} lead={<><a href={`/console/${kind.here.split('/')[0]}`}>{kind.several}</a> {data?.slug && <code>{data.slug}</code>}</>} actions={data && <Actions kind={kind} data={data} path={path} reload={loaded.reload} />}>
      <Problem error={loaded.error} retry={loaded.reload} />
      {!data && !loaded.error && <Loading />}
      {data && kind.facts && (
        <div class="card">
          <Facts pairs={kind.facts(data)} />
        </div>
      )}
      {data && <Fields kind={kind} data={data} save={save} />}
      {data && kind.More && <kind.More key={round} data={data} path={path} reload={loaded.reload} />}
    </Page>
  );
}

function Fields({ kind, data, save }: { kind: Kind; data: Free; save: (body: Free) => Promise<void> }) {
  const note = kind.isReadOnly?.(data);
  const fact = (field: FieldSpec): [string, ComponentChildren] => [field.label, field.name === 'workspace_id' ? <Workspace id={data.workspace_id} /> : textOf(field, data)];
  if (can(kind, 'update') && !note && shownFields(kind.fields, false).length > 0) {
    return (
      <Section title="Change">
        <Facts pairs={kind.fields.filter((field) => field.only === 'make' && field.name !== 'slug').map(fact)} />
        <Form fields={kind.fields} before={data} hasLimits={kind.hasLimits} buttons={['Save']} save={save} />
      </Section>
    );
  }
  return (
    <>
      {note && <p class="note">{note}</p>}
      <div class="card">
        <Facts pairs={kind.fields.map(fact)} />
      </div>
    </>
  );
}

function Actions({ kind, data, path, reload }: { kind: Kind; data: Free; path: string; reload: () => void }) {
  const { route } = useLocation();
  const [asks, setAsks] = useState('');
  const [name, setName] = useState('');
  const { end } = kind;
  const limits: Free[] = kind.hasLimits ? [data.usage_limits ?? []].flat() : [];
  const budget = kind.isBudget ? data : limits.length === 1 ? limits[0] : null;
  if (kind.isReadOnly?.(data)) return null;
  const remove = async (): Promise<void> => {
    await call('DELETE', path, name ? { name, force_delete: true } : undefined);
    notify('Done.');
    route(`/console/${kind.here.split('/')[0]}`);
  };
  return (
    <>
      {budget && can(kind, 'update') && <button type="button" onClick={() => setAsks('raise')}>Raise for some days</button>}
      {end && can(kind, 'delete') && <button type="button" class="danger" onClick={() => setAsks('end')}>{end.action}</button>}
      {asks === 'raise' && budget && <Raise current={budget.raise} save={(raise) => call('PUT', path, kind.isBudget ? { raise } : { usage_limits: { raise } })} onClose={() => { setAsks(''); reload(); }} />}
      {asks === 'end' && end && (
        <Confirm title={`${end.action}?`} action={end.action} onConfirm={remove} onClose={() => setAsks('')}>
          <p>
            <bdi>{titleOf(data)}</bdi>: {end.text}
          </p>
          {end.hasContent && <TextField label="Its name, to archive what is in it too" value={name} onInput={setName} help="Empty: only where nothing is in it." />}
        </Confirm>
      )}
    </>
  );
}
